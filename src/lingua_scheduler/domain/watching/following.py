"""Keeping a picture up to date: the change that is sent to watchers, and how it is applied to their picture."""

from collections import deque
from typing import NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from lingua_scheduler.domain.watching.pair_work import ScalingLook
from lingua_scheduler.domain.watching.pairs import name_of
from lingua_scheduler.domain.watching.picture import (
    Alarm,
    DetourLook,
    Event,
    FleetVerdict,
    InstanceLook,
    JobLook,
    Moment,
    NeedsLook,
    NodeLook,
    PairLook,
    Picture,
    RoomsLook,
    WideLook,
)


class NodeLoad(NamedTuple):
    """What changes of a node all the time."""

    held: int
    free: int | None
    seen_at_ms: int
    cpu: float | None = None
    memory: float | None = None
    gpu: float | None = None


class WideLoad(NamedTuple):
    """What changes of wide nodes all the time."""

    nodes: int
    slots: int
    free: int
    text_nodes: int
    hangs_on: str


def wide_load(wide: WideLook) -> WideLoad:
    return WideLoad(wide.nodes, wide.slots, wide.free, wide.text_nodes, wide.hangs_on)


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """From one picture to the next; what is not there has not changed."""

    serial: int
    at_ms: int
    is_stale: bool
    now: Moment
    # None: it is gone.
    nodes: dict[str, NodeLook | None] = {}
    loads: dict[str, NodeLoad] = {}
    # By src:tgt.
    pairs: dict[str, PairLook | None] = {}
    # By the name of their pool.
    wide: dict[str, WideLook | None] = {}
    wide_loads: dict[str, WideLoad] = {}
    # Oldest first.
    events: list[Event] = []
    jobs_ended: dict[str, int] | UnsetType = UNSET
    session_languages: dict[str, int] | UnsetType = UNSET
    instances: list[InstanceLook] | UnsetType = UNSET
    leader: str | UnsetType | None = UNSET
    map_version: int | UnsetType = UNSET
    map_made_at_ms: int | UnsetType = UNSET
    dead_letters: int | UnsetType = UNSET
    failures: list[JobLook] | UnsetType = UNSET
    slow: list[JobLook] | UnsetType = UNSET
    alarms: list[Alarm] | UnsetType = UNSET
    verdict: FleetVerdict | UnsetType = UNSET
    needs_look: NeedsLook | UnsetType = UNSET
    rooms: RoomsLook | UnsetType = UNSET
    detours: list[DetourLook] | UnsetType = UNSET
    scaling: ScalingLook | UnsetType = UNSET


class Whole(msgspec.Struct, frozen=True, kw_only=True):
    """The first message to a watcher, repeated when it missed a change."""

    picture: Picture
    history: list[Moment] = []
    events: list[Event] = []


class OutOfStep(Exception):
    """A change that does not follow the picture; only a whole one helps."""


MAX_MOMENTS = 2_000
MAX_EVENTS = 500

_WHOLE_VALUES = (
    "jobs_ended",
    "session_languages",
    "instances",
    "leader",
    "map_version",
    "map_made_at_ms",
    "dead_letters",
    "failures",
    "slow",
    "alarms",
    "verdict",
    "needs_look",
    "rooms",
    "detours",
    "scaling",
)


def follow(picture: Picture, change: Change) -> Picture:
    """The next picture. A change that came twice changes nothing."""
    if change.serial <= picture.serial:
        return picture
    if change.serial != picture.serial + 1:
        raise OutOfStep(f"change {change.serial} does not follow picture {picture.serial}")
    said = {name: value for name in _WHOLE_VALUES if (value := getattr(change, name)) is not UNSET}
    return msgspec.structs.replace(
        picture,
        serial=change.serial,
        at_ms=change.at_ms,
        is_stale=change.is_stale,
        now=change.now,
        nodes=_nodes(picture.nodes, change),
        pairs=_pairs(picture.pairs, change.pairs),
        wide=_wide(picture.wide, change),
        **said,
    )


def _nodes(before: list[NodeLook], change: Change) -> list[NodeLook]:
    if not change.nodes and not change.loads:
        return before
    nodes = {node.node_id: node for node in before}
    for node_id, load in change.loads.items():
        if node_id not in nodes:
            raise OutOfStep(f"there is no node {node_id} in picture {change.serial - 1}")
        nodes[node_id] = msgspec.structs.replace(nodes[node_id], **load._asdict())
    for node_id, node in change.nodes.items():
        if node is None:
            nodes.pop(node_id, None)
        else:
            nodes[node_id] = node
    return [nodes[node_id] for node_id in sorted(nodes)]


def _pairs(before: list[PairLook], changed: dict[str, PairLook | None]) -> list[PairLook]:
    if not changed:
        return before
    pairs = {name_of(pair): pair for pair in before} | changed
    return sorted((pair for pair in pairs.values() if pair is not None), key=lambda pair: (pair.src, pair.tgt))


def _wide(before: list[WideLook], change: Change) -> list[WideLook]:
    if not change.wide and not change.wide_loads:
        return before
    known = {wide.name: wide for wide in before}
    for name, load in change.wide_loads.items():
        if name not in known:
            raise OutOfStep(f"there are no nodes {name} in picture {change.serial - 1}")
        known[name] = msgspec.structs.replace(known[name], **load._asdict())
    found = known | change.wide
    return [wide for _, wide in sorted(found.items()) if wide is not None]


class Seen:
    """The state of a watcher: the picture, and a bounded history."""

    def __init__(self) -> None:
        self.picture: Picture | None = None
        self.history: deque[Moment] = deque(maxlen=MAX_MOMENTS)
        # Oldest first.
        self.events: deque[Event] = deque(maxlen=MAX_EVENTS)

    def hear(self, told: Whole | Change) -> None:
        if isinstance(told, Whole):
            self.picture = told.picture
            self.history = deque(told.history, MAX_MOMENTS)
            self.events = deque(told.events, MAX_EVENTS)
            return
        if self.picture is None:
            raise OutOfStep("a change came before the first picture")
        following = follow(self.picture, told)
        if following is not self.picture:
            self.picture = following
            self.history.append(told.now)
            self.events.extend(told.events)

    def frozen(self) -> "Seen":
        """A copy that later changes do not affect."""
        kept = Seen()
        kept.picture = self.picture
        kept.history = self.history.copy()
        kept.events = self.events.copy()
        return kept
