"""Outcomes leave once each, in order unless overtaken; nothing is dropped for the sake of order."""

from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.domain.sessions.ordering import WINDOW, Ordering, Released

HOLD_MS = 10_000


def expecting(*indexes: int, max_held: int = 64) -> Ordering[str]:
    ordering: Ordering[str] = Ordering(HOLD_MS, max_held)
    for index in indexes:
        assert ordering.expect(index)
    return ordering


def test_an_outcome_whose_turn_it_is_leaves_at_once() -> None:
    ordering = expecting(0, 1)
    assert ordering.settle(0, "a", 0) == [Released(0, "a")]
    assert ordering.settle(1, "b", 5) == [Released(1, "b")]
    assert len(ordering) == 0


def test_an_outcome_that_comes_early_waits_for_those_before_it() -> None:
    ordering = expecting(0, 1, 2)
    assert ordering.settle(2, "c", 0) == []
    assert ordering.settle(1, "b", 1) == []
    assert ordering.settle(0, "a", 2) == [Released(0, "a"), Released(1, "b"), Released(2, "c")]
    assert ordering.wake_at_ms is None


def test_a_second_outcome_for_the_same_utterance_releases_nothing() -> None:
    ordering = expecting(0, 1)
    ordering.settle(1, "first", 0)
    assert ordering.settle(1, "second", 1) == []
    assert ordering.settle(0, "a", 2) == [Released(0, "a"), Released(1, "first")]
    assert ordering.settle(1, "third", 3) == []


def test_an_outcome_nobody_expects_releases_nothing() -> None:
    assert expecting().settle(0, "a", 0) == []


def test_an_utterance_is_expected_once_while_it_is_under_way() -> None:
    ordering = expecting(0)
    assert not ordering.expect(0)
    assert len(ordering) == 1


def test_an_utterance_that_has_left_or_was_overtaken_is_not_expected_again() -> None:
    ordering = expecting(0, 1, 2)
    ordering.settle(0, "a", 0)
    ordering.settle(2, "c", 0)
    ordering.tick(HOLD_MS)  # 1 is overtaken
    assert [ordering.expect(index) for index in (0, 1, 2)] == [False, False, False]
    assert len(ordering) == 1


def test_a_straggler_is_expected_as_long_as_it_is_not_too_far_behind() -> None:
    ordering = expecting(1000)
    assert not ordering.expect(1000 - WINDOW)
    assert ordering.expect(1001 - WINDOW)


def test_what_has_left_is_remembered_however_many_have_left() -> None:
    ordering = expecting()
    for index in range(3 * WINDOW):
        assert ordering.expect(index)
        ordering.settle(index, "", 0)
    assert not any(ordering.expect(index) for index in range(3 * WINDOW))


def test_a_session_without_end_does_not_remember_without_end() -> None:
    ordering = expecting()
    for index in range(10 * WINDOW):
        ordering.expect(index)
        ordering.settle(index, "", 0)
    assert len(ordering._gone) <= 2 * WINDOW


def test_utterances_announced_out_of_order_leave_in_order() -> None:
    ordering = expecting(7, 5, 6)
    assert ordering.settle(7, "c", 0) == []
    assert ordering.settle(5, "a", 1) == [Released(5, "a")]
    assert ordering.settle(6, "b", 2) == [Released(6, "b"), Released(7, "c")]


# Time


def test_nobody_is_woken_while_nothing_waits() -> None:
    ordering = expecting(0, 1)
    assert ordering.wake_at_ms is None
    assert ordering.tick(10**9) == []
    assert len(ordering) == 2


def test_an_outcome_leaves_when_it_has_waited_long_enough_for_the_one_before_it() -> None:
    ordering = expecting(0, 1)
    ordering.settle(1, "b", 500)
    assert ordering.wake_at_ms == 500 + HOLD_MS
    assert ordering.tick(500 + HOLD_MS - 1) == []
    assert ordering.tick(500 + HOLD_MS) == [Released(1, "b")]
    # The one before it is still under way.
    assert len(ordering) == 1
    assert ordering.wake_at_ms is None


def test_every_one_before_the_outcome_that_has_waited_is_overtaken() -> None:
    ordering = expecting(0, 1, 2)
    ordering.settle(2, "c", 0)
    assert ordering.tick(HOLD_MS) == [Released(2, "c")]
    assert len(ordering) == 2


def test_one_behind_which_nobody_has_waited_long_enough_is_still_waited_for() -> None:
    ordering = expecting(0, 1, 2, 3)
    ordering.settle(1, "b", 0)
    ordering.settle(3, "d", 9_000)
    assert ordering.tick(HOLD_MS) == [Released(1, "b")]
    assert ordering.wake_at_ms == 9_000 + HOLD_MS
    assert ordering.settle(2, "c", 11_000) == [Released(2, "c"), Released(3, "d")]


def test_an_outcome_that_was_overtaken_leaves_at_once_and_is_marked_late() -> None:
    ordering = expecting(0, 1, 2)
    ordering.settle(1, "b", 0)
    ordering.tick(HOLD_MS)
    assert ordering.settle(0, "late", HOLD_MS + 1) == [Released(0, "late", is_late=True)]
    assert ordering.settle(0, "again", HOLD_MS + 2) == []
    assert ordering.settle(2, "c", HOLD_MS + 3) == [Released(2, "c")]
    assert len(ordering) == 0


