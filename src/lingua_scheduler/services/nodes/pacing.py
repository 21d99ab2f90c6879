"""How often one node may beat, change what it says of itself, and name jobs that nobody gave it."""

from time import monotonic

import msgspec

from lingua_scheduler.domain.guards.rates import Allowance
from lingua_scheduler.protocol.node import LanguageCapabilities, NodeHeartbeat
from lingua_scheduler.services.nodes.capabilities import weight_of
from lingua_scheduler.settings import NodesSettings

# So many heartbeats may come at once, as when services start one after the other.
BURST_S = 2.0
# Jobs a node runs that nobody gave it: after a loss all of them at once, then hardly any.
STRANGE_JOBS, STRANGE_JOBS_PER_S = 512, 32
# So many heartbeats that came too fast, or as many minutes' changes, and it is closed; one a second is forgiven.
PATIENCE, PATIENCE_MIN = 100, 3


class Pace:
    """One node's. What comes too early is put off: the newest heartbeat stands for all that had to wait."""

    __slots__ = ("_beats", "_changes", "_fickle", "_hasty", "_readings", "_strange", "put_off")

    def __init__(self, settings: NodesSettings) -> None:
        per_s = settings.max_heartbeats_per_s
        self._beats = Allowance(per_s, BURST_S * per_s)
        self._changes = Allowance(settings.max_changes_per_min / 60, settings.max_changes_per_min)
        self._readings = Allowance(settings.max_changes_per_min / 60, settings.max_changes_per_min)
        self._hasty = Allowance(1, PATIENCE)
        self._fickle = Allowance(settings.max_changes_per_min / 60, PATIENCE_MIN * settings.max_changes_per_min)
        self._strange = Allowance(STRANGE_JOBS_PER_S, STRANGE_JOBS)
        # What it said too early.
        self.put_off: NodeHeartbeat | None = None

    def may_beat(self) -> bool:
        return self._beats.take(1, monotonic())

    def may_change(self, said: LanguageCapabilities | None) -> bool:
        """What takes long to read counts more."""
        return self._changes.take(weight_of(said), monotonic())

    def may_read(self, said: LanguageCapabilities) -> bool:
        """Whether lists may be looked into, before anybody knows whether they are right, or change anything."""
        return self._readings.take(weight_of(said), monotonic())

    def is_time(self) -> bool:
        """Whether what was put off would not be put off again."""
        if self.put_off is None:
            return False
        now_s = monotonic()
        return self._changes.has(weight_of(self.put_off.language_capabilities), now_s) and self._beats.has(1, now_s)

    def may_adopt(self, jobs: int) -> int:
        """How many of so many jobs nobody gave it are accounted for now."""
        return self._strange.take_some(jobs, monotonic())

    def wait(self, message: NodeHeartbeat, *, is_change: bool = False) -> bool:
        """Put it off; False when too many had to be."""
        # By the time it is heeded the node runs other jobs.
        self.put_off = merged(self.put_off, msgspec.structs.replace(message, running_job_ids=None))
        return (self._fickle if is_change else self._hasty).take(1, monotonic())

    def catch_up(self, message: NodeHeartbeat) -> NodeHeartbeat:
        """The message, with what an earlier one said that had to wait."""
        earlier, self.put_off = self.put_off, None
        return message if earlier is None or earlier is message else merged(earlier, message)


def merged(earlier: NodeHeartbeat | None, later: NodeHeartbeat) -> NodeHeartbeat:
    """The later one wins; what it leaves out it does not change."""
    if earlier is None:
        return later
    left_out = {
        name: getattr(earlier, name)
        for name in ("language_capabilities", "max_concurrent_jobs", "heartbeat_interval_ms")
        if getattr(later, name) is None
    }
    return msgspec.structs.replace(later, **left_out)
