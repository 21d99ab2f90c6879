"""Feeds: outcomes in the order of the room, to those who listened, each once."""

from lingua_scheduler.domain.rooms.feeds import Feed, FeedOutcome, RoomUtterance

HOLD_MS = 1000


def utterance(seq: int) -> RoomUtterance:
    return RoomUtterance(seq, "s-speaker", seq, "en", ("zh",))


def feed() -> Feed[str, str]:
    return Feed(HOLD_MS, max_held=8)


def test_outcomes_leave_in_the_order_of_the_room() -> None:
    one = feed()
    for seq in (1, 2, 3):
        assert one.announce(utterance(seq), ["ann"], 0)
    assert one.settle(2, "two", 10) == []
    assert one.settle(1, "one", 20) == [FeedOutcome("one", ("ann",), False), FeedOutcome("two", ("ann",), False, 0)]
    assert one.settle(3, "three", 30) == [FeedOutcome("three", ("ann",), False, 0)]
    assert one.is_idle


def test_an_announcement_that_comes_twice_or_late_changes_nothing() -> None:
    one = feed()
    one.announce(utterance(1), ["ann"], 0)
    assert not one.announce(utterance(1), ["bob"], 0)
    assert one.settle(1, "one", 10) == [FeedOutcome("one", ("ann",), False, 0)]
    assert not one.announce(utterance(1), ["bob"], 20)
    assert one.settle(1, "again", 20) == []


def test_announcements_may_come_out_of_order() -> None:
    one = feed()
    one.announce(utterance(2), ["ann"], 0)
    one.announce(utterance(1), ["ann"], 0)
    assert one.settle(2, "two", 10) == []
    assert [due.item for due in one.settle(1, "one", 20)] == ["one", "two"]


def test_one_that_takes_too_long_is_overtaken_and_follows_as_late() -> None:
    one = feed()
    one.announce(utterance(1), ["ann"], 0)
    one.announce(utterance(2), ["ann", "bob"], 0)
    assert one.wake_at_ms is None
    one.settle(2, "two", 50)
    assert one.wake_at_ms == 50 + HOLD_MS
    assert one.tick(50 + HOLD_MS - 1) == []
    assert one.tick(50 + HOLD_MS) == [FeedOutcome("two", ("ann", "bob"), False, 0)]
    assert one.settle(1, "one", 9000) == [FeedOutcome("one", ("ann",), True, 0)]
    assert one.is_idle


def test_those_who_listened_when_it_was_said_get_the_outcome() -> None:
    one = feed()
    one.announce(utterance(1), ["ann", "bob"], 0)
    assert one.listeners(1) == ("ann", "bob")
    assert one.listeners(2) == ()


def test_what_has_no_outcome_for_too_long_is_overdue() -> None:
    one = feed()
    for seq, at_ms in ((1, 0), (2, 0), (3, 500)):
        one.announce(utterance(seq), ["ann"], at_ms)
    # It waits for the first one, and has its outcome.
    one.settle(2, "two", 10)
    assert [late.seq for late in one.overdue(100)] == [1]
    assert [late.seq for late in one.overdue(501)] == [1, 3]


def test_one_who_comes_later_waits_for_what_was_announced_before() -> None:
    one = feed()
    for seq in (1, 2):
        one.announce(utterance(seq), ["ann"], 0)
    one.admit("bob", lambda said: said.seq > 1)
    assert [one.settle(seq, "x", 0)[0].listeners for seq in (1, 2)] == [("ann",), ("ann", "bob")]


def test_what_comes_after_a_gap_waits_until_the_gap_is_known() -> None:
    one = feed()
    one.expect(1, 0)
    one.expect(2, 0)
    one.announce(utterance(3), ["ann"], 0)
    assert one.settle(3, "three", 10) == []
    # The first is for these listeners, the second is not.
    one.announce(utterance(1), ["ann"], 20)
    assert one.skip(2, 20) == []
    assert [due.item for due in one.settle(1, "one", 30)] == ["one", "three"]
    assert one.is_idle


def test_a_gap_that_stays_is_overtaken_and_forgotten() -> None:
    one = feed()
    one.expect(1, 0)
    one.announce(utterance(2), ["ann"], 0)
    one.settle(2, "two", 10)
    assert [due.item for due in one.tick(10 + HOLD_MS)] == ["two"]
    assert one.unknown(5) == [1]
    assert one.skip(1, 5000) == []
    assert one.skip(1, 5000) == []
    assert one.is_idle
