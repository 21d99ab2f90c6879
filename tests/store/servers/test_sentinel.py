"""Behind Sentinel: the line goes where the master is, and follows when another becomes it."""

import asyncio
import contextlib
from collections.abc import Iterator

import hiredis
import pytest

from lingua_scheduler.protocol.signals import CancelJob
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
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
    await store.open(wait=True)
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
    assert [view.node_id for view in await store.node_views.all()] == ["n1", "n2"]
    assert heir.command("EXISTS", store.keys.placement) == 1
    await store.close()
    master.launch()
    sentinels.demote(master, heir)


async def test_the_line_leaves_a_master_that_is_replaced_though_it_lives(sentinels: Sentinels) -> None:
    store = Store(f"{sentinels.url}?client_name=follower", key_prefix="test:v1")
    await store.open(wait=True)
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
    await store.placements.assign("n1", 10, 10)
    assert heir.command("EXISTS", store.keys.placement) == 1
    await store.close()
    sentinels.demote(master, heir)


async def test_signals_go_through_the_master(sentinels: Sentinels) -> None:
    store = Store(sentinels.url, key_prefix="test:v1")
    await store.open(wait=True)
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
    await store.open(wait=True)
    await store.line.call("SET", "x", "in database 3")
    assert "db3:" in sentinels.pair()[0].command("INFO", "keyspace")
    await store.close()


async def test_no_sentinel_that_lives_is_said_in_one_sentence() -> None:
    with pytest.raises(RedisAway, match=r"127\.0\.0\.1"):
        await Store("redis+sentinel://127.0.0.1:1,127.0.0.1:2/main", key_prefix="x").open()
