"""Two runs side by side: what changed beyond noise."""

import math
from enum import StrEnum
from typing import NamedTuple

from lingua_scheduler.bench.figures import HIGHER_IS_BETTER, Figure, Run

# Two runs of the same code differ by this much although each is steady in itself.
BETWEEN_RUNS = 0.03
WALL_CLOCK = frozenset({"s", "ms", "µs", "1/s"})


class Verdict(StrEnum):
    BETTER = "better"
    WORSE = "worse"
    NOISE = "within noise"


class Change(NamedTuple):
    name: str
    unit: str
    before: float
    after: float
    noise: float
    verdict: Verdict

    @property
    def percent(self) -> float:
        return (self.after / self.before - 1) * 100 if self.before else 0.0


def compare(before: Run, after: Run) -> list[Change]:
    """One change for every figure that both runs have."""
    drift = abs(after.slowdown / before.slowdown - 1)
    earlier = {figure.name: figure for figure in before.figures}
    return [change_of(earlier[figure.name], figure, drift) for figure in after.figures if figure.name in earlier]


def change_of(before: Figure, after: Figure, drift: float = 0.0) -> Change:
    noise = noise_of(before, after, drift)
    difference = after.median - before.median
    if abs(difference) <= noise:
        verdict = Verdict.NOISE
    else:
        verdict = Verdict.BETTER if (difference > 0) == (after.unit in HIGHER_IS_BETTER) else Verdict.WORSE
    return Change(after.name, after.unit, before.median, after.median, noise, verdict)


def noise_of(before: Figure, after: Figure, drift: float) -> float:
    """The pooled spread of both, and never less than runs differ by anyway."""
    pooled = math.sqrt((before.spread**2 + after.spread**2) / 2)
    # CPU time is scaled to the machine's pace; what a clock on the wall says is not.
    floor = max(BETWEEN_RUNS, drift) if after.unit in WALL_CLOCK else BETWEEN_RUNS
    return max(pooled, floor * abs(before.median))


def differing_plans(before: Run, after: Run) -> list[str]:
    """Settings of the two runs that make a comparison doubtful; what one of them did not know it did not use."""
    names = sorted(before.plan.keys() & after.plan.keys())
    return [
        f"{name}: {before.plan.get(name)} then, {after.plan.get(name)} now"
        for name in names
        if before.plan.get(name) != after.plan.get(name)
    ]
