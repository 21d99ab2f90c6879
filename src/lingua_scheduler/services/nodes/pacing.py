"""Rate limits of one node: heartbeats, capability changes, unknown jobs it claims to run, reports without effect."""

import msgspec

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.guards.rates import Allowance, Bucket
from lingua_scheduler.services.nodes.capabilities import weight_of
from lingua_scheduler.setting_sections.nodes import NodesSettings
from lingua_sdk.protocol.node import LanguageCapabilities, NodeHeartbeat

# Burst of heartbeats, as when services start one after the other.
BURST_S = 2.0
# Jobs a node runs without a lease: after a data loss all of them at once, otherwise hardly any.
STRANGE_JOBS, STRANGE_JOBS_PER_S = 512, 32
# Reports about jobs that change nothing: the job is another node's or over, or it said so before. A node that was given
# up sends some for each slot when it is back.
STRAYS, STRAYS_PER_S = 128, 32
# Strays on top of that before the node is disconnected; one per second is forgiven.
STRAYS_PATIENCE = 1_000
# Excess heartbeats, or minutes' worth of changes, before the node is disconnected; one per second is forgiven.
PATIENCE, PATIENCE_MIN = 100, 3


class Pace:
    """The limits of one node. Heartbeats that come too early are coalesced into the newest, which is applied later."""

    __slots__ = (
        "_beats",
        "_changes",
        "_clock",
        "_fickle",
        "_hasty",
        "_readings",
        "_strange",
        "_stray",
        "_strayed",
        "put_off",
    )

    def __init__(self, settings: NodesSettings, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        per_s = settings.max_heartbeats_per_s
        self._beats = Allowance(per_s, BURST_S * per_s)
        self._changes = Allowance(settings.max_changes_per_min / 60, settings.max_changes_per_min)
        self._readings = Allowance(settings.max_changes_per_min / 60, settings.max_changes_per_min)
        self._hasty = Allowance(1, PATIENCE)
        self._fickle = Allowance(settings.max_changes_per_min / 60, PATIENCE_MIN * settings.max_changes_per_min)
        self._strange = Allowance(STRANGE_JOBS_PER_S, STRANGE_JOBS)
        self._stray = Bucket(STRAYS_PER_S, STRAYS)
        self._strayed = Allowance(1, STRAYS_PATIENCE)
        # What it said too early.
        self.put_off: NodeHeartbeat | None = None

    def may_beat(self) -> bool:
        return self._beats.take(1, self._clock())

    def may_change(self, said: LanguageCapabilities | None) -> bool:
        """Whether capabilities may change now; long lists count more."""
        return self._changes.take(weight_of(said), self._clock())

    def may_read(self, said: LanguageCapabilities) -> bool:
        """Whether the lists may be parsed, before it is known whether they are valid or change anything."""
        return self._readings.take(weight_of(said), self._clock())

    def is_time(self) -> bool:
        """Whether the delayed heartbeat may be applied now."""
        if self.put_off is None:
            return False
        now_s = self._clock()
        return self._changes.has(weight_of(self.put_off.language_capabilities), now_s) and self._beats.has(1, now_s)

    def may_adopt(self, jobs: int) -> int:
        """How many of these unknown jobs may be adopted now."""
        return self._strange.take_some(jobs, self._clock())

    def stray(self) -> float | None:
        """Count a report that changed nothing. Returns the seconds to rest for it; None if there were too many."""
        now_s = self._clock()
        wait_s = self._stray.take(1, now_s)
        return None if wait_s and not self._strayed.take(1, now_s) else wait_s

    def wait(self, message: NodeHeartbeat, *, is_change: bool = False) -> bool:
        """Delay the heartbeat; False if too many were delayed."""
        # By the time it is heeded the node runs other jobs.
        self.put_off = merged(self.put_off, msgspec.structs.replace(message, running_job_ids=None))
        return (self._fickle if is_change else self._hasty).take(1, self._clock())

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
