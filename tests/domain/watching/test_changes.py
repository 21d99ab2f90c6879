"""What changed between two pictures: as events, and as a message from which the later one can be put together."""

import inspect
import re
from typing import Any

import msgspec
import pytest

from lingua_scheduler.domain.watching import changes as changes_module
from lingua_scheduler.domain.watching.changes import EACH_MAX, KINDS, changes, delta
from lingua_scheduler.domain.watching.picture import Level
from tests.support.pictures import after, alarm, instance, job, node, pair, picture
from tools.docs import DOCS

BEFORE = picture(nodes=[node("n1"), node("n2")], pairs=[pair()], instances=[instance()])


def kinds(**changed: Any) -> list[tuple[str, str]]:
    return [(event.kind, event.subject) for event in changes(BEFORE, after(BEFORE, **changed))]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, []),
        ({"nodes": [node("n1"), node("n2", held=1, free=3)]}, []),
        ({"nodes": [node("n1"), node("n2"), node("n3")]}, [("node.joined", "n3")]),
        ({"nodes": [node("n1")]}, [("node.left", "n2")]),
        ({"nodes": [node("n1"), node("n2", state="draining")]}, [("node.state_changed", "n2")]),
        ({"pairs": [pair(), pair("en:fr")]}, [("pair.served", "en:fr")]),
        ({"pairs": []}, [("pair.lost", "en:zh")]),
        ({"pairs": [pair(nodes=0)]}, [("pair.lost", "en:zh")]),
        ({"instances": [instance(), instance("i2")]}, [("instance.joined", "i2")]),
        ({"instances": [instance(is_alive=False)]}, [("instance.died", "i1")]),
        ({"instances": [instance(is_alive=False, has_left=True)]}, [("instance.left", "i1")]),
        ({"instances": []}, [("instance.left", "i1")]),
        ({"leader": "i2"}, [("leader.changed", "i2")]),
        ({"dead_letters": 2}, [("letters.died", "")]),
        ({"failures": [job("j1")]}, [("job.failed", "j1")]),
        ({"alarms": [alarm("leader.none")]}, [("alarm.raised", "")]),
    ],
)
def test_every_change_is_an_event(changed: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert kinds(**changed) == expected


def test_what_is_over_is_told_too() -> None:
    before = picture(alarms=[alarm("leader.none")], dead_letters=2)
    (event,) = changes(before, after(before, alarms=[], dead_letters=0))
    assert (event.kind, event.level, event.values) == ("alarm.cleared", Level.NOTICE, {"code": "leader.none"})


def test_the_first_picture_raises_its_alarms_and_nothing_else() -> None:
    first = picture(nodes=[node("n1")], pairs=[pair()], alarms=[alarm("leader.none"), alarm("letters.dead")])
    found = [(event.kind, event.values["code"], event.level) for event in changes(None, first)]
    assert found == [
        ("alarm.raised", "leader.none", Level.WARNING),
        ("alarm.raised", "letters.dead", Level.WARNING),
    ]


@pytest.mark.parametrize(
    ("state", "level", "text"),
    [
        ("draining", Level.NOTICE, "n2 left, as announced"),
        ("ready", Level.NOTICE, "n2 left"),
        ("quarantined", Level.NOTICE, "n2 left"),
    ],
)
def test_a_node_that_drained_before_it_left_is_told_from_others(state: str, level: Level, text: str) -> None:
    before = picture(nodes=[node("n1"), node("n2", state=state)])
    (left,) = changes(before, after(before, nodes=[node("n1")]))
    assert (left.kind, left.level, left.text) == ("node.left", level, text)
    assert left.values == {"node_id": "n2", "from": state}


def test_values_carry_what_a_page_needs_to_say_it_in_its_language() -> None:
    later = after(BEFORE, nodes=[node("n1"), node("n2", state="quarantined")], failures=[job("j1")])
    state, failed = changes(BEFORE, later)
    assert state.values == {"node_id": "n2", "from": "ready", "to": "quarantined"}
    assert (state.level, state.at_ms) == (Level.WARNING, later.at_ms)
    assert failed.values == {"job_id": "j1", "src": "en", "tgt": "zh", "node_id": "n1", "reason": "JOB_TIMEOUT"}


def test_one_is_not_many() -> None:
    joined, died = changes(picture(), after(picture(), nodes=[node("n1", max_jobs=1)], dead_letters=1))
    assert (joined.text, died.text) == ("n1 joined with 1 slot", "1 letter could not be processed")


def test_of_a_thousand_newcomers_some_are_named_and_the_rest_counted() -> None:
    before = picture()
    events = changes(before, after(before, nodes=[node(f"n{number}") for number in range(1_000)]))
    assert len(events) == EACH_MAX
    assert (events[-1].kind, events[-1].subject, events[-1].values) == ("node.joined", "", {"more": 901})


def test_every_kind_there_may_be_is_known_and_named_in_the_documents() -> None:
    source = inspect.getsource(changes_module).partition("def changes(")[2]
    assert set(re.findall(r'"([a-z]+\.[a-z_]+)"', source)) == KINDS
    page = (DOCS / "watching.md").read_text("utf-8").partition("## Events")[2].partition("\n## ")[0]
    assert set(re.findall(r"`([a-z]+\.[a-z_]+)`", page)) == KINDS


# The message


def test_nothing_but_the_moment_is_told_when_nothing_changed() -> None:
    later = after(BEFORE)
    assert delta(BEFORE, later) == {"serial": 2, "at_ms": later.at_ms, "is_stale": False, "now": later.now}


def parts(**changed: Any) -> dict[str, Any]:
    told = delta(BEFORE, after(BEFORE, **changed))
    return {name: part for name, part in told.items() if name not in ("serial", "at_ms", "is_stale", "now")}


def test_a_node_whose_load_or_sign_of_life_changed_is_told_in_short() -> None:
    busy = node("n2", held=1, free=3, seen_at_ms=7, alive_until_ms=9, cpu=40.0)
    assert parts(nodes=[node("n1"), busy]) == {"loads": {"n2": [1, 3, 7, 40.0, None, None]}}


@pytest.mark.parametrize(
    "about", [{"state": "draining"}, {"speech": []}, {"max_jobs": 5}, {"unavailable": ["tts"]}, {"free": None}]
)
def test_a_node_that_changed_in_any_other_way_is_told_whole(about: dict[str, Any]) -> None:
    changed = node("n2", held=1, **about)
    assert parts(nodes=[node("n1"), changed]) == {"nodes": {"n2": changed}}


def test_what_is_gone_is_null() -> None:
    assert parts(nodes=[node("n1")], pairs=[]) == {"nodes": {"n2": None}, "pairs": {"en:zh": None}}


def test_the_passing_of_time_does_not_make_an_instance_change() -> None:
    assert parts(instances=[instance(silent_ms=1_900)]) == {}
    assert "instances" in parts(instances=[instance(sessions=3)])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("leader", None),
        ("map_version", 9),
        ("map_made_at_ms", 9),
        ("dead_letters", 9),
        ("failures", [job("j1")]),
        ("slow", [job("j1")]),
        ("alarms", [alarm("leader.none")]),
        ("jobs_ended", {"DONE": 1}),
        ("session_languages", {"en:zh": 1}),
    ],
)
def test_other_parts_are_told_whole_when_they_changed(name: str, value: Any) -> None:
    assert parts(**{name: value}) == {name: value}


