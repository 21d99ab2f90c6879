"""What the sweep ends, and what stays taken."""

from collections.abc import AsyncIterator, Iterable
from typing import Any, cast

import msgspec
import pytest

from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.domain.nodes.owners import Owner
from lingua_scheduler.domain.watching.failures import FailureFilter
from lingua_scheduler.services.attempts.assignments import Assignments
from lingua_scheduler.services.attempts.ending import Endings
from lingua_scheduler.services.attempts.failures import FailureLog
from lingua_scheduler.services.nodes.connected import connected_nodes
from lingua_scheduler.services.nodes.links import NodeLinks
from lingua_scheduler.services.nodes.sweeper import Sweeper
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.jobs.jobs import JobNote
from lingua_scheduler.store.store import Store
from tests.support.clocks import Clock
from tests.support.connected import connected_to
from tests.support.fleet import HERE, POOL, RULES, RUN_MS, dispatch, entry, join, ledger, order
from tests.support.schedulers import settings_with
from tests.support.servers import RedisProcess

LINGER_MS = 9_000


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def store(server: RedisProcess, clock: Clock) -> AsyncIterator[Store]:
    opened = Store(server.url, key_prefix="test:v1", clock=clock, timeout_ms=30_000)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def reads(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys of the strings that are read: jobs' records."""
    call, read = store.line.call, []

    def counted(command: str, *arguments: Any) -> Any:
        if command == "GET":
            read.append(arguments[0])
        return call(command, *arguments)

    monkeypatch.setattr(store.line, "call", counted)
    return read


def sweeper(store: Store, connected: Any = None) -> Sweeper:
    endings = Endings("i-here", store.jobs, Assignments(lambda step, assignment: None), settings_with().nodes)
    # No node is silent here, so nobody is asked to remove one.
    return Sweeper(store, connected, endings, 0.0, 0.0, LINGER_MS)


async def test_a_slot_that_is_swept_stays_taken_while_its_node_may_be_at_it(store: Store, clock: Clock) -> None:
    await join(store, entry("tells", alive_ms=10 * RUN_MS)._replace(profile='{"reports_jobs":true}'))
    await join(store, entry("silent", alive_ms=10 * RUN_MS))
    for serial in range(4):
        await dispatch(store, order(serial))
    assert (await ledger(store, "tells"), await ledger(store, "silent")) == ((2, 0, 2), (2, 0, 2))
    sweeping = sweeper(store)
    await sweeping.sweep()
    clock.pass_ms(RUN_MS + 1)
    await sweep_at_the_new_time(sweeping)
    assert (await ledger(store, "tells"), await ledger(store, "silent")) == ((2, 0, 2), (0, 2, 0))
    assert (await store.jobs.read(0, "job-0-0"))["state"] == "RETRYING"
    clock.pass_ms(LINGER_MS + 1)
    await sweep_at_the_new_time(sweeping)
    assert await ledger(store, "tells") == (0, 2, 0)


async def test_a_repair_knows_the_shards_again_that_have_nodes_and_frees_a_wrong_place(store: Store) -> None:
    await join(store, entry("n1"))
    await store.line.call("HSET", store.keys.placement, "lost", "999 1")
    await store.line.call("DEL", store.keys.load, store.keys.room)
    nobodys = cast("Any", None)
    sweeping = sweeper(store, connected_nodes(store, NodeLinks("i-here"), nobodys, nobodys, settings_with()))
    for placed in ({"n1", "lost"}, {"n1"}):
        await sweeping.repair()
        assert await store.placements.shards() == [0]
        assert set(await store.placements.all()) == placed


async def wait_for_nodes(store: Store, jobs: Iterable[str], owner: str) -> None:
    for job in jobs:
        await store.jobs.note(0, JobNote(f"job-0-{job}", (POOL,), "s", 0, owner), 60_000)


async def look_later(sweeping: Sweeper, reads: list[str]) -> int:
    """How many jobs are read when it is time to look for those of a dead instance again."""
    reads.clear()
    sweeping._look_again_at = 0.0
    await sweeping.close_forsaken({"i-dead"})
    return len(reads)


async def state_of(store: Store, job: str) -> str:
    return (await store.jobs.read(0, f"job-0-{job}"))["state"]


async def test_the_jobs_of_a_dead_instance_are_looked_for_once_and_those_that_run_until_they_end(
    store: Store, reads: list[str]
) -> None:
    await join(store, entry("n1"))
    await wait_for_nodes(store, [f"other{serial}" for serial in range(50)], "i-here")
    await wait_for_nodes(store, ["waiting"], "i-dead")
    attempt, _ = await dispatch(store, msgspec.structs.replace(order("running"), owner="i-dead"))
    sweeping = sweeper(store)
    assert await look_later(sweeping, reads) <= 53
    assert [await state_of(store, job) for job in ("waiting", "other0")] == ["FAILED", "CREATED"]
    for _ in range(10):
        assert await look_later(sweeping, reads) == 1
    # Its node is gone, and nobody begins another attempt.
    await store.jobs.end(attempt, "", JobEvent.LOSE_ATTEMPT)
    assert await state_of(store, "running") == "RETRYING"
    await look_later(sweeping, reads)
    assert await state_of(store, "running") == "FAILED"
    assert await look_later(sweeping, reads) == 0
    # It was there again, and died again.
    await sweeping.close_forsaken(set())
    await wait_for_nodes(store, ["again"], "i-dead")
    await look_later(sweeping, reads)
    assert await state_of(store, "again") == "FAILED"


async def test_the_jobs_of_a_dead_instance_leave_a_trace_once(store: Store, reads: list[str]) -> None:
    await wait_for_nodes(store, ["waiting"], "i-dead")
    failures = FailureLog(store.failures, 100, 60_000)
    for sweeping in (sweeper(store), sweeper(store)):
        sweeping.on_forsaken = failures.forsaken
        await look_later(sweeping, reads)
    await failures.write()
    (failure,) = await store.failures.latest(FailureFilter(), 10)
    assert (failure.job_id, failure.code, failure.instance_id) == ("job-0-waiting", "RESULT_LOST", "i-dead")
    assert failure.reason == "instance i-dead had this job and is gone"
    assert (failure.src, failure.tgt) == tuple(POOL.split(":")[:2])


async def test_the_many_jobs_among_which_those_of_a_dead_instance_may_be_are_read_in_portions(
    store: Store, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lingua_scheduler.services.nodes.sweeper.FORSAKEN_MAX", 10)
    await wait_for_nodes(store, map(str, range(25)), "i-dead")
    sweeping = sweeper(store)
    assert [await look_later(sweeping, reads) for _ in range(4)] == [10, 10, 5, 0]
    assert {await state_of(store, str(serial)) for serial in range(25)} == {"FAILED"}


@pytest.mark.parametrize("fails", [0, 1])
async def test_a_look_for_jobs_of_a_dead_instance_that_redis_interrupts_is_made_again(
    store: Store, monkeypatch: pytest.MonkeyPatch, fails: int
) -> None:
    await wait_for_nodes(store, ["first", "second"], "i-dead")
    sweeping, find, asked = sweeper(store), store.jobs.find, 0

    async def fail_once(job_id: str) -> Any:
        nonlocal asked
        asked += 1
        if asked == fails + 1:
            raise RedisAway("gone at that moment")
        return await find(job_id)

    monkeypatch.setattr(store.jobs, "find", fail_once)
    with pytest.raises(RedisAway):
        await sweeping.close_forsaken({"i-dead"})
    # Not at once.
    await sweeping.close_forsaken({"i-dead"})
    assert asked == 2
    sweeping._rest_until = 0.0
    await sweeping.close_forsaken({"i-dead"})
    assert {await state_of(store, job) for job in ("first", "second")} == {"FAILED"}


async def sweep_at_the_new_time(sweeping: Sweeper) -> None:
    """The test moves the clock, which the sweep would take for a jump."""
    sweeping._drifts.clear()
    await sweeping.sweep()


async def in_three_shards(store: Store) -> None:
    for shard in range(3):
        await store.placements.assign(f"n{shard}", 1, 1000)
        await store.nodes.register(shard, HERE, entry(f"n{shard}", alive_ms=10 * RUN_MS))


async def test_a_shard_whose_server_is_away_keeps_none_of_the_others_waiting(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await in_three_shards(store)
    for shard in range(3):
        wanted = msgspec.structs.replace(order("x"), job_id=f"job-{shard}-x")
        await store.jobs.dispatch(shard, wanted, RULES)
    clock.pass_ms(RUN_MS + 1)
    overdue = store.jobs.overdue

    async def fail_first(shard: int, most: int) -> Any:
        if shard == 0:
            raise RedisAway("the server of this shard is gone")
        return await overdue(shard, most)

    monkeypatch.setattr(store.jobs, "overdue", fail_first)
    with pytest.raises(RedisAway):
        await sweeper(store).sweep()
    assert [(await ledger(store, f"n{shard}", shard))[0] for shard in range(3)] == [1, 0, 0]


async def test_nothing_is_swept_before_silence_proves_something_again(store: Store, clock: Clock) -> None:
    connected = connected_to(store)
    await join(store, entry("n1", alive_ms=RUN_MS))
    await dispatch(store, order(1))
    clock.pass_ms(2 * RUN_MS)
    endings = Endings("i-here", store.jobs, Assignments(lambda step, assignment: None), settings_with().nodes)
    sweeping = Sweeper(store, connected, endings, 3600.0, 0.0, LINGER_MS)
    sweeping.suspend_judgement()
    await sweeping.sweep()
    assert (await ledger(store, "n1"))[0] == 1
    assert await store.owners.holder("n1") is not None
    sweeping._judge_leases_from = 0.0
    await sweeping.sweep()
    assert (await ledger(store, "n1"))[0] == 0
    assert await store.owners.holder("n1") is not None
    sweeping._judge_nodes_from = 0.0
    await sweeping.sweep()
    assert await store.owners.holder("n1") is None


async def test_the_nodes_of_a_dead_instance_are_removed_once_and_again_when_it_dies_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected = connected_to(store)
    await join(store, entry("n1"), Owner("i-dead", "c1"))
    await join(store, entry("n2"), Owner("i-alive", "c1"))
    sweeping = sweeper(store, connected)
    asked: list[set[str]] = []
    owned_by = store.owners.owned_by

    async def watched(instances: Iterable[str]) -> Any:
        asked.append(set(instances))
        if len(asked) == 1:
            raise RedisAway("gone at that moment")
        return await owned_by(asked[-1])

    monkeypatch.setattr(store.owners, "owned_by", watched)
    with pytest.raises(RedisAway):
        await sweeping.remove_orphans(["i-dead"])
    for dead in (["i-dead"], ["i-dead"], [], ["i-dead"]):
        await sweeping.remove_orphans(dead)
    assert asked == [{"i-dead"}] * 3
    assert await store.owners.holder("n1") is None
    assert await store.owners.holder("n2") is not None


async def test_a_repair_counts_the_slots_of_each_shard_again(store: Store) -> None:
    await join(store, entry("n1", max_jobs=4))
    await dispatch(store, order(1))
    await store.line.call("ZADD", store.keys.shard(0).held, 3, "n1")
    nobodys = cast("Any", None)
    sweeping = sweeper(store, connected_nodes(store, NodeLinks("i-here"), nobodys, nobodys, settings_with()))
    await sweeping.repair()
    assert await ledger(store, "n1") == (1, 3, 1)


async def test_after_redis_clock_jumped_nothing_is_ended_before_deadlines_count_again(
    store: Store, clock: Clock
) -> None:
    await join(store, entry("n1", alive_ms=10 * RUN_MS))
    await dispatch(store, order(1))
    now_s, jumps = 1_000.0, list[float]()
    endings = Endings("i-here", store.jobs, Assignments(lambda step, assignment: None), settings_with().nodes)
    sweeping = Sweeper(store, cast("Any", None), endings, 20.0, 60.0, LINGER_MS, lambda: now_s)
    sweeping.on_jump = jumps.append
    await sweeping.sweep()
    clock.pass_ms(RUN_MS + 1)
    now_s += 1
    await sweeping.sweep()
    # Redis went 30 s ahead while a second passed here.
    assert [round(jump_ms) for jump_ms in jumps] == [RUN_MS + 1 - 1_000]
    assert (await ledger(store, "n1"))[0] == 1
    assert (sweeping._judge_nodes_from, sweeping._judge_leases_from) == (1_021.0, 1_061.0)
    clock.pass_ms(59_000)
    now_s += 59
    await sweeping.sweep()
    assert (await ledger(store, "n1"))[0] == 1
    clock.pass_ms(1_000)
    now_s += 1
    await sweeping.sweep()
    assert (await ledger(store, "n1"))[0] == 0
    assert len(jumps) == 1


def test_leases_are_judged_two_seconds_after_redis_was_away(store: Store) -> None:
    endings = Endings("i-here", store.jobs, Assignments(lambda step, assignment: None), settings_with().nodes)
    sweeping = Sweeper(store, cast("Any", None), endings, 20.0, 60.0, LINGER_MS, lambda: 1_000.0)
    sweeping.suspend_judgement()
    assert (sweeping._judge_nodes_from, sweeping._judge_leases_from) == (1_020.0, 1_002.0)
