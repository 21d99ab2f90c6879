"""Tallies in Redis: added up by all, for an hour, with the last few errors."""

from lingua_scheduler.domain.watching.tallies import ERRORS_MAX, STEP_MS, STEPS, NodeTally, TalliedError, TallySums
from lingua_scheduler.store.store import Store
from tests.support.clocks import Clock


def error(number: int, clock: Clock) -> TalliedError:
    return TalliedError(clock.now_ms - 1_000 + number, "JOB_TIMEOUT", f"j{number}")


async def test_what_several_instances_count_is_added_up(store: Store, clock: Clock) -> None:
    assert await store.tallies.read(0, "n1", clock.now_ms) == NodeTally()
    await store.tallies.add(0, "n1", TallySums(2, 0, 300, 200, 1_000, 300), [])
    await store.tallies.add(0, "n1", TallySums(1, 1, 600, 600, 0, 0), [error(1, clock)])
    tally = await store.tallies.read(0, "n1", clock.now_ms)
    assert (tally.done, tally.failed, tally.mean_ms, tally.slowest_ms) == (3, 1, 300, 600)
    assert tally.real_time_factor == 0.3
    assert [one.job_id for one in tally.errors] == ["j1"]
    assert await store.tallies.read(0, "n2", clock.now_ms) == NodeTally()
    assert await store.line.call("PTTL", store.keys.shard(0).tally("n1")) > 0


async def test_only_the_last_errors_are_kept(store: Store, clock: Clock) -> None:
    for number in range(ERRORS_MAX + 5):
        await store.tallies.add(0, "n1", TallySums(failed=1), [error(number, clock)])
    tally = await store.tallies.read(0, "n1", clock.now_ms)
    assert tally.failed == ERRORS_MAX + 5
    assert [one.job_id for one in tally.errors] == [f"j{number}" for number in reversed(range(5, ERRORS_MAX + 5))]


async def test_old_steps_are_removed(store: Store, clock: Clock) -> None:
    for _ in range(STEPS + 5):
        await store.tallies.add(0, "n1", TallySums(done=1), [])
        clock.now_ms += STEP_MS
    assert len(await store.line.call("HKEYS", store.keys.shard(0).tally("n1"))) == STEPS


async def test_a_step_that_cannot_be_read_begins_anew(store: Store, clock: Clock) -> None:
    await store.tallies.add(0, "n1", TallySums(done=1), [])
    key = store.keys.shard(0).tally("n1")
    (step,) = await store.line.call("HKEYS", key)
    await store.line.call("HSET", key, step, "rubbish")
    assert await store.tallies.read(0, "n1", clock.now_ms) == NodeTally()
    assert store.unreadable.lately == ["tally"]
    await store.tallies.add(0, "n1", TallySums(done=1), [])
    assert (await store.tallies.read(0, "n1", clock.now_ms)).done == 1
