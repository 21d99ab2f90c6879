"""Limits how many events of a kind are told, of those that nodes and clients can cause without end."""

from collections import Counter
from collections.abc import Iterable

from lingua_scheduler.domain.guards.rates import Allowance
from lingua_scheduler.domain.watching.picture import Event

# Of raised or cleared alarms with one code: a day of these is about what the history holds.
BURST = 100
PER_S = 1 / 300
# What nodes and clients cause directly: they come and go, also under ever new ids, and with them what they serve. All
# kinds together leave room for the others.
PEERS_BURST = 40
_BY_PEERS = frozenset({"node.joined", "node.left", "node.state_changed", "pair.served", "pair.lost", "job.failed"})

Kind = tuple[str, str]


class EventLimits:
    """Those beyond the limit are counted; the number is told when there is room again."""

    def __init__(self) -> None:
        # Bounded: there are only so many kinds, and codes of alarms.
        self._left: dict[Kind, Allowance] = {}
        self._untold: Counter[Kind] = Counter()

    def told(self, events: Iterable[Event], now_s: float) -> list[Event]:
        shown = []
        for event in events:
            kind = event.kind, str(event.values.get("code", ""))
            if not kind[1] and event.kind not in _BY_PEERS:
                shown.append(event)
                continue
            left = self._left.setdefault(kind, Allowance(PER_S, BURST if kind[1] else PEERS_BURST))
            if not left.take(1, now_s):
                self._untold[kind] += 1
            elif untold := self._untold.pop(kind, 0):
                shown.append(_summary(event, untold + 1))
            else:
                shown.append(event)
        return shown


def _summary(last: Event, more: int) -> Event:
    text = f"… and {more} more of the same"
    return Event(at_ms=last.at_ms, kind=last.kind, level=last.level, subject="", text=text, values={"more": more})
