"""Two runs side by side: what changed beyond noise."""

import math
from enum import StrEnum
from typing import NamedTuple

from lingua_scheduler.bench.figures import HIGHER_IS_BETTER, Figure, Run

# Two runs of the same code differ by this much although each is steady in itself.
BETWEEN_RUNS = 0.03


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
    earlier = {figure.name: figure for figure in before.figures}
    return [change_of(earlier[figure.name], figure) for figure in after.figures if figure.name in earlier]


def change_of(before: Figure, after: Figure) -> Change:
    noise = noise_of(before, after)
    difference = after.median - before.median
    if abs(difference) <= noise:
        verdict = Verdict.NOISE
    else:
        verdict = Verdict.BETTER if (difference > 0) == (after.unit in HIGHER_IS_BETTER) else Verdict.WORSE
    return Change(after.name, after.unit, before.median, after.median, noise, verdict)


def noise_of(before: Figure, after: Figure) -> float:
    """The pooled spread of both, and never less than runs differ by anyway."""
    pooled = math.sqrt((before.spread**2 + after.spread**2) / 2)
    return max(pooled, BETWEEN_RUNS * abs(before.median))


def differing_plans(before: Run, after: Run) -> list[str]:
    """Settings of the two runs that make a comparison doubtful."""
    names = sorted(before.plan.keys() | after.plan.keys())
    return [
        f"{name}: {before.plan.get(name)} then, {after.plan.get(name)} now"
        for name in names
        if before.plan.get(name) != after.plan.get(name)
    ]
