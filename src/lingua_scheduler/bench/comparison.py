"""Two runs side by side: in what they are not alike, and what changed beyond noise."""

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from statistics import quantiles
from typing import Any

import msgspec

from lingua_scheduler.bench.figures import HIGHER_IS_BETTER, Figure, Run

# Two runs of the same code differ by this share although each is steady in itself; more, the fewer samples there are.
FLOOR = 0.03
FLOORS_OF_FEW = {1: 0.2, 2: 0.1, 3: 0.05, 4: 0.05}
# From so many samples on the middle half of them counts: a range would only grow with every further one.
MANY = 10
# Machines whose pace differs by more than this share, or of which others used so many more cores, are not alike.
PACE = 0.1
OTHERS = 0.25

MEMORY = frozenset({"bytes", "KB", "MB"})
WALL_CLOCK = frozenset({"s", "ms", "µs", "1/s"})
# These depend on who had a core when: Redis looks at the clock on the wall, and jobs share scripts if they meet.
TIMED = frozenset({"in scripts", "scripts", "p50 ÷ alone", "p99 ÷ alone"})
OF_A_CORE = "of a core"
# CPU that others disturbed has changed only if it did by more than this share, scaled and as measured: neighbours
# stretch it by a quarter, and not by what fixed work is stretched.
BEYOND_DOUBT = 0.4
# Neither better nor worse: what a run asks for, what another figure says already, what is all but nothing.
NOT_JUDGED = frozenset({"asked", "chunks", "heartbeats", "sessions", "utterance", "of its slots", "memory slope"})

# Our own version is what one wants to compare.
MACHINE = {
    "redis": "Redis",
    "python": "Python",
    "aiohttp": "aiohttp",
    "uvloop": "uvloop",
    "system": "system",
    "processor": "processor",
    "cores": "cores",
}
PLAN = {
    "repeats": "samples of each figure",
    "jobs": "jobs of a sample",
    "in_flight": "utterances under way in each session",
    "workers": "processes of the scheduler",
    "rate": "utterances a second (0: as fast as it goes)",
    "fleets": "sizes of the fleet",
    "silent": "idle sessions",
    "phase_s": "seconds of a sample at real pace",
    "rounds": "samples of idle and saturation",
    "minutes": "minutes of a soak",
}

# What a scenario is loaded with: times, rates and whatever is of all sessions together follow it.
LOAD = ("sessions", "in_flight", "nodes", "workers", "rate")
LOADS = {
    "speakers": ("speakers", "nodes", "phase_s"),
    "idle": ("silent", "phase_s"),
    "saturation": ("nodes", "phase_s"),
    "soak": (*LOAD, "minutes"),
    "fleet": (),
}
# Memory, and what is counted in all, follow also how long all that went on.
LENGTH = ("jobs", "repeats")
FOLLOWS_LOAD = WALL_CLOCK | {"ms/s", "calls/s"}
FOLLOWS_LENGTH = frozenset({"KB", "MB", "in all", "a turn"})


class Verdict(StrEnum):
    BETTER = "better"
    WORSE = "worse"
    UNCLEAR = "unclear: it may be the machine"
    NOISE = "within noise"
    NOT_ALIKE = "not alike"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    unit: str
    before: float
    after: float
    # Without the scaling to the reference machine, where both runs have it.
    raw_before: float | None = None
    raw_after: float | None = None
    verdict: Verdict

    @property
    def percent(self) -> float | None:
        return (self.after / self.before - 1) * 100 if self.before else None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    # Why a difference may be of the runs and not of the code.
    differences: list[str]
    changes: list[Change]
    # Figures that only one of the runs has.
    in_one_only: int


def compare(before: Run, after: Run) -> Comparison:
    drift = abs(after.slowdown / before.slowdown - 1)
    is_disturbed = before.is_disturbed or after.is_disturbed
    changed = {name for name in after.plan if name in before.plan and before.plan[name] != after.plan[name]}
    earlier = {figure.name: figure for figure in before.figures}
    later = {figure.name for figure in after.figures}
    return Comparison(
        differences=differences(before, after),
        changes=[
            _change(
                earlier[figure.name],
                figure,
                Verdict.NOT_ALIKE
                if changed & _followed(figure)
                else verdict_of(earlier[figure.name], figure, drift, is_disturbed),
            )
            for figure in after.figures
            if figure.name in earlier and _metric(figure) not in NOT_JUDGED
        ],
        in_one_only=len(earlier.keys() ^ later),
    )


