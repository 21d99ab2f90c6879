"""The verdicts, as a table: on nodes, on pairs, on everything, and which nodes need a look."""

from typing import Any

import msgspec
import pytest

from lingua_scheduler.domain.nodes.nodes import NodeState
from lingua_scheduler.domain.watching.picture import Alarm, FleetVerdict, Level, NeedsLook, Room
from lingua_scheduler.domain.watching.verdict import (
    NAMED_MAX,
    NODE_LEVELS,
    in_order,
    judged,
    needs_look,
    node_level,
    pair_level,
    room_of,
    verdict,
)
from tests.support.watched import AT_MS, alarm, moment, node, picture

LOST = [alarm("pair.lost", Level.CRITICAL, name) for name in ("a:b", "c:d", "e:f", "g:h", "i:j")]
SILENT = [alarm("node.silent", Level.WARNING, name) for name in ("a", "b")]
NONE = alarm("nodes.none", Level.CRITICAL)
FAILING = alarm("jobs.failing", Level.CRITICAL)
MOON = alarm("moon.fell", Level.CRITICAL, text="The moon fell. Look up.")
QUIET = moment(sessions=0, done_per_s=0.0)


def seen(one: Alarm) -> Alarm:
    return msgspec.structs.replace(one, acknowledged_at_ms=AT_MS)


def hushed(one: Alarm) -> Alarm:
    return msgspec.structs.replace(one, silenced_until_ms=AT_MS + 1)


@pytest.mark.parametrize(
    ("shown", "level", "code", "subject", "more", "text"),
    [
        ({}, None, "translating", "", 0, "All is well: people are being translated."),
        ({"now": QUIET}, None, "ready", "", 0, "All is well; there is no speech right now."),
        (
            {"alarms": [alarm("pair.thin", Level.NOTICE, "en:zh")]},
            *(Level.NOTICE, "translating", "", 0, "All is well: people are being translated."),
        ),
        (
            {"alarms": SILENT[:1]},
            *(Level.WARNING, "translating", "", 1, "People are being translated; 1 thing needs attention."),
        ),
        (
            {"alarms": SILENT},
            *(Level.WARNING, "translating", "", 2, "People are being translated; 2 things need attention."),
        ),
        (
            {"alarms": SILENT, "now": QUIET},
            Level.WARNING,
            "ready",
            "",
            2,
            "There is no speech right now; 2 things need attention.",
        ),
        (
            # Most fail, and too few to be an outage.
            {"now": moment(done_per_s=0.07, failed_per_s=0.07)},
            *(Level.WARNING, "failing", "", 0, "Most translations failed just now."),
        ),
        (
            {"now": moment(done_per_s=0.0, failed_per_s=0.07), "alarms": SILENT[:1]},
            *(Level.WARNING, "failing", "", 1, "Most translations failed just now; 1 thing needs attention."),
        ),
        (
            {"now": moment(done_per_s=0.5, failed_per_s=0.1)},
            *(None, "translating", "", 0, "All is well: people are being translated."),
        ),
        # What is silenced does not count; what was acknowledged needs no other look, and hurts all the same.
        (
            {"alarms": [hushed(LOST[0])]},
            Level.NOTICE,
            "translating",
            "",
            0,
            "All is well: people are being translated.",
        ),
        (
            {"alarms": [seen(SILENT[0])]},
            Level.NOTICE,
            "translating",
            "",
            0,
            "All is well: people are being translated.",
        ),
        (
            {"alarms": [seen(LOST[0])]},
            *(Level.CRITICAL, "pair.lost", "a:b", 0, "Some languages cannot be translated: no node serves a:b."),
        ),
        (
            {"alarms": LOST[:1]},
            *(Level.CRITICAL, "pair.lost", "a:b", 0, "Some languages cannot be translated: no node serves a:b."),
        ),
        (
            # What is only counted comes first in a picture: it has no subject.
            {"alarms": [alarm("pair.lost", Level.CRITICAL, values={"more": 40}), *LOST, *SILENT]},
            *(Level.CRITICAL, "pair.lost", "a:b", 44),
            "Some languages cannot be translated: no node serves a:b, c:d and 43 more.",
        ),
        ({"alarms": [*SILENT, FAILING]}, Level.CRITICAL, "jobs.failing", "", 0, "Translations are failing."),
        (
            {"alarms": [FAILING, *LOST]},
            *(Level.CRITICAL, "pair.lost", "a:b", 4),
            "Some languages cannot be translated: no node serves a:b, c:d and 3 more.",
        ),
        (
            {"alarms": [*LOST, FAILING, NONE]},
            *(Level.CRITICAL, "nodes.none", "", 0, "Translation is down: no node accepts jobs."),
        ),
        (
            {"is_stale": True, "alarms": [NONE]},
            *(Level.CRITICAL, "redis.away", "", 0, "Translation is down: Redis is unavailable."),
        ),
        # An alarm that this table does not know speaks for itself.
        ({"alarms": [MOON]}, Level.CRITICAL, "moon.fell", "", 0, "The moon fell. Look up."),
    ],
)
def test_the_worst_decides_on_everything(
    shown: dict[str, Any], level: Level | None, code: str, subject: str, more: int, text: str
) -> None:
    found = verdict(picture(**shown))
    assert found == FleetVerdict(level=level, code=code, subject=subject, more=more, text=text)


