"""What we aim at on a two-core machine, as values to hold a run against."""

from typing import NamedTuple

from lingua_scheduler.bench.figures import Run
from lingua_scheduler.bench.queues.scenario import BEST_PEER, BEST_PYTHON_PEER


class Target(NamedTuple):
    """A figure, or its ratio to another, that should not exceed a limit, or with `at_least` not fall below it."""

    about: str
    figure: str
    limit: float
    unit: str
    relative_to: str = ""
    at_least: bool = False
    # What the plan of a run must say, or its figure is about something else.
    only_if: tuple[str, float] | None = None


class Standing(NamedTuple):
    target: Target
    value: float

    @property
    def is_reached(self) -> bool:
        limit = self.target.limit
        return self.value >= limit if self.target.at_least else self.value <= limit


FULL_SPEED = "rate", 0
CROWD = "speakers", 2_000

TARGETS = (
    Target("scheduler CPU per small job", "life/small/scheduler CPU", 90, "µs", only_if=FULL_SPEED),
    Target("Redis CPU per small job", "life/small/redis CPU", 35, "µs", only_if=FULL_SPEED),
    Target(
        "Redis CPU per small job, times the bare pipelined limit",
        "life/small/redis CPU",
        1.3,
        "×",
        "redis/both: a job/redis CPU",
        only_if=FULL_SPEED,
    ),
    Target("CPU of all per small job, times that of the best peer", BEST_PEER, 0.8, "×"),
    Target("CPU of all per small job, times that of the best Python peer", BEST_PYTHON_PEER, 0.4, "×"),
    Target(
        "wait for a dispatch among 100 000 nodes, times that among 1 000",
        "fleet/dispatch, 100 000 nodes/alone p50",
        2,
        "×",
        "fleet/dispatch, 1 000 nodes/alone p50",
    ),
    Target("Redis memory per node, four pairs", "fleet/registered, 1 000 nodes/memory per node", 4096, "bytes"),
    Target("Redis CPU of an unchanged heartbeat", "fleet/heartbeat, 1 000 nodes/redis CPU", 15, "µs"),
    Target(
        "2 000 speakers: final chunk to job_assign beyond the hangover, p99, JSON",
        "speakers/JSON/final to job_assign p99",
        10,
        "ms",
        only_if=CROWD,
    ),
    Target(
        "2 000 speakers: final chunk to job_assign beyond the hangover, p99, binary",
        "speakers/binary/final to job_assign p99",
        10,
        "ms",
        only_if=CROWD,
    ),
    Target(
        "scheduler CPU per chunk, JSON, jobs apart",
        "speakers/JSON, chunks alone/scheduler CPU",
        25,
        "µs",
        only_if=CROWD,
    ),
    Target(
        "scheduler CPU per chunk, binary, jobs apart",
        "speakers/binary, chunks alone/scheduler CPU",
        15,
        "µs",
        only_if=CROWD,
    ),
    Target("scheduler memory per idle session", "idle/a session/scheduler memory", 30, "KB"),
    Target(
        "scheduler CPU per small job by way of another instance, times that without",
        "instances/small, other ÷ same/scheduler CPU",
        2.5,
        "×",
    ),
    Target("served at 2 × load, of capacity", "saturation/2 × load/served of capacity", 95, "%", at_least=True),
    Target("p99 normal again after 2 × load", "saturation/half load after/normal again", 5, "s"),
    Target("scheduler memory in a soak, ± around its middle", "soak/scheduler/memory spread", 3, "%"),
    Target("Redis memory in a soak, ± around its middle", "soak/redis/memory spread", 3, "%"),
    Target("errors in a soak", "soak/jobs/errors", 0, ""),
)


def standings(run: Run) -> list[Standing]:
    """Every target whose figures this run has."""
    found = []
    for target in TARGETS:
        figure, other = run.find(target.figure), run.find(target.relative_to)
        if figure is None or (target.relative_to and other is None):
            continue
        if target.only_if is not None and run.plan.get(*target.only_if) != target.only_if[1]:
            continue
        found.append(Standing(target, figure.median / other.median if other else figure.median))
    return found
