"""What is known of alarms: since when, and what was done; over when nobody raises them any more."""

import pytest

from lingua_scheduler.domain.watching import handling
from lingua_scheduler.domain.watching.handling import OVER_MS, AlarmAction, HandleOutcome, Handling
from lingua_scheduler.store.store import Store
from lingua_scheduler.store.watching import known_alarms
from tests.support.clocks import Clock

NAME = "pair.lost/en:ko"
HOUR_MS = 3_600_000


async def raised(store: Store, clock: Clock) -> Handling | None:
    return (await store.alarms.note([(NAME, clock.now_ms)])).get(NAME)


async def test_all_instances_know_since_when(store: Store, clock: Clock) -> None:
    first_ms = clock.now_ms
    await raised(store, clock)
    clock.now_ms += OVER_MS
    found = await raised(store, clock)
    assert found is not None
    assert found.since_ms == first_ms
    # It is not written with every look.
    clock.now_ms += 1
    assert await raised(store, clock) == found


@pytest.mark.parametrize(
    ("action", "field"),
    [
        (AlarmAction.ACKNOWLEDGE, "acknowledged_at_ms"),
        (AlarmAction.SILENCE, "silenced_until_ms"),
        (AlarmAction.FORGET, "forgotten_at_ms"),
    ],
)
async def test_what_was_done_is_kept_and_can_be_undone(
    store: Store, clock: Clock, action: AlarmAction, field: str
) -> None:
    await raised(store, clock)
    for _ in range(2):  # harmless to repeat
        assert await store.alarms.handle(NAME, action, HOUR_MS, "ada l.") is HandleOutcome.HANDLED
    found = await raised(store, clock)
    assert found is not None
    assert getattr(found, field) == clock.now_ms + (HOUR_MS if action is AlarmAction.SILENCE else 0)
    assert found.by == "ada l."
    assert await store.alarms.handle(NAME, AlarmAction.RESET, 0, "") is HandleOutcome.HANDLED
    assert await raised(store, clock) == Handling(found.since_ms, found.seen_at_ms)


async def test_the_next_alarm_of_the_name_is_another(store: Store, clock: Clock) -> None:
    await raised(store, clock)
    await store.alarms.handle(NAME, AlarmAction.ACKNOWLEDGE, 0, "ada")
    await store.alarms.handle(NAME, AlarmAction.FORGET, 0, "ada")
    clock.now_ms += OVER_MS + 1
    found = await raised(store, clock)
    assert found == Handling(clock.now_ms, clock.now_ms)


async def test_a_silence_outlasts_the_alarm_and_ends_by_itself(store: Store, clock: Clock) -> None:
    # Before a machine is taken down.
    assert await store.alarms.handle(NAME, AlarmAction.SILENCE, HOUR_MS, "") is HandleOutcome.HANDLED
    until_ms = clock.now_ms + HOUR_MS
    clock.now_ms += OVER_MS + 1
    found = await raised(store, clock)
    assert found == Handling(clock.now_ms, clock.now_ms, silenced_until_ms=until_ms)
    clock.now_ms += HOUR_MS
    assert await store.alarms.note([]) == {}


@pytest.mark.parametrize("action", [AlarmAction.ACKNOWLEDGE, AlarmAction.FORGET, AlarmAction.RESET])
async def test_what_is_not_raised_cannot_be_handled(store: Store, clock: Clock, action: AlarmAction) -> None:
    assert await store.alarms.handle(NAME, action, 0, "") is HandleOutcome.GONE
    await raised(store, clock)
    clock.now_ms += OVER_MS + 1
    if action is not AlarmAction.RESET:
        assert await store.alarms.handle(NAME, action, 0, "") is HandleOutcome.GONE


async def test_only_so_many_are_known(store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_alarms, "KNOWN_MAX", 2)
    assert handling.KNOWN_MAX > 2
    found = await store.alarms.note([(f"node.lost/n{number}", clock.now_ms) for number in range(5)])
    assert len(found) == 2
    assert await store.alarms.handle(NAME, AlarmAction.SILENCE, HOUR_MS, "") is HandleOutcome.FULL


async def test_silencing_ahead_leaves_room_for_what_is_raised(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_alarms, "KNOWN_MAX", 4)
    outcomes = [await store.alarms.handle(f"node.lost/n{n}", AlarmAction.SILENCE, HOUR_MS, "") for n in range(3)]
    assert outcomes == [HandleOutcome.HANDLED, HandleOutcome.HANDLED, HandleOutcome.FULL]
    await raised(store, clock)
    assert await store.alarms.handle(NAME, AlarmAction.ACKNOWLEDGE, 0, "") is HandleOutcome.HANDLED


async def test_a_new_alarm_displaces_one_that_nobody_raises_or_handled(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_alarms, "KNOWN_MAX", 3)
    for number in range(3):
        clock.now_ms += 1
        await store.alarms.note([(f"pair.lost/n{number}", clock.now_ms)])
    await store.alarms.handle("pair.lost/n0", AlarmAction.ACKNOWLEDGE, 0, "")
    clock.now_ms += 1
    assert set(await store.alarms.note([(NAME, clock.now_ms)])) == {"pair.lost/n0", "pair.lost/n2", NAME}
    # Those that are raised themselves stay.
    found = await store.alarms.note([(NAME, clock.now_ms), ("pair.lost/n2", clock.now_ms), ("node.lost/x", 1)])
    assert set(found) == {"pair.lost/n0", "pair.lost/n2", NAME}


async def test_rubbish_is_removed(store: Store, clock: Clock) -> None:
    await store.line.call("HSET", store.keys.alarms, NAME, "rubbish", "x", "1 2 3")
    assert await store.alarms.note([]) == {}
    assert await store.line.call("HLEN", store.keys.alarms) == 0
    assert clock.now_ms
