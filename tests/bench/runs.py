"""Runs that nobody ran."""

from typing import Any

from lingua_scheduler.bench.figures import Figure, Run, figure_of


def cost(*samples: float, raw: float | None = None) -> Figure:
    return figure_of("life/small/scheduler CPU", "µs/job", list(samples), None if raw is None else [raw])


def speed(*samples: float) -> Figure:
    return figure_of("life/small/jobs", "1/s", list(samples))


def run(*figures: Figure, slowdown: float = 1.0, machine: dict[str, Any] | None = None, **plan: Any) -> Run:
    return Run(
        started_at="2026-01-01T00:00:00Z",
        took_s=1.0,
        slowdown=slowdown,
        machine=machine or {},
        plan={"jobs": 100, **plan},
        figures=list(figures),
        notes=[],
    )
