"""Retry back-off and retry budget: how soon a job is retried, and how many retries are allowed overall."""

from lingua_sdk.domain.backoff import Backoff
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.domain.losses import OTHER

PAUSES = Backoff(0.05, 1.0, jitter=0.5)
# The node never started, is gone, or refused immediately: retry on another node without a delay.
# Our own words for a loss (node_gone, send_failed, ack_timeout …) are of this kind too; they are no codes.
_AT_ONCE = frozenset({ErrorCode.NODE_OVERLOADED, ErrorCode.MODEL_NOT_AVAILABLE, ErrorCode.WS_DISCONNECTED})


def pause_s(reason: str, retry: int, dice: float) -> float:
    """Delay before retry number `retry` (from 1).

    `dice` in [0, 1) is the jitter, so that retries do not synchronise.
    """
    if reason in _AT_ONCE or (reason not in ErrorCode.__members__ and reason != OTHER):
        return 0
    return PAUSES.pause_s(retry, dice)


class RetryBudget:
    """Retry budget: a token bucket that first attempts fill and retries empty, so that retries stay a share of the
    load.
    """

    def __init__(self, percent: int, burst: int) -> None:
        # Counted in hundredths of a retry, so that nothing is lost to rounding.
        self._percent = percent
        self._most = burst * 100
        self._left = self._most

    def earn(self) -> None:
        """A job had its first attempt."""
        if self._left < self._most:
            self._left = min(self._left + self._percent, self._most)

    def take(self) -> bool:
        """Take one retry; False if the budget is used up."""
        if self._left < 100:
            return False
        self._left -= 100
        return True
