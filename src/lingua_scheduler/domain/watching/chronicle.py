"""What the fleet remembers together: which events are news, and what the leader knows for the alarms."""

from collections.abc import Iterable, Sequence

import msgspec

from lingua_scheduler.domain.watching.alarms import LostNode
from lingua_scheduler.domain.watching.demanded import DemandMemory
from lingua_scheduler.domain.watching.picture import Alarm, Event

# Instances look at slightly different times: what they see of one change is at most so far apart.
SAME_MS = 15_000
# A memory that was not renewed for so long says nothing about what is so now.
FRESH_MS = 30_000
# Vanished nodes that a memory names.
LOST_MAX = 100
# Alarms about what an instance itself met; those of the leader are no substitute.
OWN_ALARMS = frozenset({"data.unreadable"})


class FleetMemory(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Written by the leader, for the other instances and for the leader that follows."""

    at_ms: int
    made_by: str
    alarms: list[Alarm] = []
    served_by: dict[str, str] = {}
    lost: dict[str, LostNode] = {}
    demand: DemandMemory = DemandMemory()

    def is_fresh(self, now_ms: int) -> bool:
        return now_ms - self.at_ms < FRESH_MS


def fleet_alarms(memory: FleetMemory, own: Sequence[Alarm]) -> list[Alarm]:
    """The leader's, and those that only this instance can raise."""
    known = {(alarm.code, alarm.subject) for alarm in memory.alarms}
    mine = [alarm for alarm in own if alarm.code in OWN_ALARMS and (alarm.code, alarm.subject) not in known]
    return [*memory.alarms, *mine]


def newest_lost(lost: dict[str, LostNode]) -> dict[str, LostNode]:
    ranked = sorted(lost.items(), key=lambda item: -item[1].at_ms)
    return dict(ranked[:LOST_MAX])


def untold(own: Iterable[Event], told: Iterable[Event]) -> list[Event]:
    """Events that no other instance has reported: not the same thing at about the same time."""
    known: dict[tuple[object, ...], list[int]] = {}
    for event in told:
        known.setdefault(_what(event), []).append(event.at_ms)
    return [event for event in own if not any(_is_near(event, at_ms) for at_ms in known.get(_what(event), ()))]


def _what(event: Event) -> tuple[object, ...]:
    # One event may be about several pairs; then it has no subject.
    values = event.values
    return event.kind, event.subject, values.get("code"), values.get("to"), values.get("count") and values.get("pairs")


def _is_near(event: Event, at_ms: int) -> bool:
    return abs(event.at_ms - at_ms) < SAME_MS
