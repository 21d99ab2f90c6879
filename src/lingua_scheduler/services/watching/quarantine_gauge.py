"""The gauge of quarantined nodes by name, so that an alert can say which node it is about."""

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.guards.rates import Allowance
from lingua_scheduler.domain.watching.figures import OTHER
from lingua_scheduler.domain.watching.picture import Picture
from lingua_scheduler.domain.watching.verdict import QUARANTINED
from lingua_scheduler.telemetry import metrics

# Peers choose the names of nodes: at most so many are named at once, and so many new ones in a day.
NAMED_MAX = 20
NAMES_A_DAY = 100
_DAY_S = 86_400


class QuarantineGauge:
    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._names_left = Allowance(NAMES_A_DAY / _DAY_S, NAMES_A_DAY)
        self._shown: set[str] = set()

    def show(self, picture: Picture) -> None:
        """Without nodes whose alarm is silenced. A stale picture says nothing of now, and changes nothing."""
        if picture.is_stale:
            return
        silenced = {one.subject for one in picture.alarms if one.silenced_until_ms and one.code == "node.quarantined"}
        found = [node.node_id for node in picture.nodes if node.state == QUARANTINED and node.node_id not in silenced]
        # Those that are named keep their name.
        rows: dict[str, int] = {name: 1 for name in found if name in self._shown}
        for name in sorted(set(found) - rows.keys()):
            is_named = len(rows) < NAMED_MAX and self._names_left.take(1, self._clock())
            key = name if is_named else OTHER
            rows[key] = rows.get(key, 0) + 1
        if not self._shown:
            metrics.NODE_QUARANTINED.clear()
        for gone in self._shown - rows.keys():
            metrics.NODE_QUARANTINED.remove(gone)
        for name, count in rows.items():
            metrics.NODE_QUARANTINED.labels(name).set(count)
        self._shown = set(rows)
