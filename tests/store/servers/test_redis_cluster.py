"""A Cluster behind the same calls: spread, moved under load, killed, and honest about it."""

import asyncio
import contextlib
import itertools
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import cast

import pytest
from redis.crc import key_slot

from lingua_scheduler.domain.jobs.attempts import DispatchOutcome
from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.domain.nodes.nodes import BeatOutcome
from lingua_scheduler.store import scripts
from lingua_scheduler.store.connection import RedisAway, ServerLine, WritesRefused
from lingua_scheduler.store.servers import redis_cluster as cluster_line
from lingua_scheduler.store.servers.local_cluster import LocalServer, in_step, node_id
from lingua_scheduler.store.store import Store, StoreError
from tests.support.clusters import Cluster, Server, errors
from tests.support.fleet import HERE, POOL, RULES, dispatch, entry, join, order
from tests.support.servers import binaries
from tests.support.waiting import until

SHARDS = range(21)
# A failover is the Cluster's own affair; we follow it within this time.
HEAL_S = 3.0


@contextlib.asynccontextmanager
async def store_on(url: str, timeout_ms: int = 2_000) -> AsyncIterator[Store]:
    store = Store(url, key_prefix="test:v1", timeout_ms=timeout_ms)
    # A timeout that is short for the sake of a test may end the connecting of a busy machine.
    await store.open(wait=True)
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
async def store(cluster: Cluster) -> AsyncIterator[Store]:
    async with store_on(cluster.url) as opened:
        yield opened


@pytest.fixture(scope="module")
def cluster_with_a_replica() -> Iterator[Cluster]:
    cluster = Cluster(str(binaries()["valkey"]), replicas=1, node_timeout_ms=1_000)
    yield cluster
    cluster.stop()


