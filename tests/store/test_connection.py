"""The shared line: ordered, batched, bounded, and honest when Redis is away."""

import asyncio
import signal
from collections.abc import Callable

import pytest
from redis import Redis
from redis.asyncio.connection import DefaultParser
from redis.exceptions import ResponseError

from lingua_scheduler.store import connection
from lingua_scheduler.store.connection import RedisAway, WritesRefused
from lingua_scheduler.store.store import Store, StoreError, shown
from lingua_scheduler.telemetry import metrics
from tests.support.clusters import Server
from tests.support.servers import RedisProcess, binaries
from tests.support.waiting import until


@pytest.fixture(params=list(binaries()))
def server(request: pytest.FixtureRequest, server_named: Callable[[str], RedisProcess]) -> RedisProcess:
    """One connection to one server: without the Cluster."""
    return server_named(request.param)


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
    with pytest.raises(RedisAway, match="100 commands are already waiting"):
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
        await store.insist(lambda: store.placements.shards(), timeout_s=0.1)
    await store.close()


@pytest.mark.parametrize("ticks", range(4))
async def test_a_call_at_the_very_moment_the_server_dies_does_not_hang(ticks: int) -> None:
    private = Server(str(binaries()["valkey"]))
    store = Store(f"redis://{private.address}", key_prefix="x")
    await store.open()
    private.kill()
    for _ in range(ticks):
        await asyncio.sleep(0)
    with pytest.raises(RedisAway):
        await asyncio.wait_for(store.line.call("ECHO", "hello?"), 60)
    await until(lambda: not store.is_ready)
    await store.close()
    private.stop()


async def test_a_server_that_hangs_counts_as_away() -> None:
    private = RedisProcess(str(binaries()["valkey"]))
    store = Store(private.url, key_prefix="x", timeout_ms=200)
    await store.open(wait=True)
    private.signal(signal.SIGSTOP)
    with pytest.raises(RedisAway, match=r"no answer for 0\.2 s"):
        await store.line.call("ECHO", "hello?")
    private.signal(signal.SIGCONT)
    await until(lambda: store.is_ready)
    assert await store.line.call("ECHO", "back") == "back"
    await store.close()
    private.stop()


async def test_an_idle_line_does_not_count_as_a_hanging_server(server: RedisProcess) -> None:
    store = Store(server.url, key_prefix="x", timeout_ms=400)
    await store.open(wait=True)
    downs: list[str] = []
    store.line.on_down = downs.append
    await asyncio.sleep(1)
    assert await store.line.call("ECHO", "still here") == "still here"
    assert downs == []
    await store.close()


async def test_opening_without_a_server_fails_in_one_sentence() -> None:
    store = Store("unix:///nowhere/redis.sock", key_prefix="x")
    with pytest.raises(RedisAway, match="nowhere"):
        await store.open()


@pytest.mark.parametrize(
    ("url", "because"),
    [
        ("http://127.0.0.1", "it must begin with one of .*redis://"),
        ("nonsense", "it must begin with one of"),
        ("redis://127.0.0.1:notaport", "a port is not a number"),
        ("redis://127.0.0.1?colour=red", "unknown parameter 'colour'"),
        ("redis://user:se/same@host", "a / in a password is written %2F"),
    ],
)
def test_an_address_that_is_none_is_refused(url: str, because: str) -> None:
    with pytest.raises(StoreError, match=f"is not a Redis address: {because}") as caught:
        Store(url, key_prefix="x")
    assert "same" not in str(caught.value)


async def test_a_replica_is_not_taken_for_a_server(server: RedisProcess) -> None:
    server.command("REPLICAOF", "127.0.0.1", "1")
    try:
        with pytest.raises(RedisAway, match="it is a replica"):
            await Store(server.url, key_prefix="x").open()
    finally:
        server.command("REPLICAOF", "NO", "ONE")


async def test_a_server_that_becomes_a_replica_is_away_until_it_is_a_master_again(
    store: Store, server: RedisProcess
) -> None:
    downs: list[str] = []
    store.line.on_down = downs.append
    server.command("REPLICAOF", "127.0.0.1", "1")
    try:
        with pytest.raises(RedisAway, match="has become a replica"):
            await store.placements.assign("n1", 10, 10)
        await until(lambda: downs)
    finally:
        server.command("REPLICAOF", "NO", "ONE")
    await until(lambda: store.is_ready)
    await store.placements.assign("n1", 10, 10)