def _followed(figure: Figure) -> set[str]:
    """What of the plan makes this figure another one, whatever the code does."""
    load = LOADS.get(figure.name.split("/")[0], LOAD)
    if figure.unit in FOLLOWS_LENGTH:
        return {*load, *LENGTH}
    return set(load) if figure.unit in FOLLOWS_LOAD or _metric(figure) == OF_A_CORE else set()


def _change(before: Figure, after: Figure, verdict: Verdict) -> Change:
    return Change(
        name=after.name,
        unit=after.unit,
        before=before.median,
        after=after.median,
        raw_before=before.raw_median,
        raw_after=after.raw_median,
        verdict=verdict,
    )


def verdict_of(before: Figure, after: Figure, drift: float = 0.0, is_disturbed: bool = False) -> Verdict:
    """A change is beyond the floor and beyond the spread of both runs, and not of the machine."""
    floor = _floor(before, after, drift)
    moved = _share(before.median, after.median)
    if abs(moved) <= floor or _overlap(before.samples, after.samples):
        return Verdict.NOISE
    if is_disturbed and (after.unit in WALL_CLOCK or _metric(after) in TIMED):
        return Verdict.UNCLEAR
    if is_disturbed and _is_cpu(after) and not _is_beyond_doubt(before, after):
        return Verdict.UNCLEAR
    if before.raw_median is not None and after.raw_median is not None:
        raw = _share(before.raw_median, after.raw_median)
        # The yardstick may be wrong by as much as it takes out: not all work is slowed down as much as its own is.
        # What is left after that has moved the same way, and beyond the floor, as it was measured.
        if abs(moved) <= floor + abs(raw - moved):
            return Verdict.UNCLEAR
    return Verdict.BETTER if (moved > 0) == (after.unit in HIGHER_IS_BETTER) else Verdict.WORSE


def _is_cpu(figure: Figure) -> bool:
    return figure.raw_median is not None or _metric(figure).endswith("CPU") or _metric(figure) == OF_A_CORE


def _is_beyond_doubt(before: Figure, after: Figure) -> bool:
    moved = [_share(before.median, after.median)]
    if before.raw_median is not None and after.raw_median is not None:
        moved.append(_share(before.raw_median, after.raw_median))
    return min(moved) > BEYOND_DOUBT or max(moved) < -BEYOND_DOUBT


def _metric(figure: Figure) -> str:
    return figure.name.rsplit("/")[-1]


def _floor(before: Figure, after: Figure, drift: float) -> float:
    few = FLOORS_OF_FEW.get(min(len(before.samples), len(after.samples)), FLOOR)
    if after.unit in MEMORY:
        return FLOOR
    # CPU time is scaled to the machine's pace; what a clock on the wall says is not.
    return max(few, drift) if after.unit in WALL_CLOCK else few


def _share(before: float, after: float) -> float:
    """By what share of itself something grew; all that comes from nothing is infinitely more."""
    if before:
        return (after - before) / abs(before)
    return math.copysign(math.inf, after) if after else 0.0


def _overlap(before: Sequence[float], after: Sequence[float]) -> bool:
    (low, high), (other_low, other_high) = _range(before), _range(after)
    return low <= other_high and other_low <= high


def _range(samples: Sequence[float]) -> tuple[float, float]:
    if len(samples) < MANY:
        return min(samples), max(samples)
    low, _, high = quantiles(samples, n=4)
    return low, high


def differences(before: Run, after: Run) -> list[str]:
    """What one of the runs did not know it did not use."""
    found = [
        *_differing(MACHINE, before.machine, after.machine),
        *_differing({name: PLAN.get(name, name) for name in after.plan}, before.plan, after.plan),
    ]
    if abs(after.slowdown / before.slowdown - 1) > PACE:
        found.append(
            f"pace of the machine: fixed work took {before.slowdown:.2f} × as long as it should then,"
            f" {after.slowdown:.2f} × now"
        )
    if before.others is not None and after.others is not None and abs(after.others - before.others) > OTHERS:
        found.append(f"cores that other programs used: {before.others:g} then, {after.others:g} now")
    return found


def _differing(words: Mapping[str, str], before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    return [
        f"{word}: {_shown(before[name])} then, {_shown(after[name])} now"
        for name, word in words.items()
        if name in before and name in after and before[name] != after[name]
    ]


def _shown(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
