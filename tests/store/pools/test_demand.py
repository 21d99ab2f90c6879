"""The record of demand: bounded, and not to be displaced by those who ask for anything."""

from lingua_scheduler.domain.watching.demand import ASKED_MAX, HISTORY_MS, MISSED_MAX, Demand
from lingua_scheduler.store.store import Store
from tests.support.clocks import Clock

POOL = "en:pt:speech"


async def test_what_was_asked_for_is_recorded_with_the_time(store: Store, clock: Clock) -> None:
    first_ms = clock.now_ms
    assert await store.demand.note([POOL], ["en:ko:text"]) == Demand({POOL: first_ms}, {"en:ko:text": first_ms})
    clock.now_ms += 5
    # Again is later; asking for nothing only reads.
    await store.demand.note([POOL], [])
    assert await store.demand.note([], []) == Demand({POOL: first_ms + 5}, {"en:ko:text": first_ms})


async def test_a_pair_that_was_served_once_stays_in_the_record_of_those(store: Store, clock: Clock) -> None:
    await store.demand.note([], [POOL])
    assert (await store.demand.note([POOL], [])).missed == {}
    assert (await store.demand.note([], [POOL])) == Demand({POOL: clock.now_ms}, {})


async def test_the_record_is_bounded_and_rubbish_displaces_only_rubbish(store: Store, clock: Clock) -> None:
    await store.demand.note([POOL], [])
    for number in range(MISSED_MAX + 20):
        clock.now_ms += 1
        await store.demand.note([], [f"en:x{number}:speech"])
    found = await store.demand.note([], [])
    assert POOL in found.asked
    assert len(found.missed) == MISSED_MAX
    assert "en:x0:speech" not in found.missed
    clock.now_ms += 1
    await store.demand.note([f"y{number}:en:text" for number in range(ASKED_MAX)], [])
    assert len((await store.demand.note([], [])).asked) == ASKED_MAX
    clock.now_ms += HISTORY_MS
    assert await store.demand.note([], []) == Demand({}, {})


async def test_a_pair_can_be_forgotten(store: Store) -> None:
    await store.demand.note([POOL], ["en:ko:text"])
    assert await store.demand.forget([POOL, "en:ko:text", "a:b:text"]) == 2
    assert await store.demand.note([], []) == Demand({}, {})
    assert await store.demand.forget([POOL]) == 0


async def test_what_is_no_pool_is_skipped(store: Store) -> None:
    await store.line.call("ZADD", store.keys.asked, "1e300", "rubbish", "999999999999999", "no pool")
    assert await store.demand.note([], []) == Demand({}, {})
