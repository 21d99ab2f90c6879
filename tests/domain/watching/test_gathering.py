"""What one node changes at once is one event, and names the first pairs of many."""

from typing import Any

import msgspec
import pytest

from lingua_scheduler.domain.watching.alarms import Sight, alarms
from lingua_scheduler.domain.watching.changes import changes
from lingua_scheduler.domain.watching.gathering import MANY, gathered
from lingua_scheduler.domain.watching.picture import Event, Level, PairLook
from tests.support.pictures import AT_MS, after, node, pair, picture

TARGETS = ("de", "es", "fr", "it", "ja", "ko", "pt")


def event(kind: str, subject: str = "", level: Level = Level.NOTICE, **values: str | int) -> Event:
    return Event(at_ms=1, kind=kind, level=level, subject=subject, text=f"{kind} {subject}", values=dict(values))


def served(count: int, level: Level = Level.NOTICE) -> list[Event]:
    return [event("pair.served", f"en:{tgt}", level) for tgt in TARGETS[:count]]


def thin(count: int, node_id: str = "sim-1", src: str = "en") -> list[Event]:
    return [
        event("alarm.raised", f"{src}:{tgt}", code="pair.thin", src=src, tgt=tgt, node_id=node_id)
        for tgt in TARGETS[:count]
    ]


def test_a_few_are_told_one_by_one() -> None:
    some = [*served(MANY - 1), *thin(MANY - 1)]
    assert gathered(some) == some


def test_many_are_one_event_that_names_the_first() -> None:
    (told,) = gathered(served(7))
    assert (told.kind, told.subject, told.level, told.at_ms) == ("pair.served", "", Level.NOTICE, 1)
    assert told.text == "en → de, en → es, en → fr and 4 more are served"
    assert told.values == {"count": 7, "pairs": "en:de,en:es,en:fr"}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("alarm.raised", "en → de, en → es, en → fr and 1 more depend on sim-1 alone. Add a second node for them."),
        (
            "alarm.cleared",
            "Over: en → de, en → es, en → fr and 1 more depend on sim-1 alone. Add a second node for them.",
        ),
    ],
)
def test_pairs_of_one_node_are_one_alarm_event(kind: str, text: str) -> None:
    (told,) = gathered([msgspec.structs.replace(one, kind=kind) for one in thin(MANY)])
    assert told.text == text
    assert told.values == {"count": MANY, "pairs": "en:de,en:es,en:fr", "code": "pair.thin", "node_id": "sim-1"}


def test_another_node_another_level_and_other_alarms_stay_apart() -> None:
    lost = [event("alarm.raised", f"en:{tgt}", Level.CRITICAL, code="pair.lost") for tgt in TARGETS]
    joined = event("node.joined", "n1")
    told = gathered([joined, *served(4), *served(4, Level.CRITICAL), *thin(4), *thin(5, "sim-2", "zh"), *lost])
    assert told[0] == joined
    assert [one.values.get("count") for one in told[1:5]] == [4, 4, 4, 5]
    assert [one.values.get("node_id") for one in told[3:5]] == ["sim-1", "sim-2"]
    assert told[5:] == lost


def test_alarms_that_are_only_counted_go_with_the_others() -> None:
    rest = event("alarm.raised", code="pair.thin", more=151)
    (told,) = gathered([*thin(7), rest])
    assert told.values["count"] == 158
    assert gathered([*thin(MANY - 1), rest]) == [*thin(MANY - 1), rest]
    # With the larger group, and once.
    small, large = gathered([*thin(4), *thin(6, "sim-2", "zh"), rest])
    assert (small.values["count"], large.values["count"]) == (4, 157)


def test_a_short_visit_of_a_node_with_many_pairs_is_a_handful_of_events() -> None:
    languages = [f"x{letter}" for letter in "abcdefghijkl"]
    names = [f"{src}:{tgt}" for src in languages for tgt in languages if src != tgt]

    def shown(pairs: list[PairLook], node_ids: tuple[str, ...]) -> dict[str, Any]:
        nodes = [node(name) for name in node_ids]
        return {"pairs": pairs, "nodes": nodes, "alarms": alarms(Sight(at_ms=AT_MS, nodes=nodes, pairs=pairs), [])}

    alone = picture(instances=[], leader=None, **shown([pair()], ("stays",)))
    visited = after(
        alone, **shown([pair(), *(pair(name, nodes=1, hangs_on="sim-1") for name in names)], ("stays", "sim-1"))
    )
    left = after(visited, **shown([pair()], ("stays",)))
    came = [(one.kind, one.values.get("count")) for one in changes(alone, visited)]
    went = [(one.kind, one.values.get("count")) for one in changes(visited, left)]
    assert came == [("node.joined", None), ("pair.served", len(names)), ("alarm.raised", len(names))]
    assert went == [("node.left", None), ("pair.lost", len(names)), ("alarm.cleared", len(names))]
