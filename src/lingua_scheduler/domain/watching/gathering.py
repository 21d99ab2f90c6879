"""Gathers events of one cause: a node that comes or goes changes dozens of pairs, which is one event and not dozens."""

from collections.abc import Sequence

from lingua_scheduler.domain.watching.picture import Event
from lingua_sdk.domain.languages import Pair

# From this many on they are told as one, which names the first few.
MANY = 4
NAMED = 3

_THIN = "pair.thin"
_SAID = {
    "pair.served": "{pairs} are served",
    "pair.lost": "{pairs} are no longer served",
    "alarm.raised": "{pairs} depend on {node_id} alone. Add a second node for them.",
    "alarm.cleared": "Over: {pairs} depend on {node_id} alone. Add a second node for them.",
}

Cause = tuple[str, str, str]


def gathered(events: Sequence[Event]) -> list[Event]:
    """Events of one moment in their order, the many of a kind, a level and a node as one in the place of the first."""
    groups: dict[Cause, list[Event]] = {}
    for event in events:
        if (cause := _cause(event)) is not None:
            groups.setdefault(cause, []).append(event)
    many = {cause: alike for cause, alike in groups.items() if len(alike) >= MANY}
    told: list[Event] = []
    for event in events:
        cause = _cause(event)
        if cause is None or cause not in many:
            if not (_is_rest(event) and any(kind == event.kind and node_id for kind, _, node_id in many)):
                told.append(event)
        elif event is many[cause][0]:
            told.append(_as_one(many[cause], _rest_of(cause, many, events)))
    return told


def _cause(event: Event) -> Cause | None:
    """What the events have in common; None for one that is always told by itself."""
    if not event.subject or event.values.get("code", _THIN) != _THIN or event.kind not in _SAID:
        return None
    return event.kind, event.level.value, str(event.values.get("node_id", ""))


def _is_rest(event: Event) -> bool:
    """The alarm that stands for those of its code that are only counted."""
    return not event.subject and event.values.get("code") == _THIN


def _rest_of(cause: Cause, many: dict[Cause, list[Event]], events: Sequence[Event]) -> int:
    """Those that are only counted name no node: they go with the largest group of their kind."""
    alike = [other for other in many if other[0] == cause[0] and other[2]]
    if not cause[2] or cause != max(alike, key=lambda other: len(many[other])):
        return 0
    return sum(int(event.values.get("more", 0)) for event in events if _is_rest(event) and event.kind == cause[0])


def _as_one(alike: Sequence[Event], rest: int) -> Event:
    first, count = alike[0], len(alike) + rest
    names = [event.subject for event in alike[:NAMED]]
    pairs = f"{', '.join(map(_arrow, names))} and {count - NAMED} more"
    values: dict[str, str | int | float] = {"count": count, "pairs": ",".join(names)}
    values |= {name: first.values[name] for name in ("code", "node_id") if name in first.values}
    text = _SAID[first.kind].format(pairs=pairs, node_id=first.values.get("node_id", ""))
    return Event(at_ms=first.at_ms, kind=first.kind, level=first.level, subject="", text=text, values=values)


def _arrow(name: str) -> str:
    src, tgt = Pair.parse(name)
    return f"{src} → {tgt}"
