"""What we aim at on a two-core machine, as values to hold a run against."""

from typing import NamedTuple

from lingua_scheduler.bench.figures import Run
from lingua_scheduler.bench.queues.scenario import BEST_PEER, BEST_PYTHON_PEER


class Target(NamedTuple):
    """A figure, or its ratio to another, that should not exceed a limit."""

    about: str
    figure: str
    limit: float
    unit: str
    relative_to: str = ""


class Standing(NamedTuple):
    target: Target
    value: float

    @property
    def is_reached(self) -> bool:
        return self.value <= self.target.limit


TARGETS = (
    Target("scheduler CPU per small job", "life/small/scheduler CPU", 90, "µs"),
    Target("Redis CPU per small job", "life/small/redis CPU", 35, "µs"),
    Target(
        "Redis CPU per small job, times the bare pipelined limit",
        "life/small/redis CPU",
        1.3,
        "×",
        "redis/both: a job/redis CPU",
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
)


def standings(run: Run) -> list[Standing]:
    """Every target whose figures this run has."""
    found = []
    for target in TARGETS:
        figure, other = run.find(target.figure), run.find(target.relative_to)
        if figure is None or (target.relative_to and other is None):
            continue
        found.append(Standing(target, figure.median / other.median if other else figure.median))
    return found
