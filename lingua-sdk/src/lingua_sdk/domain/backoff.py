"""Exponential backoff with jitter: how long to wait before the next try."""

from typing import NamedTuple

# More than any pause needs to reach its longest, and never too large for a float.
_MAX_DOUBLINGS = 30


class Backoff(NamedTuple):
    """`jitter` is the share of a pause that chance decides: 1 is full jitter, 0 none."""

    first_s: float
    longest_s: float
    jitter: float = 0.0

    def pause_s(self, failures: int, dice: float = 1.0) -> float:
        """The delay after `failures` consecutive failures; none before the first. `dice` is between 0 and 1."""
        if failures <= 0:
            return 0.0
        pause_s = min(self.first_s * 2.0 ** min(failures - 1, _MAX_DOUBLINGS), self.longest_s)
        return pause_s * (1 - self.jitter + self.jitter * dice)
