"""Events that clients can cause without end do not push the others out of the history."""

from lingua_scheduler.domain.watching.event_limits import BURST, PEERS_BURST, PER_S, EventLimits
from lingua_scheduler.domain.watching.picture import Event, Level
from lingua_scheduler.store.watching.chronicle import EVENTS_MAX


def test_events_about_other_things_are_all_told() -> None:
    some = [event("instance.joined")] * (2 * BURST)
    assert EventLimits().told(some, 0.0) == some


def event(kind: str, code: str = "", subject: str = "x") -> Event:
    values: dict[str, str | int | float] = {"code": code} if code else {}
    return Event(at_ms=1, kind=kind, level=Level.NOTICE, subject=subject, text="t", values=values)


def test_a_few_are_all_told_as_they_are() -> None:
    some = [event("alarm.raised", "pair.lost", str(number)) for number in range(BURST)]
    assert EventLimits().told(some, 0.0) == some


def test_an_hour_of_alarms_that_come_and_go_leaves_room_in_the_history() -> None:
    limits, told = EventLimits(), 0
    for second in range(0, 3600, 5):
        raised = [event("alarm.raised", "pair.lost", f"{second}-{number}") for number in range(50)]
        told += len(limits.told(raised, float(second)))
    assert told < EVENTS_MAX / 2
    # Alarms about other things are told all the same.
    other = event("alarm.raised", "node.lost")
    assert limits.told([other, event("node.left")], 3600.0) == [other, event("node.left")]


def test_those_that_were_not_told_are_counted() -> None:
    limits, same = EventLimits(), event("alarm.raised", "pair.lost")
    assert len(limits.told([same] * (BURST + 7), 0.0)) == BURST
    (told,) = limits.told([same], 1 / PER_S + 1)
    assert (told.kind, told.values) == ("alarm.raised", {"more": 8})
    assert limits.told([same], 2 / PER_S + 2) == [same]


def test_nodes_that_come_and_go_under_new_ids_leave_room_in_the_history() -> None:
    limits, told = EventLimits(), 0
    for second in range(3600):
        churn = [
            event(kind, subject=f"{second}-{number}")
            for kind in ("node.joined", "node.state_changed", "node.left", "pair.served", "pair.lost", "job.failed")
            for number in range(50)
        ]
        told += len(limits.told(churn, float(second)))
    assert told < EVENTS_MAX - BURST
    others = [event("instance.died"), event("leader.changed"), event("alarm.raised", "redis.full")]
    assert limits.told(others, 3600.0) == others


def test_a_fleet_that_comes_together_is_told_node_by_node_and_then_counted() -> None:
    limits = EventLimits()
    fleet = [event("node.joined", subject=str(number)) for number in range(PEERS_BURST + 5)]
    assert limits.told(fleet, 0.0) == fleet[:PEERS_BURST]
    assert limits.told([event("node.left")], 1.0) == [event("node.left")]
    (told,) = limits.told([event("node.joined")], 1 / PER_S + 1)
    assert told.values == {"more": 6}