@pytest.mark.parametrize("ended", ["done_per_s", "no_text_per_s", "cancelled_per_s"])
def test_whoever_talked_a_moment_ago_is_talking(ended: str) -> None:
    now = moment(AT_MS, **({"sessions": 0, "done_per_s": 0.0} | {ended: 0.07}))
    assert verdict(picture(now=now)).code == "translating"


@pytest.mark.parametrize(
    ("state", "lacks", "level"),
    [
        ("ready", (), None),
        ("ready", ("tts",), Level.WARNING),
        ("registering", (), Level.NOTICE),
        ("draining", (), Level.NOTICE),
        ("draining", ("tts",), Level.WARNING),
        ("degraded", (), Level.WARNING),
        ("probation", (), Level.WARNING),
        ("quarantined", (), Level.CRITICAL),
        ("quarantined", ("tts",), Level.CRITICAL),
        # Of another release.
        ("dreaming", (), Level.NOTICE),
    ],
)
def test_a_node_is_judged_by_its_state_and_by_what_it_lacks(
    state: str, lacks: tuple[str, ...], level: Level | None
) -> None:
    assert node_level(state, lacks) == level


def test_every_state_of_a_node_is_judged() -> None:
    assert NODE_LEVELS.keys() == {*NodeState, "quarantined", "probation"} - {"offline"}


@pytest.mark.parametrize(
    ("nodes", "slots", "free", "room", "level", "level_if_thin"),
    [
        (0, 0, 0, Room.NONE, Level.CRITICAL, Level.CRITICAL),
        (1, 0, 0, Room.FULL, Level.CRITICAL, Level.CRITICAL),
        (2, 10, 0, Room.FULL, Level.CRITICAL, Level.CRITICAL),
        (2, 10, 1, Room.LOW, Level.WARNING, Level.WARNING),
        (2, 10, 2, Room.HALF, None, Level.NOTICE),
        (2, 10, 4, Room.HALF, None, Level.NOTICE),
        (2, 10, 5, Room.WIDE, None, Level.NOTICE),
        (2, 10, 10, Room.WIDE, None, Level.NOTICE),
    ],
)
def test_a_pair_is_judged_by_its_room_and_by_who_is_alone_with_it(
    nodes: int, slots: int, free: int, room: Room, level: Level | None, level_if_thin: Level | None
) -> None:
    assert room_of(nodes, slots, free) is room
    assert pair_level(room, is_thin=False) == level
    assert pair_level(room, is_thin=True) == level_if_thin


def test_nodes_that_an_alarm_names_need_a_look_first_then_the_worst() -> None:
    nodes = [
        *(node("a", state="degraded"), node("b", unavailable=["tts"]), node("c"), node("d", state="quarantined")),
        *(node("e"), node("f", state="registering"), node("g", state="probation")),
    ]
    alarms = [alarm("node.silent", Level.WARNING, "e"), alarm("node.lost", Level.WARNING, "gone")]
    assert needs_look(picture(nodes=nodes, alarms=alarms)) == NeedsLook(nodes=["e", "d", "g", "a", "f", "b"])


@pytest.mark.parametrize(
    ("held", "alarms", "needs"),
    [(0, [], True), (1, [], False), (1, [NONE], True), (1, [alarm("node.silent", Level.WARNING, "n")], True)],
)
def test_a_node_that_drains_needs_a_look_once_it_is_empty_or_missed(
    held: int, alarms: list[object], needs: bool
) -> None:
    resting = node("n", state="draining", held=held, free=None)
    assert (needs_look(picture(nodes=[resting], alarms=alarms)).nodes == ["n"]) is needs


def test_many_nodes_that_need_a_look_are_counted() -> None:
    nodes = [node(f"n{number:03}", state="degraded") for number in range(NAMED_MAX + 7)]
    found = needs_look(picture(nodes=nodes))
    assert (found.nodes[0], len(found.nodes), found.more) == ("n000", NAMED_MAX, 7)


def test_a_picture_is_judged_once() -> None:
    once = judged(picture(nodes=[node("n", state="degraded")], alarms=SILENT))
    assert once.verdict == verdict(once)
    assert once.needs_look == NeedsLook(nodes=["n"])
    assert judged(once) is once
    assert judged(msgspec.structs.replace(once, verdict=None, is_stale=True)).verdict.code == "redis.away"  # type: ignore[union-attr]


def test_alarms_are_ordered_by_what_hurts_then_by_what_nobody_has_seen_and_the_silenced_come_last() -> None:
    lost = [alarm("pair.lost", Level.CRITICAL, name) for name in ("a:b", "c:d")]
    silent = alarm("node.silent", Level.WARNING, "n")
    full = alarm("pair.full", Level.WARNING, "a:b")
    shown = in_order([silent, full, hushed(MOON), seen(lost[0]), lost[1], FAILING, NONE])
    assert [f"{found.code} {found.subject}".strip() for found in shown] == [
        *(
            "nodes.none",
            "pair.lost c:d",
            "pair.lost a:b",
            "jobs.failing",
            "pair.full a:b",
            "node.silent n",
            "moon.fell",
        ),
    ]
