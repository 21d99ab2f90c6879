"""What the sweep ends, and what stays taken."""

from collections.abc import AsyncIterator, Iterable
from typing import Any, cast

import msgspec
import pytest

from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.services.attempts.assignments import Assignments
from lingua_scheduler.services.attempts.recovery import Recovery
from lingua_scheduler.services.nodes.registry import Registry
from lingua_scheduler.services.nodes.sweeper import Sweeper
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.jobs.jobs import JobNote
from lingua_scheduler.store.store import Store
from tests.support.clocks import Clock
from tests.support.fleet import POOL, RUN_MS, dispatch, entry, join, ledger, order
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


def sweeper(store: Store, registry: Any = None) -> Sweeper:
    recovery = Recovery("i-here", store.jobs, Assignments(lambda step, assignment: None))
    # No node is silent here, so nobody is asked to remove one.
    return Sweeper(store, registry, recovery, 0.0, 0.0, LINGER_MS)


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
    sweeping = sweeper(store, Registry("i-here", store.nodes, nobodys, nobodys, settings_with()))
    for placed in ({"n1", "lost"}, {"n1"}):
        await sweeping.repair()
        assert await store.nodes.shards() == [0]
        assert set(await store.nodes.placed()) == placed


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
