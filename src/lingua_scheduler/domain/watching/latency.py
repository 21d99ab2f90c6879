"""How long things took, counted in steps that grow by a constant factor: small, mergeable, exact to 2.5 percent."""

from bisect import bisect_left
from collections.abc import Iterable
from itertools import pairwise
from math import sqrt
from operator import add

FIRST_MS = 1.0
LAST_MS = 60_000.0
STEPS = 240

# The upper bound of each step; the first holds all that is shorter, the last all that is longer.
BOUNDS_MS: tuple[float, ...] = tuple(FIRST_MS * (LAST_MS / FIRST_MS) ** (step / STEPS) for step in range(STEPS + 1))
# What a step is read as; at both ends its only bound.
_MIDDLES_MS = (FIRST_MS, *(sqrt(low * high) for low, high in pairwise(BOUNDS_MS)), LAST_MS)


class LatencyTally:
    """A histogram: counts per step since the process started."""

    __slots__ = ("counts",)

    def __init__(self, counts: Iterable[int] = ()) -> None:
        given = list(counts)[: len(BOUNDS_MS) + 1]
        self.counts = given + [0] * (len(BOUNDS_MS) + 1 - len(given))

    def __len__(self) -> int:
        return sum(self.counts)

    def add(self, ms: float) -> None:
        self.counts[_step_of(ms)] += 1

    def since(self, before: "LatencyTally") -> "LatencyTally":
        """The increase since `before`; never negative, also after a restart of the counter."""
        return LatencyTally(max(0, now - then) for now, then in zip(self.counts, before.counts, strict=True))

    def percentile(self, percent: float) -> float | None:
        """The middle of the step it lies in; None when there is nothing."""
        total = len(self)
        if not total:
            return None
        wanted, passed = total * percent / 100, 0
        for step, count in enumerate(self.counts):
            passed += count
            if count and passed >= wanted:
                return _MIDDLES_MS[step]
        return LAST_MS


def merged(tallies: Iterable[LatencyTally]) -> LatencyTally:
    """All of them as one."""
    total = LatencyTally()
    for tally in tallies:
        total.counts = list(map(add, total.counts, tally.counts))
    return total


def _step_of(ms: float) -> int:
    if ms <= FIRST_MS:
        return 0
    if ms > LAST_MS:
        return len(BOUNDS_MS)
    return bisect_left(BOUNDS_MS, ms)
