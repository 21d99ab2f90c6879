"""Behind Sentinel: the line goes where the master is, and follows when another becomes it."""

import asyncio
import contextlib
from collections.abc import Iterator

import hiredis
import pytest

from lingua_scheduler.protocol.signals import CancelJob
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.servers.addresses import Address, read_sentinel
from lingua_scheduler.store.store import Store, StoreError
from tests.support.clusters import MASTER_NAME, Sentinels
from tests.support.fleet import entry, join
from tests.support.servers import binaries
from tests.support.waiting import until

# A failover is the Sentinels' own affair; we follow it within this time.
HEAL_S = 10.0


@pytest.fixture(scope="module", params=["valkey"])
def module_sentinels(request: pytest.FixtureRequest) -> Iterator[Sentinels]:
    binary = binaries()[request.param]
    if binary is None:
        pytest.skip(f"{request.param} is not on this machine")
    # Long enough that a busy machine is not taken for a dead master.
    started = Sentinels(binary, down_after_ms=2000)
    yield started
    started.stop()


@pytest.fixture
def sentinels(module_sentinels: Sentinels) -> Sentinels:
    module_sentinels.settle()
    return module_sentinels


async def test_the_line_follows_to_the_promoted_replica_when_the_master_is_killed(sentinels: Sentinels) -> None:
    store = Store(sentinels.url, key_prefix="test:v1")
    await store.open()
    await join(store, entry("n1"))
    master, heir = sentinels.pair()
    await until(lambda: heir.command("DBSIZE") == master.command("DBSIZE"))
    events: list[str] = []
    store.line.on_up, store.line.on_down = lambda: events.append("up"), lambda reason: events.append("down")
    master.kill()
    await until(lambda: not store.is_ready)
    with pytest.raises(RedisAway):
        store.line.call("PING")
    await until(lambda: store.is_ready, within_s=20)
    assert events == ["down", "up"]
    await join(store, entry("n2"))
    assert [view.node_id for view in await store.nodes.view()] == ["n1", "n2"]
    assert heir.command("EXISTS", store.keys.placement) == 1
    await store.close()
    master.launch()
    sentinels.demote(master, heir)


async def test_the_line_leaves_a_master_that_is_replaced_though_it_lives(sentinels: Sentinels) -> None:
    store = Store(f"{sentinels.url}?client_name=follower", key_prefix="test:v1")
    await store.open()
    master, heir = sentinels.pair()
    events: list[str] = []
    store.line.on_up, store.line.on_down = lambda: events.append("up"), events.append

    async def accepted() -> bool:
        with contextlib.suppress(hiredis.ReplyError):
            return bool(sentinels.sentinels[0].command("SENTINEL", "FAILOVER", MASTER_NAME) == "OK")
        return False

    await until(accepted, within_s=20)
    await until(lambda: heir.info("replication")["role"] == "master")
    await until(lambda: "name=follower" in heir.command("CLIENT", "LIST") and store.is_ready, within_s=HEAL_S)
    assert len(events) == 2
    await store.nodes.place("n1", 10, 10)
    assert heir.command("EXISTS", store.keys.placement) == 1
    await store.close()
    sentinels.demote(master, heir)


async def test_signals_go_through_the_master(sentinels: Sentinels) -> None:
    store = Store(sentinels.url, key_prefix="test:v1")
    await store.open()
    heard: list[CancelJob] = []
    listening = asyncio.create_task(store.signals.listen({CancelJob: heard.append}))
    await until(store.signals.listening.is_set)
    await store.signals.publish(CancelJob("i-1", "job-0-1"))
    await until(lambda: heard == [CancelJob("i-1", "job-0-1")])
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    await store.close()


async def test_a_name_no_sentinel_knows_is_said_in_one_sentence(sentinels: Sentinels) -> None:
    with pytest.raises(RedisAway, match=r"^no Sentinel knows a master named nobody$"):
        await Store(f"redis+sentinel://{sentinels.hosts}/nobody", key_prefix="x").open()


async def test_one_sentinel_that_lives_is_enough(sentinels: Sentinels) -> None:
    alive = sentinels.sentinels[1].address
    store = Store(f"redis+sentinel://127.0.0.1:1,{alive}/{MASTER_NAME}/3", key_prefix="x")
    await store.open()
    await store.line.call("SET", "x", "in database 3")
    assert "db3:" in sentinels.pair()[0].command("INFO", "keyspace")
    await store.close()


async def test_no_sentinel_that_lives_is_said_in_one_sentence() -> None:
    with pytest.raises(RedisAway, match=r"127\.0\.0\.1"):
        await Store("redis+sentinel://127.0.0.1:1,127.0.0.1:2/main", key_prefix="x").open()


def test_addresses_of_sentinels_are_read() -> None:
    url = read_sentinel("redis+sentinel://user:pass@a,b:7/main/3?sentinel_password=sesame&client_name=lingua")
    assert (url.sentinels, url.master_name) == ((Address("a", 26379), Address("b", 7)), "main")
    master, sentinel = url.connect(Address("c", 1)), url.connect_to_sentinel(Address("a", 26379))
    assert (master.username, master.password, master.db, master.client_name) == ("user", "pass", 3, "lingua")
    assert (sentinel.username, sentinel.password, sentinel.db, sentinel.client_name) == (None, "sesame", 0, "lingua")


@pytest.mark.parametrize(
    ("url", "because"),
    [
        ("redis+sentinel://a,b", "after the hosts comes /master-name"),
        ("redis+sentinel://a,b/main/0/1", "after the hosts comes /master-name"),
        ("redis+sentinel://a,b/main/first", "first is no database number"),
        ("redis+sentinel:///main", "a host is missing"),
        ("redis+sentinel://a:x/main", "a port is not a number"),
        ("redis+sentinel://user:se/same@a/main", "a / in a password is written %2F"),
    ],
)
def test_an_address_that_is_none_is_refused(url: str, because: str) -> None:
    with pytest.raises(StoreError, match=f"is not a Redis address: {because}") as caught:
        Store(url, key_prefix="x")
    assert "same" not in str(caught.value)
