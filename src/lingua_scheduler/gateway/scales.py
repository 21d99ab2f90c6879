"""CPU limit of one connection: measures its CPU time and computes how long to pause reading."""

from collections.abc import Callable
from time import perf_counter, thread_time

from lingua_scheduler.domain.guards.rates import Bucket

# CPU burst of a connection before it is paused; after half of it, CPU time is measured exactly.
CPU_BURST_S = 0.02
# A connection that is read more slowly gets a turn this often, not one for each frame.
LEAST_WAIT_S = 0.02
# CPU time is measured exactly for this long after the last pause.
EXACT_FOR_S = 10.0


class Scales:
    """Measures elapsed time first, and CPU time only of connections that seem too expensive.

    Reading CPU time is a system call, reading the clock is not. But on a busy machine time also passes because other
    programs run, and a connection must not be paused for that.
    """

    __slots__ = ("_bucket", "_exact_since_s", "_share", "clock")

    def __init__(self, share: float) -> None:
        self._share = share
        self._bucket = Bucket(share, CPU_BURST_S / 2)
        self._exact_since_s: float | None = None
        # Read before and after; `take` gets the difference.
        self.clock: Callable[[], float] = perf_counter

    def take(self, spent_s: float, now_s: float) -> float:
        """How long to rest, for what was spent by the clock of these scales."""
        wait_s = self._bucket.take(spent_s, now_s)
        if self._exact_since_s is None:
            if wait_s:
                self._weigh_by(thread_time, now_s)
            return 0.0
        if wait_s:
            self._exact_since_s = now_s
            return max(wait_s, LEAST_WAIT_S)
        if now_s - self._exact_since_s > EXACT_FOR_S:
            self._weigh_by(perf_counter, None)
        return 0.0

    def _weigh_by(self, clock: Callable[[], float], exact_since_s: float | None) -> None:
        self.clock = clock
        self._exact_since_s = exact_since_s
        self._bucket = Bucket(self._share, CPU_BURST_S / 2)
