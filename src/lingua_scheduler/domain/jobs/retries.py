"""When a job that lost its attempt may have another: how soon, and how many of all jobs may."""

from lingua_scheduler.domain.errors import ErrorCode
from lingua_scheduler.domain.jobs.losses import OTHER

FIRST_PAUSE_MS = 50
LONGEST_PAUSE_MS = 1_000
# The node never began, or is gone, or said at once that it cannot: another one may try this very moment.
# Our own words for a loss (node_gone, send_failed, ack_timeout …) are of this kind too; they are no codes.
_AT_ONCE = frozenset({ErrorCode.NODE_OVERLOADED, ErrorCode.MODEL_NOT_AVAILABLE, ErrorCode.WS_DISCONNECTED})


def pause_ms(reason: str, retry: int, dice: float) -> float:
    """How long to wait before retry number `retry` (from 1); `dice` in [0, 1) keeps jobs from marching in step."""
    if reason in _AT_ONCE or (reason not in ErrorCode.__members__ and reason != OTHER):
        return 0
    longest = min(FIRST_PAUSE_MS << min(retry - 1, 10), LONGEST_PAUSE_MS)
    return longest * (0.5 + dice / 2)


class RetryBudget:
    """A bucket that first attempts fill and retries empty, so that retries never add more than a share to the load."""

    def __init__(self, percent: int, burst: int) -> None:
        # Counted in hundredths of a retry, so that nothing is lost to rounding.
        self._percent = percent
        self._most = burst * 100
        self._left = self._most

    def earn(self) -> None:
        """A job had its first attempt."""
        self._left = min(self._left + self._percent, self._most)

    def take(self) -> bool:
        """One retry, if there is one left."""
        if self._left < 100:
            return False
        self._left -= 100
        return True
