"""What we aim at on a two-core machine, as values to hold a run against."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from lingua_scheduler.bench.figures import Run
from lingua_scheduler.bench.queues.scenario import BEST_PEER, BEST_PYTHON_PEER

Asks = Callable[[Mapping[str, Any]], bool]

RATIO = "×"


class Outcome(StrEnum):
    """Targets are meant for the reference machine, so that scaled values decide; it is said where measured ones differ.

    Of a ratio both are as good as each other: what they do not agree on is unclear.
    """

    REACHED = "reached"
    REACHED_SCALED = "reached, scaled"
    MISSED = "not reached"
    MISSED_SCALED = "not reached, scaled"
    UNCLEAR = "unclear"
    UNKNOWN = "not measured"


# What the plan of a run must say, or its figure is about something else. Former releases did not say everything.
def _anything(_: Mapping[str, Any]) -> bool:
    return True


def _full_speed(plan: Mapping[str, Any]) -> bool:
    return not plan.get("rate")


def _crowd(plan: Mapping[str, Any]) -> bool:
    return bool(plan.get("speakers", 2_000) == 2_000)


def _silent_crowd(plan: Mapping[str, Any]) -> bool:
    """Among fewer, what a scheduler takes in steps is a larger share of each."""
    return bool(plan.get("silent", 10_000) == 10_000)


def _long_watch(plan: Mapping[str, Any]) -> bool:
    """Seven phases are watched after 2 × load; recovery is seen three seconds before the end of that, or not at all."""
    return bool(plan.get("phase_s", 10.0) >= 2.0)


def _peers_are_warm(plan: Mapping[str, Any]) -> bool:
    """With fewer jobs V8 has not yet compiled BullMQ, which flatters us."""
    return bool(plan.get("jobs", 5_000) >= 5_000)


def _half_an_hour_of_half_load(plan: Mapping[str, Any]) -> bool:
    return _full_speed(plan) and bool(plan.get("minutes", 30) >= 30)


class Target(NamedTuple):
    """A figure, or its ratio to another, that should not exceed a limit, or with `at_least` not fall below it."""

    about: str
    figure: str
    limit: float
    unit: str
    relative_to: str = ""
    at_least: bool = False
    only_if: Asks = _anything
    # What a command needs to measure it, besides the scenarios.
    options: str = ""

    @property
    def command(self) -> str:
        names = dict.fromkeys(name.split("/")[0] for name in (self.figure, self.relative_to) if name)
        return " ".join(["lingua bench", *(f"--scenario {name}" for name in names), self.options]).rstrip()

    def is_reached(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How a run stands with one target; `command` is what measures it."""

    about: str
    outcome: Outcome
    value: float | None
    # Half the way from the lowest to the highest sample; of the ratio of two figures it is not known.
    spread: float | None
    # Without the scaling to the reference machine, where there is any.
    as_measured: float | None
    limit: float
    at_least: bool
    unit: str
    command: str


HALF_AN_HOUR = "--minutes 30"