def test_a_reader_who_puts_changes_onto_the_picture_has_the_later_one() -> None:
    later = after(
        BEFORE,
        nodes=[node("n1", held=2, free=2, cpu=5.0), node("n3")],
        pairs=[pair(free=6), pair("en:fr")],
        leader="i2",
        dead_letters=4,
    )
    held = msgspec.to_builtins(BEFORE)
    put_on(held, msgspec.to_builtins(delta(BEFORE, later)))
    assert held == msgspec.to_builtins(later)


def put_on(held: dict[str, Any], told: dict[str, Any]) -> None:
    """As a page would."""
    nodes = {one["node_id"]: one for one in held["nodes"]} | told.pop("nodes", {})
    for node_id, load in told.pop("loads", {}).items():
        names = ("held", "free", "seen_at_ms", "cpu", "memory", "gpu")
        nodes[node_id] = nodes[node_id] | dict(zip(names, load, strict=True))
    pairs = {f"{one['src']}:{one['tgt']}": one for one in held["pairs"]} | told.pop("pairs", {})
    held["nodes"] = sorted(filter(None, nodes.values()), key=lambda one: one["node_id"])
    held["pairs"] = sorted(filter(None, pairs.values()), key=lambda one: (one["tgt"] != "zh", one["tgt"]))
    held.update(told)
