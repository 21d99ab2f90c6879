"""Figures of a run: each a name, a unit and the samples behind it; kept as JSON to compare with later."""

from pathlib import Path
from statistics import median
from typing import Any

import msgspec

# If other programs use more than this share of a core, jobs/s and latency say little.
OTHERS_SHARE = 0.15


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """`name` is scenario/variant/metric."""

    name: str
    unit: str
    median: float
    samples: list[float]
    # Median of the values as measured, where `samples` are scaled to the reference machine.
    raw_median: float | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    started_at: str
    took_s: float
    # How much longer than on the undisturbed reference machine fixed work took meanwhile.
    slowdown: float
    machine: dict[str, Any]
    plan: dict[str, Any]
    figures: list[Figure]
    notes: list[str]


class Samples:
    """Collects samples under their names, in the order in which the names first came."""

    def __init__(self) -> None:
        self._units: dict[str, str] = {}
        self._values: dict[str, list[float]] = {}
        self._raw: dict[str, list[float]] = {}
        self._slowdowns: list[float] = []
        self.notes: dict[str, None] = {}

    def add(self, name: str, unit: str, value: float, raw: float | None = None) -> None:
        """`raw` is the value as measured, where `value` is scaled to the reference machine."""
        self._units[name] = unit
        self._values.setdefault(name, []).append(value)
        if raw is not None:
            self._raw.setdefault(name, []).append(raw)

    def add_cpu(self, name: str, unit: str, value: float, slowdown: float) -> None:
        """CPU time, scaled to what the reference machine would have needed."""
        self.add(name, unit, value / slowdown, value)
        self._slowdowns.append(slowdown)

    @property
    def slowdown(self) -> float:
        return median(self._slowdowns or [1.0])

    def note(self, sentence: str) -> None:
        """Something the reader must know; said once, however often it happens."""
        self.notes[sentence] = None

    def figures(self) -> list[Figure]:
        return [figure_of(name, unit, self._values[name], self._raw.get(name)) for name, unit in self._units.items()]


def figure_of(name: str, unit: str, values: list[float], raw: list[float] | None = None) -> Figure:
    return Figure(
        name=name,
        unit=unit,
        median=_rounded(median(values)),
        samples=[_rounded(value) for value in values],
        raw_median=_rounded(median(raw)) if raw else None,
    )


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def read(path: Path) -> Run:
    """Raises OSError, or ValueError when the file is no saved run."""
    return msgspec.json.decode(path.read_bytes(), type=Run)
