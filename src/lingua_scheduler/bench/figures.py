"""Figures of a run: each a name, a unit and the samples behind it; kept as JSON to compare with later."""

from pathlib import Path
from statistics import median
from typing import Any

import msgspec

# Every other unit is a cost.
HIGHER_IS_BETTER = frozenset({"1/s", "% of capacity"})
# More than this share of a core, taken by others, shows in jobs/s and latency.
OTHERS_SHARE = 0.15


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """`name` is scenario/variant/metric."""

    name: str
    unit: str
    median: float
    low: float
    high: float
    samples: list[float]
    # Of the values as measured, where `samples` are scaled to the reference machine.
    raw_median: float | None = None

    @property
    def spread(self) -> float:
        """Lowest to highest: with a handful of samples anything narrower calls noise a change."""
        return self.high - self.low


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """Something of others that was measured beside us, or why it was not."""

    name: str
    version: str = ""
    settings: str = ""
    absent_because: str = ""


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a picture: how something went. `title` is the picture's, with its units."""

    title: str
    label: str
    points: list[tuple[float, float]]


class Run(msgspec.Struct, frozen=True, kw_only=True):
    started_at: str
    took_s: float
    # How much longer than on the undisturbed reference machine fixed work took meanwhile.
    slowdown: float
    machine: dict[str, Any]
    plan: dict[str, Any]
    figures: list[Figure]
    notes: list[str]
    compared: list[Compared] = []
    curves: list[Curve] = []
    # Cores that other programs used meanwhile, where somebody counts.
    others: float | None = None

    @property
    def is_disturbed(self) -> bool:
        return self.others is not None and self.others > OTHERS_SHARE

    def find(self, name: str) -> Figure | None:
        return next((figure for figure in self.figures if figure.name == name), None)


class Samples:
    """Collects samples under their names, in the order in which the names first came."""

    def __init__(self) -> None:
        self._units: dict[str, str] = {}
        self._values: dict[str, list[float]] = {}
        self._raw: dict[str, list[float]] = {}
        self._slowdowns: list[float] = []
        self._points: dict[tuple[str, str], list[tuple[float, float]]] = {}
        self.notes: dict[str, None] = {}
        self.compared: list[Compared] = []

    def add(self, name: str, unit: str, value: float, raw: float | None = None) -> None:
        """`raw` is as it was measured, where `value` is brought to the reference machine."""
        self._units[name] = unit
        self._values.setdefault(name, []).append(value)
        if raw is not None:
            self._raw.setdefault(name, []).append(raw)

    def add_cpu(self, name: str, unit: str, value: float, slowdown: float) -> None:
        """CPU time, brought to what the reference machine would have needed."""
        self.add(name, unit, value / slowdown, value)
        self._slowdowns.append(slowdown)

    def point(self, title: str, label: str, x: float, y: float) -> None:
        """Of the line `label` of a picture. When it is measured again the line begins anew: the last one is shown."""
        points = self._points.setdefault((title, label), [])
        if points and x <= points[-1][0]:
            points.clear()
        points.append((_rounded(x), _rounded(y)))

    @property
    def slowdown(self) -> float:
        return median(self._slowdowns or [1.0])

    def note(self, sentence: str) -> None:
        """Something the reader must know; said once, however often it happens."""
        self.notes[sentence] = None

    def curves(self) -> list[Curve]:
        return [Curve(title=title, label=label, points=points) for (title, label), points in self._points.items()]

    def figures(self) -> list[Figure]:
        return [
            figure_of(name, self._units[name], values, self._raw.get(name)) for name, values in self._values.items()
        ]


def figure_of(name: str, unit: str, values: list[float], raw: list[float] | None = None) -> Figure:
    samples = [_rounded(value) for value in values]
    return Figure(
        name=name,
        unit=unit,
        median=_rounded(median(values)),
        low=min(samples),
        high=max(samples),
        samples=samples,
        raw_median=_rounded(median(raw)) if raw else None,
    )


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def read(path: Path) -> Run:
    """Raises OSError, or ValueError when the file is no saved run."""
    return msgspec.json.decode(path.read_bytes(), type=Run)
