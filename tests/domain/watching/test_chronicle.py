"""What all instances remember together: the leader's alarms, and each event once."""

from lingua_scheduler.domain.watching.alarms import LostNode
from lingua_scheduler.domain.watching.chronicle import (
    FRESH_MS,
    LOST_MAX,
    SAME_MS,
    FleetMemory,
    fleet_alarms,
    newest_lost,
    untold,
)
from lingua_scheduler.domain.watching.picture import Event, Level
from tests.support.pictures import alarm, node


def event(at_ms: int, kind: str = "node.joined", subject: str = "n1", **values: str) -> Event:
    return Event(at_ms=at_ms, kind=kind, level=Level.NOTICE, subject=subject, text="", values=dict(values))


def test_the_same_change_seen_at_about_the_same_time_is_told_once() -> None:
    told = [event(10_000)]
    assert untold([event(10_000 + SAME_MS - 1)], told) == []
    assert untold([event(10_000 + SAME_MS)], told) == [event(10_000 + SAME_MS)]
    others = [event(10_000, subject="n2"), event(10_000, kind="node.left"), event(10_000, code="x")]
    assert untold(others, told) == others


def test_events_about_other_pairs_are_not_the_same() -> None:
    some = event(10_000, "pair.lost", "", count="4", pairs="en:de,en:fr,en:ja")
    others = event(10_000, "pair.lost", "", count="4", pairs="zh:de,zh:fr,zh:ja")
    assert untold([some, others], [some]) == [others]


def test_all_show_the_alarms_of_the_leader_and_those_only_they_can_raise() -> None:
    memory = FleetMemory(at_ms=0, made_by="i1", alarms=[alarm("nodes.none")])
    own = [alarm("pair.lost", subject="en:zh"), alarm("data.unreadable")]
    assert [one.code for one in fleet_alarms(memory, own)] == ["nodes.none", "data.unreadable"]


def test_a_memory_ages() -> None:
    memory = FleetMemory(at_ms=1_000, made_by="i1")
    assert memory.is_fresh(1_000 + FRESH_MS - 1)
    assert not memory.is_fresh(1_000 + FRESH_MS)


def test_of_many_vanished_nodes_the_latest_are_remembered() -> None:
    lost = {f"n{number}": LostNode(node(f"n{number}"), number) for number in range(LOST_MAX + 5)}
    assert newest_lost(lost).keys() == {f"n{number}" for number in range(5, LOST_MAX + 5)}
