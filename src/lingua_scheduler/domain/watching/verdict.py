"""The verdicts of a picture: on a node, on a pair, on everything, and which nodes need a look. Decided only here."""

from collections.abc import Collection, Iterable, Sequence

import msgspec

from lingua_scheduler.domain.nodes.nodes import NodeState
from lingua_scheduler.domain.watching.picture import (
    Alarm,
    FleetVerdict,
    Level,
    Moment,
    NeedsLook,
    NodeLook,
    PairLook,
    Picture,
    Room,
)

SEVERITY = {Level.CRITICAL: 0, Level.WARNING: 1, Level.NOTICE: 2}

READY = NodeState.READY.value
DRAINING = NodeState.DRAINING.value
QUARANTINED = "quarantined"
PROBATION = "probation"
# The worst first.
NODE_LEVELS: dict[str, Level | None] = {
    QUARANTINED: Level.CRITICAL,
    PROBATION: Level.WARNING,
    NodeState.DEGRADED.value: Level.WARNING,
    NodeState.REGISTERING.value: Level.NOTICE,
    DRAINING: Level.NOTICE,
    READY: None,
}
_RANKS = {state: rank for rank, state in enumerate(NODE_LEVELS)}
# Nodes that are named; the rest are counted.
NAMED_MAX = 50

# Below these shares of free slots.
LOW_SHARE, HALF_SHARE = 0.2, 0.5
_ROOM_LEVELS = {Room.NONE: Level.CRITICAL, Room.FULL: Level.CRITICAL, Room.LOW: Level.WARNING}

# The alarm about a pair that is asked for, and that no node has served before.
UNSERVED = "pair.unserved"
TRANSLATING = "translating"
FAILING = "failing"
IDLE = "ready"
# Every alarm, what hurts people most first.
HURTS = (
    "redis.away",
    "nodes.none",
    "pair.lost",
    "pair.quarantined",
    "room.language_unserved",
    "pair.unserved",
    "jobs.failing",
    "auth.off",
    "certificate.expiring",
    "redis.full",
    "pair.full",
    "latency.high",
    "key.expiring",
    "rooms.guessing",
    "certificate.refused",
    "node.lost",
    "node.quarantined",
    "node.silent",
    "instance.dead",
    "leader.none",
    "letters.dead",
    "keys.differ",
    "data.unreadable",
    "pair.thin",
)
_HURTS = {code: rank for rank, code in enumerate(HURTS)}
# {subjects} is what such alarms are about.
_CRITICAL = {
    "redis.away": "Translation is down: Redis is unavailable.",
    "nodes.none": "Translation is down: no node accepts jobs.",
    "pair.lost": "Some languages cannot be translated: no node serves {subjects}.",
    "pair.quarantined": "Some languages depend on quarantined nodes: {subjects}.",
    "room.language_unserved": "People in rooms cannot follow: no node translates into {subjects} for them.",
    "jobs.failing": "Translations are failing.",
    "auth.off": "Every caller is let in: authentication is off.",
    "certificate.expiring": "Clients and nodes do not connect: the TLS certificate has expired.",
}
_SENTENCES = {
    TRANSLATING: "All is well: people are being translated.",
    FAILING: "Most translations failed just now.",
    IDLE: "All is well; there is no speech right now.",
}
_WITH_WARNINGS = {
    TRANSLATING: "People are being translated",
    FAILING: "Most translations failed just now",
    IDLE: "There is no speech right now",
}
_MOST_SUBJECTS = 2


def judged(picture: Picture) -> Picture:
    """With the verdict, and with what needs a look; as it is when it has them."""
    if picture.verdict is not None and picture.needs_look is not None:
        return picture
    pairs = _calmed(picture)
    return msgspec.structs.replace(picture, pairs=pairs, verdict=verdict(picture), needs_look=needs_look(picture))


def _calmed(picture: Picture) -> list[PairLook]:
    """Every client may ask for anything: a pair that was never served is no outage."""
    unserved = {alarm.subject for alarm in picture.alarms if alarm.code == UNSERVED}
    if not unserved:
        return picture.pairs
    return [
        msgspec.structs.replace(pair, level=Level.WARNING) if f"{pair.src}:{pair.tgt}" in unserved else pair
        for pair in picture.pairs
    ]


def node_level(state: str, lacks: Collection[str] = ()) -> Level | None:
    """`lacks`: services it said it cannot offer for now."""
    level = NODE_LEVELS.get(state, Level.NOTICE)
    return Level.WARNING if lacks and level in (None, Level.NOTICE) else level


def room_of(nodes: int, slots: int, free: int) -> Room:
    if not nodes:
        return Room.NONE
    if not free or not slots:
        return Room.FULL
    share = free / slots
    return Room.LOW if share < LOW_SHARE else Room.HALF if share < HALF_SHARE else Room.WIDE


