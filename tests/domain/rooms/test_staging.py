import pytest

from lingua_scheduler.domain.rooms import staging
from lingua_scheduler.domain.rooms.staging import (
    CROSSING_S,
    ENTRANCE_S,
    MAX_HELD,
    SETTLE_S,
    UNANSWERED_S,
    Passing,
    Ruling,
    Staging,
)


def test_one_that_joins_is_told_when_all_offers_have_come() -> None:
    staging = Staging[str]()
    staging.enter("c", frozenset({"a", "b"}), 0.0)
    assert staging.is_entering("c")
    assert staging.next_s() == ENTRANCE_S
    assert staging.offer("a", "c", "from a", 0.1) is Ruling.HOLD
    assert staging.due(0.1) == []
    assert staging.offer("b", "c", "from b", 0.2) is Ruling.HOLD
    assert staging.due(0.2) == [Passing("c", ("from a", "from b"), is_entering=True)]
    assert not staging.is_entering("c")
    assert staging.due(0.3) == []


def test_one_that_joins_does_not_wait_for_ever() -> None:
    staging = Staging[str]()
    staging.enter("b", frozenset({"a"}), 5.0)
    assert staging.due(5.0 + ENTRANCE_S - 0.01) == []
    assert staging.due(5.0 + ENTRANCE_S) == [Passing("b", (), is_entering=True)]


def test_one_that_joins_does_not_wait_for_members_that_leave_or_never_offer() -> None:
    staging = Staging[str]()
    staging.enter("b", frozenset({"a"}), 0.0)
    staging.forget("a")
    assert staging.due(0.1) == [Passing("b", (), is_entering=True)]
    staging.enter("d", frozenset(), 0.2)
    assert staging.next_s() == 0.0
    assert staging.due(0.2) == [Passing("d", (), is_entering=True)]


def test_one_that_leaves_before_it_is_told_is_not_told() -> None:
    staging = Staging[str]()
    staging.enter("b", frozenset({"a"}), 0.0)
    staging.forget("b")
    assert staging.due(ENTRANCE_S) == []


def test_an_offer_that_crosses_one_without_an_answer_is_dropped() -> None:
    staging = Staging[str]()
    assert staging.offer("a", "b", "1", 0.0) is Ruling.PASS
    assert staging.offer("b", "a", "2", CROSSING_S - 0.1) is Ruling.DROP
    assert staging.offer("a", "b", "again", CROSSING_S - 0.1) is Ruling.PASS
    assert staging.offer("b", "a", "3", 2 * CROSSING_S) is Ruling.PASS


def test_after_the_answer_the_other_side_may_offer() -> None:
    staging = Staging[str]()
    staging.offer("a", "b", "1", 0.0)
    staging.answer("b", "a", 0.5)
    assert staging.offer("b", "a", "2", 0.6) is Ruling.PASS


def test_two_offers_that_cross_between_instances_leave_the_same_one() -> None:
    here, there = Staging[str](), Staging[str]()
    assert here.offer("a", "b", "from a", 0.0, is_away=True) is Ruling.PASS
    assert there.offer("b", "a", "from b", 0.0, is_away=True) is Ruling.PASS
    assert here.offer("b", "a", "from b", 0.1, is_from_away=True) is Ruling.DROP
    assert there.offer("a", "b", "from a", 0.1, is_from_away=True) is Ruling.PASS
    # The one that gave way answers, and its own offer stands no longer.
    assert there.offer("b", "a", "again", 0.2, is_away=True) is Ruling.DROP


def test_candidates_wait_until_the_answer_has_settled() -> None:
    staging = Staging[str]()
    staging.offer("a", "b", "offer", 0.0)
    assert staging.candidate("a", "b", "a1", 0.1) is Ruling.HOLD
    assert staging.candidate("b", "a", "b1", 0.2) is Ruling.HOLD
    assert staging.due(1.0) == []
    staging.answer("b", "a", 1.0)
    assert staging.candidate("a", "b", "a2", 1.1) is Ruling.HOLD
    assert staging.next_s() == 1.0 + SETTLE_S
    assert staging.due(1.0 + SETTLE_S) == [Passing("b", ("a1", "a2")), Passing("a", ("b1",))]
    assert staging.candidate("a", "b", "a3", 1.4) is Ruling.PASS
    assert staging.next_s() is None


def test_candidates_for_another_instance_wait_there() -> None:
    staging = Staging[str]()
    staging.offer("a", "b", "offer", 0.0, is_away=True)
    assert staging.candidate("a", "b", "a1", 0.1, is_away=True) is Ruling.PASS
    assert staging.candidate("b", "a", "b1", 0.1) is Ruling.HOLD


def test_candidates_without_an_answer_are_dropped_in_the_end() -> None:
    staging = Staging[str]()
    staging.offer("a", "b", "offer", 0.0)
    staging.candidate("a", "b", "a1", 0.1)
    assert staging.due(UNANSWERED_S) == []
    assert staging.next_s() is None


def test_held_candidates_are_bounded() -> None:
    staging = Staging[str]()
    staging.offer("a", "b", "offer", 0.0)
    for number in range(MAX_HELD):
        assert staging.candidate("a", "b", str(number), 0.1) is Ruling.HOLD
    assert staging.candidate("a", "b", "one more", 0.1) is Ruling.DROP


def test_a_member_that_leaves_takes_its_links_along() -> None:
    staging = Staging[str]()
    staging.offer("a", "b", "offer", 0.0)
    staging.candidate("a", "b", "a1", 0.1)
    staging.forget("b")
    assert staging.next_s() is None
    assert staging.candidate("a", "b", "a2", 0.1) is Ruling.PASS


def test_of_several_offers_of_a_member_the_last_waits_for_one_that_joins() -> None:
    staging = Staging[str]()
    staging.enter("c", frozenset({"a", "b"}), 0.0)
    for number in range(10_000):
        assert staging.offer("a", "c", f"a{number}", 0.1) is Ruling.HOLD
    staging.offer("b", "c", "b", 0.2)
    assert staging.due(0.2) == [Passing("c", ("a9999", "b"), is_entering=True)]


def test_one_that_joins_enters_when_the_others_see_it() -> None:
    staging = Staging[str]()
    staging.enter("b", frozenset({"a"}), 0.0)
    staging.offer("a", "b", "1", 0.1)
    assert staging.due(0.1, is_shown=False) == []
    # It is asked again when they do.
    assert staging.next_s(is_shown=False) == UNANSWERED_S + 0.1
    assert staging.due(0.1) == [Passing("b", ("1",), is_entering=True)]


def test_a_frame_costs_as_little_in_a_room_of_many_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that floods a large room with candidates would hold up all others of the instance."""
    looked_at = 0
    ends_s = vars(staging._Link)["ends_s"].fget

    def counted(link: object) -> float:
        nonlocal looked_at
        looked_at += 1
        return float(ends_s(link))

    monkeypatch.setattr(staging._Link, "ends_s", property(counted))
    room = Staging[str]()
    members = [f"s-{number}" for number in range(50)]
    for one in members:
        for other in members:
            if one < other:
                room.offer(one, other, "offer", 0.0)
    assert room.candidate("s-1", "s-2", "candidate", 0.1) is Ruling.HOLD
    assert (room.due(0.1), room.next_s()) == ([], UNANSWERED_S)
    assert looked_at < 10