async def test_insisting_while_too_much_waits_leaves_the_others_their_time(server: RedisProcess) -> None:
    store = Store(server.url, key_prefix="x", max_pending=100)
    await store.open()
    calls = [store.line.call("ECHO", "x") for _ in range(100)]
    assert await store.insist(lambda: store.placements.shards(), timeout_s=5) == []
    await asyncio.gather(*calls)
    await store.close()


async def test_who_is_refused_though_redis_is_there_asks_less_and_less_often(store: Store) -> None:
    asked = 0

    async def refused() -> None:
        nonlocal asked
        asked += 1
        raise RedisAway("too many wait")

    with pytest.raises(RedisAway, match="too many wait"):
        await store.insist(refused, timeout_s=1.0)
    assert 2 <= asked <= 10


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


async def test_no_password_where_one_is_needed_is_not_waited_for(server: RedisProcess) -> None:
    server.command("CONFIG", "SET", "requirepass", "sesame")
    try:
        with pytest.raises(StoreError, match="Authentication required; check user, password and database"):
            async with asyncio.timeout(60):
                await Store(server.url, key_prefix="x").open(wait=True)
    finally:
        with Redis(unix_socket_path=str(server.socket), password="sesame") as admin:
            admin.config_set("requirepass", "")


def test_passwords_are_hidden_in_every_form() -> None:
    assert shown("redis://user:pass@host:1/0") == "redis://***@host:1/0"
    assert shown("redis://:pass@host") == "redis://***@host"
    assert shown("unix:///tmp/x.sock") == "unix:///tmp/x.sock"
    assert "sesame" not in shown("redis://host/0?password=sesame")
    assert shown("redis+cluster://user:pass@h1:1,h2:2") == "redis+cluster://***@h1:1,h2:2"
    assert shown("redis+sentinel://:pass@h1,h2/main?sentinel_password=sesame") == (
        "redis+sentinel://***@h1,h2/main?sentinel_password=***"
    )
    # Not as they should be written, but not shown all the same.
    assert shown("redis://user:pa@ss@host") == "redis://***@host"
    assert shown("redis://user:pa/ss@host") == "redis://***@host"


async def test_a_server_that_takes_no_writes_counts_as_away(server: RedisProcess) -> None:
    store = Store(server.url, key_prefix="x")
    await store.open()
    server.command("CONFIG", "SET", "maxmemory", "1")
    try:
        with pytest.raises(RedisAway, match="memory"):
            await store.placements.assign("n1", 100, 1000)
    finally:
        server.command("CONFIG", "SET", "maxmemory", "0")
    assert (await store.placements.assign("n1", 100, 1000))[1].shard == 0
    await store.close()


def measured() -> tuple[float, float]:
    """How many round trips, and how long they took together."""
    name = "lingua_redis_round_trip_seconds"
    count, total = (metrics.REGISTRY.get_sample_value(name + part) for part in ("_count", "_sum"))
    return count or 0.0, total or 0.0


async def test_a_round_trip_takes_as_long_as_redis_takes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SAMPLE_EVERY_S", 0.0)
    before_count, before_s = measured()
    await store.line.call("CLIENT", "PAUSE", "300", "ALL")
    await store.line.call("PING")
    count, total_s = measured()
    assert count == before_count + 2
    assert 0.2 < total_s - before_s < 30