def pair_level(room: Room, *, is_thin: bool) -> Level | None:
    """`is_thin`: of several nodes, one alone serves it."""
    return _ROOM_LEVELS.get(room, Level.NOTICE if is_thin else None)


def needs_look(picture: Picture) -> NeedsLook:
    """Nodes that an alarm names first, then by what is wrong with them.

    A draining node with jobs is normal. Once it is empty it can be stopped or resumed; if no other node accepts jobs,
    one node too many may have been drained.
    """
    named = {alarm.subject for alarm in picture.alarms if alarm.code.startswith("node.")}
    is_missed = any(alarm.code == "nodes.none" for alarm in picture.alarms)
    found = [
        node
        for node in picture.nodes
        if (node.level is not None and (node.state != DRAINING or not node.held or is_missed)) or node.node_id in named
    ]
    found.sort(key=lambda node: _urgency(node, named))
    names = [node.node_id for node in found]
    return NeedsLook(nodes=names[:NAMED_MAX], more=max(0, len(names) - NAMED_MAX))


def _urgency(node: NodeLook, named: Collection[str]) -> tuple[bool, int, str]:
    return node.node_id not in named, _RANKS.get(node.state, len(_RANKS)), node.node_id


def verdict(picture: Picture) -> FleetVerdict:
    if picture.is_stale:
        return FleetVerdict(level=Level.CRITICAL, code="redis.away", text=_CRITICAL["redis.away"])
    counted = [alarm for alarm in picture.alarms if not alarm.silenced_until_ms]
    urgent = [alarm for alarm in counted if alarm.level is Level.CRITICAL]
    if urgent:
        return _critical(urgent)
    code = _what_goes_on(picture.now)
    # An operator has seen what was acknowledged.
    warnings = sum(alarm.level is Level.WARNING and not alarm.acknowledged_at_ms for alarm in counted)
    if warnings:
        need = "thing needs" if warnings == 1 else "things need"
        text = f"{_WITH_WARNINGS[code]}; {warnings} {need} attention."
        return FleetVerdict(level=Level.WARNING, code=code, more=warnings, text=text)
    level = Level.NOTICE if picture.alarms else None
    return FleetVerdict(level=Level.WARNING if code == FAILING else level, code=code, text=_SENTENCES[code])


def _what_goes_on(now: Moment) -> str:
    ended = now.ended_per_s - now.cancelled_per_s
    if now.failed_per_s and 2 * now.failed_per_s >= ended:
        return FAILING
    # HTTP callers have no session, and sessions of one sentence are too short to be seen.
    return TRANSLATING if now.sessions or now.ended_per_s else IDLE


def in_order(alarms: Iterable[Alarm]) -> list[Alarm]:
    """What hurts people most first; of one kind what is not acknowledged yet. What is silenced comes last."""
    return sorted(alarms, key=_order)


def _order(alarm: Alarm) -> tuple[bool, int, int, bool, bool, str, str]:
    rank = _HURTS.get(alarm.code, len(_HURTS))
    is_summary = not alarm.subject
    return (
        *(alarm.silenced_until_ms > 0, SEVERITY[alarm.level], rank, alarm.acknowledged_at_ms > 0),
        *(is_summary, alarm.code, alarm.subject),
    )


def _critical(urgent: list[Alarm]) -> FleetVerdict:
    for code, sentence in _CRITICAL.items():
        alike = [alarm for alarm in urgent if alarm.code == code]
        if alike:
            named, unnamed = subjects(alike)
            more = max(0, len(named) - 1) + unnamed
            text = sentence.format(subjects=listed(named, unnamed, _MOST_SUBJECTS))
            subject = named[0] if named else ""
            return FleetVerdict(level=Level.CRITICAL, code=code, subject=subject, more=more, text=text)
    worst = in_order(urgent)[0]
    more = sum(alarm.code == worst.code for alarm in urgent) - 1
    return FleetVerdict(level=Level.CRITICAL, code=worst.code, subject=worst.subject, more=more, text=worst.text)


def subjects(alarms: Sequence[Alarm]) -> tuple[list[str], int]:
    """What alarms of one kind are about, and how many more there are that were only counted."""
    named = [alarm.subject for alarm in alarms if alarm.subject]
    return named, sum(int(alarm.values.get("more", 0)) for alarm in alarms if not alarm.subject)


def listed(words: Sequence[str], unnamed: int, most: int) -> str:
    """Some of them, and how many more there are."""
    more = max(0, len(words) - most) + unnamed
    return ", ".join(words[:most]) + (f" and {more} more" if more else "")