def test_one_that_is_answered_soon_or_never_is_waited_for_less() -> None:
    ordering = expecting(0, 1, 2, 3)
    ordering.settle(1, "b", 100)
    ordering.hold_at_most(0, 1_500)
    assert ordering.wake_at_ms == 1_600
    ordering.settle(3, "d", 1_000)
    assert ordering.tick(1_600) == [Released(1, "b")]
    # The next one is waited for as usual.
    assert ordering.wake_at_ms == 1_000 + HOLD_MS


def test_a_shorter_hold_is_never_made_longer_and_may_name_anything() -> None:
    ordering = expecting(0, 1)
    ordering.settle(1, "b", 0)
    ordering.hold_at_most(0, 1_500)
    ordering.hold_at_most(0, 9_000)
    ordering.hold_at_most(77, 5)
    assert ordering.wake_at_ms == 1_500


def test_the_longest_waiting_outcome_decides_whatever_its_place() -> None:
    ordering = expecting(0, 1, 2)
    ordering.settle(2, "c", 100)
    ordering.settle(1, "b", 300)
    assert ordering.wake_at_ms == 100 + HOLD_MS


# Room


def test_more_than_may_be_held_overtakes_the_first() -> None:
    ordering = expecting(0, 1, 2, 3, max_held=2)
    assert ordering.settle(1, "b", 0) == []
    assert ordering.settle(3, "d", 0) == []
    # The third one that must wait: 0 is overtaken, which lets 1 go, and 2 is there by then.
    assert ordering.settle(2, "c", 0) == [Released(1, "b"), Released(2, "c"), Released(3, "d")]
    assert ordering.settle(0, "a", 0) == [Released(0, "a", is_late=True)]


def test_an_overflow_overtakes_no_more_than_it_must() -> None:
    ordering = expecting(0, 1, 2, 3, max_held=1)
    ordering.settle(1, "b", 0)
    assert ordering.settle(3, "d", 0) == [Released(1, "b")]
    assert ordering.settle(2, "c", 0) == [Released(2, "c"), Released(3, "d")]


def test_several_are_overtaken_when_one_is_not_enough() -> None:
    ordering = expecting(0, 1, 2, 3, max_held=1)
    assert ordering.settle(2, "c", 0) == []
    assert ordering.settle(3, "d", 0) == [Released(2, "c"), Released(3, "d")]
    assert len(ordering) == 2


# Any order

COUNT = 12


@given(
    order=st.permutations(range(COUNT)),
    never=st.sets(st.integers(0, COUNT - 1)),
    pauses=st.lists(st.integers(0, 60), min_size=COUNT, max_size=COUNT),
    max_held=st.integers(1, COUNT),
    repeats=st.booleans(),
)
def test_every_outcome_is_released_once_and_late_only_for_want_of_time_or_room(
    order: list[int], never: set[int], pauses: list[int], max_held: int, repeats: bool
) -> None:
    hold_ms = 100
    ordering: Ordering[str] = Ordering(hold_ms, max_held)
    for index in range(COUNT):
        ordering.expect(index)
    released: list[Released[str]] = []
    settled_at_ms: dict[int, float] = {}
    now_ms = 0.0

    def check(fresh: list[Released[str]], ticking: bool) -> None:
        for place in fresh:
            assert place.item == str(place.utterance_index)
            # Late is what comes after one that was said later, and nothing else.
            assert place.is_late == any(other.utterance_index > place.utterance_index for other in released)
            released.append(place)
        if ticking:
            # The first that could not wait any longer has really waited that long.
            assert min(settled_at_ms[place.utterance_index] for place in fresh) <= now_ms - hold_ms
        assert len(settled_at_ms) - len(released) <= max_held

    for index, pause_ms in zip(order, pauses, strict=True):
        arrives_at_ms = now_ms + pause_ms
        while (wake_at_ms := ordering.wake_at_ms) is not None and wake_at_ms <= arrives_at_ms:
            now_ms = wake_at_ms
            check(ordering.tick(now_ms), ticking=True)
        now_ms = arrives_at_ms
        if index in never:
            continue
        settled_at_ms[index] = now_ms
        check(ordering.settle(index, str(index), now_ms), ticking=False)
        if repeats:
            assert ordering.settle(index, "again", now_ms) == []
    while (wake_at_ms := ordering.wake_at_ms) is not None:
        now_ms = wake_at_ms
        check(ordering.tick(now_ms), ticking=True)

    # Nothing that has an outcome is kept or lost; what is still awaited was never settled.
    assert sorted(place.utterance_index for place in released) == sorted(set(range(COUNT)) - never)
    assert len(ordering) == len(never)


@given(st.permutations(range(8)), st.permutations(range(8)))
def test_whatever_the_order_of_announcing_and_settling_they_leave_in_order(
    announced: list[int], settled: list[int]
) -> None:
    ordering = expecting(*announced)
    released = [place for index in settled for place in ordering.settle(index, str(index), 0)]
    assert released == [Released(index, str(index)) for index in range(8)]