@pytest.fixture(params=list(binaries()))
def cluster_with_a_spare(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    binary = binaries()[request.param]
    if binary is None:
        pytest.skip(f"{request.param} is not on this machine")
    cluster = Cluster(binary, masters=2, spares=1)
    yield cluster
    cluster.stop()


async def one_node_in_each_shard(store: Store, max_jobs: int = 2) -> None:
    for shard in SHARDS:
        await store.placements.assign(f"n{shard}", 1, 1000)
        await join(store, entry(f"n{shard}", max_jobs=max_jobs), shard=shard)


def a_key(store: Store, cluster: Cluster, owner: LocalServer) -> str:
    """A key that lives on this very master."""
    keys = (store.keys.shard(number).free for number in itertools.count())
    return next(key for key in keys if cluster.owner_of(key) is owner)


async def test_shards_spread_over_all_masters(store: Store, cluster: Cluster) -> None:
    await one_node_in_each_shard(store)
    nodes_on = Counter(cluster.owner_of(store.keys.shard(shard).free).port for shard in SHARDS)
    assert len(nodes_on) == 3
    for master in cluster.masters:
        assert len(master.command("KEYS", "*:seen")) == nodes_on[master.port]
    assert {view.node_id for view in await store.node_views.all()} == {f"n{shard}" for shard in SHARDS}
    assert (await store.pools.build_map()).nodes == {POOL: dict.fromkeys(SHARDS, 1)}


async def test_fifty_racing_callers_on_three_slots_leave_three_winners_in_every_shard(
    store: Store, cluster: Cluster
) -> None:
    astray = cluster.errors("MOVED")
    await one_node_in_each_shard(store, max_jobs=3)
    races = [(shard, order(f"{shard}-{caller}")) for caller in range(50) for shard in SHARDS]
    placed = await asyncio.gather(*(store.jobs.dispatch(shard, wanted, RULES) for shard, wanted in races))
    outcomes = Counter((shard, one.outcome) for (shard, _), one in zip(races, placed, strict=True))
    assert outcomes == {
        (shard, outcome): count
        for shard in SHARDS
        for outcome, count in ((DispatchOutcome.DISPATCHED, 3), (DispatchOutcome.FULL, 47))
    }
    assert cluster.errors("MOVED") == astray


async def test_scripts_of_batches_are_loaded_first_and_others_when_they_are_called(cluster: Cluster) -> None:
    """A script that nobody calls would only make the memory larger that every call walks through."""
    library = scripts.read_library()
    digests = [library[name].sha for name in ("job_dispatch", "node_register", "letter_replay")]
    masters = len(cluster.command("PING"))
    cluster.command("SCRIPT", "FLUSH")
    async with store_on(cluster.url) as another:
        assert cluster.command("SCRIPT", "EXISTS", *digests) == [[1, 0, 0]] * masters
        await one_node_in_each_shard(another)
        assert cluster.command("SCRIPT", "EXISTS", *digests) == [[1, 1, 0]] * masters


async def test_calls_for_one_slot_stay_in_order(store: Store) -> None:
    key = store.keys.shard(0).free
    await asyncio.gather(*(store.line.call("RPUSH", key, i) for i in range(1000)))
    assert await store.line.call("LRANGE", key, 0, -1) == [str(i) for i in range(1000)]


async def test_commands_without_a_key_find_somebody(store: Store) -> None:
    assert await store.line.call("PING") == "PONG"
    assert await store.line.call("ECHO", "hello") == "hello"


async def test_streams_are_read_where_they_are(store: Store) -> None:
    for shard in SHARDS:
        key = store.keys.shard(shard).free
        await store.line.call("XGROUP", "CREATE", key, "g", "0", "MKSTREAM")
        await store.line.call("XADD", key, "*", "word", "hola")
        [[read, entries]] = await store.line.call("XREADGROUP", "GROUP", "g", "c", "COUNT", 1, "STREAMS", key, ">")
        assert (read, entries[0][1]) == (key, ["word", "hola"])


class Traffic:
    """Callers who never pause: each counts up a key of its own, makes new ones, and places and ends jobs."""

    def __init__(self, store: Store, shard: int) -> None:
        self._store = store
        self._shard = shard
        self._is_over = False
        self.answered = 0

    async def run(self) -> None:
        async with asyncio.TaskGroup() as callers:
            for number in range(10):
                callers.create_task(self._count(number))
            callers.create_task(self._make_keys())
            callers.create_task(self._place_jobs())

    def stop(self) -> None:
        self._is_over = True

    def _turns(self) -> Iterator[int]:
        for turn in itertools.count(1):
            if self._is_over:
                return
            yield turn
            self.answered += 1

    def _key(self, name: str) -> str:
        return self._store.keys.shard(self._shard).job(name)

    async def _count(self, number: int) -> None:
        for turn in self._turns():
            # Lost or done twice, either would show.
            assert await self._store.line.call("INCR", self._key(f"count-{number}")) == turn

    async def _make_keys(self) -> None:
        for turn in self._turns():
            assert await self._store.line.call("INCR", self._key(f"fresh-{turn}")) == 1

    async def _place_jobs(self) -> None:
        for turn in self._turns():
            attempt, placed = await dispatch(self._store, order(turn), self._shard)
            await self._store.jobs.end(attempt, placed.epoch, JobEvent.FINISH)


async def test_a_slot_that_moves_under_load_costs_nobody_a_call(
    cluster_with_a_spare: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Until it has slots of its own the target is left whenever we look, unless somebody waits for it.
    monkeypatch.setattr(cluster_line, "LOOK_EVERY_S", 0.02)
    cluster = cluster_with_a_spare
    # A call waits for a slot that is half moved; a busy machine may take a while to move it.
    async with store_on(cluster.url, timeout_ms=120_000) as store:
        await join(store, entry("n1"))
        key = store.keys.shard(0).free
        source, target, slot = cluster.owner_of(key), cluster.spares[0], key_slot(key.encode())
        traffic = Traffic(store, shard=0)
        running = asyncio.create_task(traffic.run())

        async def some_calls(count: int = 100) -> None:
            enough = traffic.answered + count
            await until(lambda: traffic.answered >= enough or running.done())

        await some_calls()
        target.command("CLUSTER", "SETSLOT", slot, "IMPORTING", node_id(source))
        source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", node_id(target))
        await until(lambda: (cluster.errors("ASK") and cluster.errors("TRYAGAIN")) or running.done())
        await some_calls(2_000)
        while moving := source.command("CLUSTER", "GETKEYSINSLOT", slot, 20):
            source.command("MIGRATE", "127.0.0.1", target.port, "", 0, 5_000, "KEYS", *moving)
            await some_calls(20)
        monkeypatch.undo()
        target.command("CLUSTER", "SETSLOT", slot, "NODE", node_id(target))
        source.command("CLUSTER", "SETSLOT", slot, "NODE", node_id(target))
        await some_calls(2_000)
        traffic.stop()
        await running
        assert store.is_ready
        # Those who were on their way, and not one more once it is known.
        assert 0 < cluster.errors("MOVED") < 50
        assert cluster.owner_of(key) is target


async def keep_beating(store: Store, shard: int, failures: list[RedisAway]) -> None:
    """Any surprise but RedisAway ends it, and the test."""
    while True:
        try:
            beaten = await store.nodes.beat(shard, HERE, f"n{shard}", 45_000)
            assert beaten.outcome in (BeatOutcome.ALIVE, BeatOutcome.GONE)
        except RedisAway as error:
            failures.append(error)
        await asyncio.sleep(0.005)


async def everybody_beats(store: Store) -> None:
    await asyncio.gather(*(store.nodes.beat(shard, HERE, f"n{shard}", 45_000) for shard in SHARDS))


@contextlib.asynccontextmanager
async def beating(store: Store) -> AsyncIterator[list[RedisAway]]:
    failures: list[RedisAway] = []
    tasks = [asyncio.create_task(keep_beating(store, shard, failures)) for shard in SHARDS]
    try:
        yield failures
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends), ends


async def test_a_killed_master_is_followed_by_its_replica(cluster_with_a_replica: Cluster) -> None:
    cluster = cluster_with_a_replica
    async with store_on(cluster.url) as store:
        await one_node_in_each_shard(store)
        ups: list[str] = []
        store.line.on_up, store.line.on_down = lambda: ups.append("up"), lambda reason: ups.append("down")
        victim, heir = cluster.pair()
        async with beating(store) as failures:
            victim.kill()
            await until(lambda: not store.is_ready)
            await until(lambda: heir.info("replication")["role"] == "master" and cluster.is_ok())
            await until(lambda: store.is_ready, within_s=HEAL_S)
            await everybody_beats(store)
        assert failures
        assert ups == ["down", "up"]
        assert heir.command("SCRIPT", "EXISTS", scripts.read_library()["node_beat"].sha) == [1]
        victim.launch()
        await until(lambda: in_step(victim) and cluster.is_ok())
        await everybody_beats(store)


async def test_a_dead_master_is_noticed_though_nobody_calls(cluster_with_a_replica: Cluster) -> None:
    cluster = cluster_with_a_replica
    async with store_on(cluster.url) as store:
        victim, heir = cluster.pair()
        victim.kill()
        await until(lambda: not store.is_ready)
        await until(lambda: heir.info("replication")["role"] == "master" and cluster.is_ok())
        await until(lambda: store.is_ready, within_s=HEAL_S)
        victim.launch()
        await until(lambda: in_step(victim) and cluster.is_ok())


async def test_a_master_that_hands_over_costs_nobody_a_call(
    cluster_with_a_replica: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_line, "LOOK_EVERY_S", 0.2)
    load = scripts.load

    async def load_slowly(line: ServerLine, wanted: Sequence[scripts.Script]) -> None:
        await asyncio.sleep(0.1)
        await load(line, wanted)

    monkeypatch.setattr(scripts, "load", load_slowly)
    cluster = cluster_with_a_replica
    async with store_on(f"{cluster.url}?client_name=follower") as store:
        await one_node_in_each_shard(store)
        master, heir = cluster.pair()
        async with beating(store) as failures:
            heir.command("CLUSTER", "FAILOVER")
            await until(lambda: heir.info("replication")["role"] == "master" and in_step(master))
            await everybody_beats(store)
        assert failures == []
        assert cluster.errors("MOVED") > 0
        await until(lambda: "name=follower" not in master.command("CLIENT", "LIST"), what="no line to who has no slots")
        await everybody_beats(store)


async def test_without_any_master_we_refuse_at_once_and_come_back_with_them() -> None:
    cluster = Cluster(str(binaries()["valkey"]), masters=2, node_timeout_ms=1_000)
    try:
        async with store_on(cluster.url) as store:
            for master in cluster.masters:
                master.kill()
            await until(lambda: not store.is_ready)
            for shard in SHARDS:
                with pytest.raises(RedisAway):
                    store.line.call("GET", store.keys.shard(shard).free)
            for master in cluster.masters:
                master.launch()
            await until(cluster.is_ok)
            await until(lambda: store.is_ready, within_s=HEAL_S)
            await join(store, entry("n1"))
    finally:
        cluster.stop()


async def test_a_master_that_hangs_holds_up_its_own_slots_alone(cluster: Cluster) -> None:
    async with store_on(cluster.url, timeout_ms=1_000) as store:
        hanging, lively = (a_key(store, cluster, master) for master in cluster.masters[:2])
        cluster.masters[0].signal(signal.SIGSTOP)
        try:
            stuck = store.line.call("GET", hanging)
            assert await store.line.call("GET", lively) is None
            with pytest.raises(RedisAway, match="no answer for 1 s"):
                await stuck
            assert not store.is_ready
            with pytest.raises(RedisAway):
                store.line.call("GET", hanging)
            assert await store.line.call("GET", lively) is None
        finally:
            cluster.masters[0].signal(signal.SIGCONT)
        await until(lambda: store.is_ready)
        assert await store.line.call("GET", hanging) is None


async def test_a_slot_that_nobody_serves_for_a_moment_takes_patience(cluster: Cluster) -> None:
    async with store_on(cluster.url, timeout_ms=500) as store:
        key = store.keys.shard(0).free
        owner, slot = cluster.owner_of(key), key_slot(key.encode())
        owner.command("CLUSTER", "DELSLOTS", slot)
        try:
            with pytest.raises(RedisAway, match="ClusterDownError from 127"):
                await store.line.call("GET", key)
            patient = store.line.call("GET", key)
            await until(lambda: errors(owner, "CLUSTERDOWN") > 1)
        finally:
            owner.command("CLUSTER", "ADDSLOTS", slot)
        assert await patient is None
        await until(cluster.is_ok)


async def test_a_command_under_way_when_its_server_is_found_to_refuse_writes_is_away_too(cluster: Cluster) -> None:
    async with store_on(cluster.url, timeout_ms=500) as store:
        key = store.keys.shard(0).free
        owner, slot = cluster.owner_of(key), key_slot(key.encode())
        owner.command("CLUSTER", "DELSLOTS", slot)
        try:
            under_way = store.line.call("GET", key)
            line = cast("cluster_line.ClusterLine", store.line)._owners[slot]
            assert line is not None
            line._refuse_all("CLUSTERDOWN, as the look at writes found")
            with pytest.raises(RedisAway):
                await under_way
        finally:
            owner.command("CLUSTER", "ADDSLOTS", slot)
        await until(cluster.is_ok)


async def test_only_so_many_commands_may_look_for_their_server(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store_on(cluster.url, timeout_ms=20_000) as store:
        # Of the Cluster as a whole: its lines have their own bounds already.
        monkeypatch.setattr(store.line, "_max_pending", 10)
        detours = store.line._detours  # type: ignore[attr-defined]
        key = store.keys.shard(0).free
        owner, slot = cluster.owner_of(key), key_slot(key.encode())
        owner.command("CLUSTER", "DELSLOTS", slot)
        try:
            patient = [store.line.call("GET", key) for _ in range(10)]
            await until(lambda: len(detours) == 10)
            with pytest.raises(RedisAway, match="10 commands are already waiting for their server"):
                await store.line.call("GET", key)
        finally:
            owner.command("CLUSTER", "ADDSLOTS", slot)
        assert await asyncio.gather(*patient) == [None] * 10
        await until(lambda: not detours)
        await until(cluster.is_ok)


async def test_closing_leaves_nobody_waiting(cluster: Cluster) -> None:
    async with store_on(cluster.url) as store:
        key = store.keys.shard(0).free
        owner, slot = cluster.owner_of(key), key_slot(key.encode())
        other = a_key(store, cluster, next(master for master in cluster.masters if master is not owner))
        owner.command("CLUSTER", "DELSLOTS", slot)
        try:
            waiting = [store.line.call("GET", key), store.line.call("BLPOP", other, 0)]
            # Replies are in order, so by now the first one is refused and waits for another try.
            assert await store.line.call("ECHO", key) == key
            await store.close()
            for call in waiting:
                with pytest.raises(RedisAway, match="closed"):
                    await call
        finally:
            owner.command("CLUSTER", "ADDSLOTS", slot)
        with pytest.raises(RedisAway, match="closed"):
            store.line.call("GET", key)
        await until(cluster.is_ok)


async def test_a_cluster_with_a_hole_is_not_opened(cluster: Cluster) -> None:
    key = "test"
    owner, slot = cluster.owner_of(key), key_slot(key.encode())
    cluster.command("CLUSTER", "DELSLOTS", slot)
    try:
        with pytest.raises(RedisAway, match="1 of 16384 slots have no server"):
            await Store(cluster.url, key_prefix="x").open()
    finally:
        cluster.command("CLUSTER", "SETSLOT", slot, "NODE", node_id(owner))
        await until(cluster.is_ok)


async def test_one_seed_that_lives_is_enough(cluster: Cluster) -> None:
    async with store_on(f"redis+cluster://127.0.0.1:1,{cluster.masters[2].address}") as store:
        await everybody_beats(store)


async def test_no_seed_that_lives_is_said_in_one_sentence() -> None:
    with pytest.raises(RedisAway, match=r"127\.0\.0\.1"):
        await Store("redis+cluster://127.0.0.1:1,127.0.0.1:2", key_prefix="x").open()


async def test_a_password_is_asked_for_by_every_master_and_never_shown(cluster: Cluster) -> None:
    cluster.command("ACL", "SETUSER", "lingua", "on", ">sesame", "~*", "&*", "+@all")
    try:
        async with store_on(f"redis+cluster://lingua:sesame@{cluster.hosts}") as store:
            await everybody_beats(store)
            assert store.url == f"redis+cluster://***@{cluster.hosts}"
        with pytest.raises(StoreError) as caught:
            await Store(f"redis+cluster://lingua:wrong@{cluster.hosts}", key_prefix="x").open()
        assert "wrong" not in str(caught.value)
    finally:
        cluster.command("ACL", "DELUSER", "lingua")


async def test_one_server_of_a_cluster_is_not_taken_for_a_server(cluster: Cluster) -> None:
    with pytest.raises(StoreError, match="is part of a Cluster; use an address of the form redis"):
        await Store(f"redis://{cluster.masters[0].address}", key_prefix="x").open()


async def test_a_server_alone_is_not_taken_for_a_cluster() -> None:
    alone = Server(str(binaries()["valkey"]))
    try:
        with pytest.raises(StoreError, match=r"refused the connection: .*cluster support disabled"):
            await Store(f"redis+cluster://{alone.address}", key_prefix="x").open()
    finally:
        alone.stop()


async def test_a_master_that_may_evict_our_keys_is_refused(cluster: Cluster) -> None:
    cluster.masters[1].command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(StoreError, match="maxmemory-policy allkeys-lru"):
            await Store(cluster.url, key_prefix="x").open()
    finally:
        cluster.masters[1].command("CONFIG", "SET", "maxmemory-policy", "noeviction")


async def test_a_slot_that_stays_half_migrated_counts_as_away(cluster_with_a_spare: Cluster) -> None:
    cluster = cluster_with_a_spare
    async with store_on(cluster.url, timeout_ms=400) as store:
        store.watch_writes()
        await join(store, entry("n1"))
        key = store.keys.shard(0).free
        source, target, slot = cluster.owner_of(key), cluster.spares[0], key_slot(key.encode())
        target.command("CLUSTER", "SETSLOT", slot, "IMPORTING", node_id(source))
        source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", node_id(target))
        source.command("MIGRATE", "127.0.0.1", target.port, key, 0, 5_000)
        with pytest.raises(WritesRefused, match=r"TryAgain|Ask"):
            await store.jobs.dispatch(0, order(1), RULES)
        assert not store.is_ready
        took_s = []
        for _ in range(5):
            began_s = time.monotonic()
            with pytest.raises(WritesRefused):
                await store.jobs.dispatch(0, order(1), RULES)
            took_s.append(time.monotonic() - began_s)
        # A busy machine may hold up one of them.
        assert min(took_s) < 0.4, "told at once"
        while moving := source.command("CLUSTER", "GETKEYSINSLOT", slot, 20):
            source.command("MIGRATE", "127.0.0.1", target.port, "", 0, 5_000, "KEYS", *moving)
        for server in (target, source):
            server.command("CLUSTER", "SETSLOT", slot, "NODE", node_id(target))
        await until(lambda: store.is_ready)
        assert (await store.jobs.dispatch(0, order(1), RULES)).node_id == "n1"
