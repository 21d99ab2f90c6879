"""The shared line: ordered, batched, bounded, and honest when Redis is away."""

import asyncio
import signal

import pytest
from redis.exceptions import ResponseError
from tests.support.servers import RedisProcess, binaries
from tests.support.waiting import until

from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store, StoreError, shown


async def test_replies_come_back_to_those_who_asked(store: Store) -> None:
    calls = [store.line.call("ECHO", str(i)) for i in range(1000)]
    assert await asyncio.gather(*calls) == [str(i) for i in range(1000)]


async def test_calls_of_one_tick_leave_in_one_write(store: Store) -> None:
    before = await reads(store)
    await asyncio.gather(*(store.line.call("ECHO", str(i)) for i in range(500)))
    # One for the calls, one for each of our own questions.
    assert await reads(store) - before <= 3


async def reads(store: Store) -> int:
    info = await store.line.call("INFO", "stats")
    return int(next(line for line in info.splitlines() if line.startswith("total_reads_processed")).split(":")[1])


async def test_an_error_reaches_only_the_one_who_caused_it(store: Store) -> None:
    bad, good = store.line.call("NOSUCH"), store.line.call("ECHO", "fine")
    with pytest.raises(ResponseError):
        await bad
    assert await good == "fine"


async def test_a_caller_who_gave_up_does_not_shift_the_others(store: Store) -> None:
    impatient, patient = store.line.call("ECHO", "one"), store.line.call("ECHO", "two")
    impatient.cancel()
    assert await patient == "two"


async def test_too_many_waiting_calls_are_refused(server: RedisProcess) -> None:
    store = Store(server.url, key_prefix="x", max_pending=100)
    await store.open()
    calls = [store.line.call("ECHO", "x") for _ in range(100)]
    with pytest.raises(RedisAway, match="100 commands are waiting"):
        store.line.call("ECHO", "one too many")
    await asyncio.gather(*calls)
    assert await store.line.call("ECHO", "fine") == "fine"
    await store.close()


async def test_every_waiter_fails_when_the_connection_breaks_and_the_line_comes_back(store: Store) -> None:
    waiting = store.line.call("BLPOP", "nothing-here", 0)
    other = Store(store_url(store), key_prefix="x")
    await other.open()
    await other.line.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    with pytest.raises(RedisAway):
        await waiting
    await until(lambda: store.is_ready)
    assert await store.line.call("ECHO", "back") == "back"
    await other.close()


def store_url(store: Store) -> str:
    return store.url


async def test_calls_fail_at_once_while_redis_is_away() -> None:
    private = RedisProcess(str(binaries()["valkey"]))
    store = Store(private.url, key_prefix="x")
    await store.open()
    downs: list[str] = []
    store.line.on_down = downs.append
    private.stop()
    await until(lambda: downs)
    with pytest.raises(RedisAway):
        store.line.call("ECHO", "anybody?")
    with pytest.raises(RedisAway):
        await store.insist(lambda: store.nodes.shards(), timeout_s=0.1)
    await store.close()


async def test_a_server_that_hangs_counts_as_away() -> None:
    private = RedisProcess(str(binaries()["valkey"]))
    store = Store(private.url, key_prefix="x", timeout_ms=200)
    await store.open()
    private.signal(signal.SIGSTOP)
    with pytest.raises(RedisAway, match=r"no answer for 0\.2 s"):
        await store.line.call("ECHO", "hello?")
    private.signal(signal.SIGCONT)
    await until(lambda: store.is_ready)
    assert await store.line.call("ECHO", "back") == "back"
    await store.close()
    private.stop()


async def test_an_idle_line_does_not_count_as_a_hanging_server(server: RedisProcess) -> None:
    store = Store(server.url, key_prefix="x", timeout_ms=40)
    await store.open()
    downs: list[str] = []
    store.line.on_down = downs.append
    await asyncio.sleep(0.2)
    assert await store.line.call("ECHO", "still here") == "still here"
    assert downs == []
    await store.close()


async def test_opening_without_a_server_fails_in_one_sentence() -> None:
    store = Store("unix:///nowhere/redis.sock", key_prefix="x")
    with pytest.raises(RedisAway, match="nowhere"):
        await store.open()


@pytest.mark.parametrize("url", ["http://127.0.0.1", "nonsense", "redis://127.0.0.1:notaport"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(StoreError, match="is not a Redis address"):
        Store(url, key_prefix="x")


async def test_a_server_that_may_evict_our_keys_is_refused_unless_told(server: RedisProcess) -> None:
    server.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(StoreError, match="maxmemory-policy allkeys-lru"):
            await Store(server.url, key_prefix="x").open()
        permissive = Store(server.url, key_prefix="x", allow_eviction=True)
        await permissive.open()
        await permissive.close()
    finally:
        server.command("CONFIG", "SET", "maxmemory-policy", "noeviction")


async def test_a_password_is_asked_for_and_never_shown(server: RedisProcess) -> None:
    server.command("ACL", "SETUSER", "lingua", "on", ">sesame", "~*", "&*", "+@all")
    right = Store(f"unix://lingua:sesame@{server.socket}", key_prefix="x")
    await right.open()
    assert "sesame" not in right.url
    await right.close()
    with pytest.raises((RedisAway, StoreError)) as caught:
        await Store(f"unix://lingua:wrong@{server.socket}", key_prefix="x").open()
    assert "wrong" not in str(caught.value).replace("WRONGPASS", "")
    server.command("ACL", "DELUSER", "lingua")


def test_passwords_are_hidden_in_every_form() -> None:
    assert shown("redis://user:pass@host:1/0") == "redis://***@host:1/0"
    assert shown("redis://:pass@host") == "redis://***@host"
    assert shown("unix:///tmp/x.sock") == "unix:///tmp/x.sock"
    assert "sesame" not in shown("redis://host/0?password=sesame")
