"""Figures that tests print and judge."""

from collections.abc import Sequence


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent do not exceed."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(len(ranked) * percent / 100))]