async def test_not_every_round_trip_is_measured(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SAMPLE_EVERY_S", 3600.0)
    before_count, _ = measured()
    for _ in range(100):
        await store.line.call("PING")
    assert measured()[0] <= before_count + 1


async def test_waiting_for_mail_is_no_round_trip(store: Store) -> None:
    line = store.another_line()
    await line.open()
    _, before_s = measured()
    assert await line.call("BLPOP", "nothing", "1.5") is None
    assert measured()[1] - before_s < 1.2
    await line.close()


@pytest.mark.parametrize("taken", ["-evalsha", "-@write", "resetkeys ~other*"])
async def test_a_server_that_allows_us_nothing_any_more_counts_as_away(server: RedisProcess, taken: str) -> None:
    store = Store(server.url, key_prefix="x")
    await store.open()
    store.watch_writes()
    server.command("ACL", "SETUSER", "default", *taken.split())
    try:
        with pytest.raises(WritesRefused, match=r"permission|ACL|user executing the script"):
            await store.placements.assign("n1", 100, 1000)
        assert store.is_refused
        assert not store.is_ready
    finally:
        server.command("ACL", "SETUSER", "default", "allkeys", "+@all")
    await until(lambda: store.is_ready, 5, "back by itself")
    assert (await store.placements.assign("n1", 100, 1000))[1].shard == 0
    await store.close()


async def test_one_command_that_is_not_allowed_takes_nothing_else_along(server: RedisProcess) -> None:
    store = Store(server.url, key_prefix="x")
    await store.open()
    store.watch_writes()
    downs: list[str] = []
    store.line.on_down = downs.append
    server.command("ACL", "SETUSER", "default", "-type", "-smembers")
    try:
        for command in (("TYPE", "x:y"), ("EVAL", "return redis.call('SMEMBERS', KEYS[1])", 1, "x:y")):
            with pytest.raises(ResponseError):
                await asyncio.wait_for(store.line.call(*command), 60)
        assert (await store.placements.assign("n1", 100, 1000))[1].shard == 0
    finally:
        server.command("ACL", "SETUSER", "default", "+@all")
    assert downs == []
    await store.close()


async def test_an_error_waits_for_a_probe_only_if_there_is_one_and_it_is_about_permissions(
    server: RedisProcess,
) -> None:
    store = Store(server.url, key_prefix="x")
    await store.open()
    line = store.line
    assert isinstance(line, connection.ServerLine)
    server.command("ACL", "SETUSER", "default", "-type")
    try:
        with pytest.raises(ResponseError):  # no probe would ever settle it
            await asyncio.wait_for(line.call("TYPE", "x:y"), 60)
    finally:
        server.command("ACL", "SETUSER", "default", "+@all")
    store.watch_writes()
    in_doubt = watched(line._in_doubt)
    with pytest.raises(ResponseError):
        await line.call("INCR", "x:y", "one too many")
    assert in_doubt == []
    await store.close()


def watched(event: asyncio.Event) -> list[str]:
    """Filled when the event is set from now on."""
    found: list[str] = []
    set_it = event.set

    def noted() -> None:
        found.append("set")
        set_it()

    event.set = noted  # type: ignore[method-assign]
    return found


async def test_a_server_that_is_busy_with_a_script_counts_as_away(server: RedisProcess) -> None:
    store, other = (Store(server.url, key_prefix="x", timeout_ms=10_000) for _ in range(2))
    await store.open()
    await other.open()
    store.watch_writes()
    # The name that every release knows.
    server.command("CONFIG", "SET", "lua-time-limit", "20")
    try:
        endless = other.line.call("EVAL", "while true do end", 0)
        await asyncio.sleep(0.1)
        with pytest.raises(WritesRefused, match="BUSY"):
            await store.placements.assign("n1", 100, 1000)
        assert not store.is_ready
        server.command("SCRIPT", "KILL")
        with pytest.raises(ResponseError):
            await endless
    finally:
        server.command("CONFIG", "SET", "lua-time-limit", "5000")
    await until(lambda: store.is_ready, 5, "back by itself")
    await other.close()
    await store.close()


@pytest.mark.parametrize(
    ("said", "is_refused"),
    [
        ("BUSY Redis is busy running a script.", True),
        ("OOM command not allowed when used memory > 'maxmemory'.", True),
        ("MISCONF Redis is configured to save RDB snapshots", True),
        ("ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -MISCONF Redis is", True),
        ("NEWWORD not now", True),
        ("ERR DISCARD without MULTI", False),
        ("ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -READONLY You can't write", False),
        ("WRONGTYPE Operation against a key holding the wrong kind of value", False),
        ("NOGROUP No such key", False),
        ("NOSCRIPT No matching script.", False),
        ("BUSYGROUP Consumer Group name already exists", False),
        ("MOVED 1 127.0.0.1:7001", False),
        ("NOPERM this user has no permissions to run the 'type' command", False),
    ],
)
def test_what_a_server_says_of_itself_is_told_from_what_it_says_of_a_command(said: str, is_refused: bool) -> None:
    error = DefaultParser.parse_error(said)  # type: ignore[no-untyped-call]
    assert connection.is_refusal(error) == is_refused