TARGETS = (
    Target("scheduler CPU per small job", "life/small/scheduler CPU", 90, "µs", only_if=_full_speed),
    Target("Redis CPU per small job", "life/small/redis CPU", 35, "µs", only_if=_full_speed),
    Target(
        "Redis CPU per small job ÷ bare pipelined limit",
        "life/small/redis CPU",
        1.3,
        RATIO,
        "redis/both: a job/redis CPU",
        only_if=_full_speed,
    ),
    Target("all CPU per small job ÷ best peer's", BEST_PEER, 0.8, RATIO, only_if=_peers_are_warm),
    Target("all CPU per small job ÷ best peer's, next aim", BEST_PEER, 0.5, RATIO, only_if=_peers_are_warm),
    Target("all CPU per small job ÷ best Python peer's", BEST_PYTHON_PEER, 0.4, RATIO, only_if=_peers_are_warm),
    *(
        target
        for frames, chunk_us in (("JSON", 25), ("binary", 15))
        for target in (
            Target(
                f"2 000 speakers, {frames}: final to job_assign p99",
                f"speakers/{frames}/final to job_assign p99",
                10,
                "ms",
                only_if=_crowd,
            ),
            Target(f"2 000 speakers, {frames}: of one core", f"speakers/{frames}/of a core", 100, "%", only_if=_crowd),
            Target(
                f"scheduler CPU per chunk alone, {frames}",
                f"speakers/{frames}, chunks alone/scheduler CPU",
                chunk_us,
                "µs",
                only_if=_crowd,
            ),
        )
    ),
    Target(
        "wait for a dispatch, 100 000 ÷ 1 000 nodes",
        "fleet/dispatch, 100 000 nodes/alone p50",
        2,
        RATIO,
        "fleet/dispatch, 1 000 nodes/alone p50",
        options="--full",
    ),
    Target(
        "Redis memory per node with 4 pairs, 1 000 nodes",
        "fleet/registered, 1 000 nodes/memory per node",
        4096,
        "B",
    ),
    Target("Redis CPU per unchanged heartbeat, 1 000 nodes", "fleet/heartbeat, 1 000 nodes/redis CPU", 15, "µs"),
    Target(
        "scheduler memory per idle session of 10 000",
        "idle/a session/scheduler memory",
        30,
        "KB",
        only_if=_silent_crowd,
    ),
    *(
        Target(
            f"{shown} CPU per {size} job, other ÷ same instance",
            f"instances/{size}, other ÷ same/{who} CPU",
            2.5,
            RATIO,
            only_if=_full_speed,
        )
        for size in ("small", "32 KB")
        for who, shown in (("scheduler", "scheduler"), ("redis", "Redis"))
    ),
    Target("served at 2 × load, of capacity", "saturation/2 × load/served of capacity", 95, "%", at_least=True),
    Target("p99 normal again after 2 × load", "saturation/half load after/normal again", 5, "s", only_if=_long_watch),
    *(
        Target(
            f"{shown} memory in half an hour of soak, ±",
            f"soak/{who}/memory spread",
            3,
            "%",
            only_if=_half_an_hour_of_half_load,
            options=HALF_AN_HOUR,
        )
        for who, shown in (("scheduler", "scheduler"), ("redis", "Redis"))
    ),
    Target(
        "errors in half an hour of soak",
        "soak/jobs/errors",
        0,
        "",
        only_if=_half_an_hour_of_half_load,
        options=HALF_AN_HOUR,
    ),
)


def standings(run: Run) -> list[Standing]:
    """Every target; those that this run did not measure come last."""
    return sorted((_standing(target, run) for target in TARGETS), key=lambda one: one.outcome is Outcome.UNKNOWN)


def _standing(target: Target, run: Run) -> Standing:
    value, spread, as_measured = _values(target, run)
    return Standing(
        about=target.about,
        outcome=_outcome(target, value, as_measured),
        value=value,
        spread=spread,
        as_measured=as_measured,
        limit=target.limit,
        at_least=target.at_least,
        unit=target.unit,
        command=target.command,
    )


def _outcome(target: Target, value: float | None, as_measured: float | None) -> Outcome:
    if value is None:
        return Outcome.UNKNOWN
    is_reached = target.is_reached(value)
    if as_measured is None or target.is_reached(as_measured) is is_reached:
        return Outcome.REACHED if is_reached else Outcome.MISSED
    if target.unit == RATIO:
        return Outcome.UNCLEAR
    return Outcome.REACHED_SCALED if is_reached else Outcome.MISSED_SCALED


def _values(target: Target, run: Run) -> tuple[float | None, float | None, float | None]:
    figure, other = run.find(target.figure), run.find(target.relative_to)
    if figure is None or (target.relative_to and other is None) or not target.only_if(run.plan):
        return None, None, None
    if other is None:
        return figure.median, figure.spread / 2 if len(figure.samples) > 1 else None, figure.raw_median
    ratio = figure.median / other.median
    if figure.raw_median is None or other.raw_median is None:
        return ratio, None, None
    return ratio, None, figure.raw_median / other.raw_median
