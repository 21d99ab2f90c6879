"""Line charts as SVG: how something went over time, or as it grew."""

import re
from collections.abc import Sequence
from html import escape

from lingua_scheduler.bench.figures import Curve, Run
from lingua_scheduler.bench.plot import COLOURS
from lingua_scheduler.bench.tables import number

WIDTH_PX, HEIGHT_PX = 800, 300
LEFT_PX, RIGHT_PX, TOP_PX, BOTTOM_PX = 70, 20, 62, 34
TICKS = 4


def charts(run: Run) -> dict[str, str]:
    """File name → picture; lines with one title share one."""
    titles = dict.fromkeys(curve.title for curve in run.curves)
    return {
        f"{re.sub('[^a-z0-9]+', '-', title.lower()).strip('-')}.svg": chart(
            title, [curve for curve in run.curves if curve.title == title]
        )
        for title in titles
    }


def chart(title: str, curves: Sequence[Curve]) -> str:
    """From zero, so that a small wave looks small."""
    points = [point for curve in curves for point in curve.points]
    high_x, high_y = max(x for x, _ in points) or 1.0, max(y for _, y in points) or 1.0
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH_PX}" height="{HEIGHT_PX}"'
        ' font-family="system-ui, sans-serif" font-size="12">',
        f'<rect width="{WIDTH_PX}" height="{HEIGHT_PX}" fill="white"/>',
        f'<text x="12" y="22" font-size="15" font-weight="bold">{escape(title)}</text>',
        *_axes(high_x, high_y),
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


def _axes(high_x: float, high_y: float) -> list[str]:
    lines = []
    for tick in range(TICKS + 1):
        x, y = high_x * tick / TICKS, high_y * tick / TICKS
        at_x, at_y = _x(x, high_x), _y(y, high_y)
        lines += [
            f'<line x1="{LEFT_PX}" y1="{at_y:.1f}" x2="{WIDTH_PX - RIGHT_PX}" y2="{at_y:.1f}" stroke="#dddddd"/>',
            f'<text x="{LEFT_PX - 8}" y="{at_y + 4:.1f}" text-anchor="end">{number(y)}</text>',
            f'<text x="{at_x:.1f}" y="{HEIGHT_PX - 12}" text-anchor="middle">{number(x)}</text>',
        ]
    return lines


def _x(value: float, high: float) -> float:
    return LEFT_PX + value / high * (WIDTH_PX - LEFT_PX - RIGHT_PX)


def _y(value: float, high: float) -> float:
    return HEIGHT_PX - BOTTOM_PX - value / high * (HEIGHT_PX - TOP_PX - BOTTOM_PX)
