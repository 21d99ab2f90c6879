"""Line charts as SVG: how something went over time, or as it grew."""

import math
import re
from collections.abc import Sequence
from html import escape

from lingua_scheduler.bench.figures import Curve, Run
from lingua_scheduler.bench.plot import COLOURS
from lingua_scheduler.bench.tables import number

WIDTH_PX, HEIGHT_PX = 800, 300
LEFT_PX, RIGHT_PX, TOP_PX, BOTTOM_PX = 70, 32, 62, 34
# Of the file names.
PREFIX = "curve-"
# At most so many numbers besides 0 on an axis.
TICKS = 5


def charts(run: Run) -> dict[str, str]:
    """File name → picture; lines with one title share one."""
    titles = dict.fromkeys(curve.title for curve in run.curves)
    return {
        f"{PREFIX}{re.sub('[^a-z0-9]+', '-', title.split(',')[0].lower())}.svg": chart(
            title, [curve for curve in run.curves if curve.title == title]
        )
        for title in titles
    }


def chart(title: str, curves: Sequence[Curve]) -> str:
    """From zero, so that a small wave looks small."""
    points = [point for curve in curves for point in curve.points]
    high_x, step_x = scale(max(x for x, _ in points))
    high_y, step_y = scale(max(y for _, y in points))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH_PX}" height="{HEIGHT_PX}"'
        ' font-family="system-ui, sans-serif" font-size="12">',
        f'<rect width="{WIDTH_PX}" height="{HEIGHT_PX}" fill="white"/>',
        f'<text x="12" y="22" font-size="15" font-weight="bold">{escape(title)}</text>',
        *_grid(high_y, step_y),
        *_foot(high_x, step_x),
    ]
    for i, curve in enumerate(curves):
        colour, x = COLOURS[i % len(COLOURS)], LEFT_PX + i * 150
        path = " ".join(f"{_x(x, high_x):.1f},{_y(y, high_y):.1f}" for x, y in curve.points)
        lines += [
            f'<rect x="{x}" y="34" width="12" height="12" fill="{colour}"/>',
            f'<text x="{x + 18}" y="44">{escape(curve.label)}</text>',
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"


def scale(highest: float) -> tuple[float, float]:
    """Where an axis ends, and the way between two of its numbers, which are round ones."""
    if highest <= 0:
        return 1.0, 1.0
    unit = 10 ** math.floor(math.log10(highest / TICKS))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor * TICKS >= highest)
    return math.ceil(highest / step) * step, step


def _grid(high: float, step: float) -> list[str]:
    lines = []
    for tick in range(round(high / step) + 1):
        y = _y(tick * step, high)
        lines += [
            f'<line x1="{LEFT_PX}" y1="{y:.1f}" x2="{WIDTH_PX - RIGHT_PX}" y2="{y:.1f}" stroke="#dddddd"/>',
            f'<text x="{LEFT_PX - 8}" y="{y + 4:.1f}" text-anchor="end">{number(tick * step)}</text>',
        ]
    return lines


def _foot(high: float, step: float) -> list[str]:
    return [
        f'<text x="{_x(tick * step, high):.1f}" y="{HEIGHT_PX - 12}" text-anchor="middle">{number(tick * step)}</text>'
        for tick in range(round(high / step) + 1)
    ]


def _x(value: float, high: float) -> float:
    return LEFT_PX + value / high * (WIDTH_PX - LEFT_PX - RIGHT_PX)


def _y(value: float, high: float) -> float:
    return HEIGHT_PX - BOTTOM_PX - value / high * (HEIGHT_PX - TOP_PX - BOTTOM_PX)
