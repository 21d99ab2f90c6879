"""Bar charts as SVG, drawn by hand: a few rectangles and words need no library."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from lingua_scheduler.bench.figures import Run
from lingua_scheduler.bench.tables import number

LABEL_PX = 190
BARS_PX = 520
ROW_PX = 26
BAR_PX = 17
TOP_PX = 62
COLOURS = ("#2f6db3", "#c0392b", "#8a8f98")


class Bar(NamedTuple):
    """Parts are stacked, one for each series."""

    label: str
    parts: Sequence[float]


def chart(title: str, series: Sequence[str], bars: Sequence[Bar]) -> str:
    scale = BARS_PX / (max(sum(bar.parts) for bar in bars) or 1)
    width, height = LABEL_PX + BARS_PX + 90, TOP_PX + ROW_PX * len(bars) + 12
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        ' font-family="system-ui, sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="12" y="22" font-size="15" font-weight="bold">{escape(title)}</text>',
    ]
    for i, name in enumerate(series):
        x = LABEL_PX + i * 150
        lines.append(f'<rect x="{x}" y="34" width="12" height="12" fill="{COLOURS[i]}"/>')
        lines.append(f'<text x="{x + 18}" y="44">{escape(name)}</text>')
    for row, bar in enumerate(bars):
        lines += _row(bar, TOP_PX + row * ROW_PX, scale)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _row(bar: Bar, y: int, scale: float) -> list[str]:
    middle = y + BAR_PX - 4
    lines = [f'<text x="{LABEL_PX - 8}" y="{middle}" text-anchor="end">{escape(bar.label)}</text>']
    x = float(LABEL_PX)
    for part, colour in zip(bar.parts, COLOURS, strict=False):
        lines.append(f'<rect x="{x:.1f}" y="{y}" width="{part * scale:.1f}" height="{BAR_PX}" fill="{colour}"/>')
        x += part * scale
    lines.append(f'<text x="{x + 6:.1f}" y="{middle}">{number(sum(bar.parts))}</text>')
    return lines


def cpu_chart(run: Run) -> str | None:
    """The whole life of a job, and the limits beside it."""
    bars = []
    for variant in _variants(run, "life"):
        bars.append(Bar(variant, _medians(run, f"life/{variant}/", "{} CPU", ("scheduler", "redis", "load"))))
    limit = _medians(run, "redis/both: a job/", "{} CPU", ("client", "redis"))
    if any(limit):
        bars.append(Bar("limit: bare Redis", (0.0, limit[1], limit[0])))
    for variant in _variants(run, "echo"):
        server, load = _medians(run, f"echo/{variant}/", "{} CPU", ("server", "load"))
        bars.append(Bar(f"limit: two echoes, {variant}", (2 * server, 0.0, 2 * load)))
    if not bars:
        return None
    return chart("CPU per job, µs", ("scheduler or server", "Redis", "load or client"), bars)


def peers_chart(run: Run) -> str | None:
    """Ours and theirs, cheapest first."""
    bars = []
    for variant in _variants(run, "peers"):
        found = _medians(run, f"peers/{variant}/", "{} CPU", ("scheduler", "worker", "redis", "load", "client"))
        scheduler, worker, redis, load, client = found
        if redis:
            bars.append(Bar(variant, (scheduler + worker, redis, load + client)))
    bars.sort(key=lambda bar: sum(bar.parts))
    return chart("CPU per job, µs", ("scheduler or worker", "Redis", "load or client"), bars) if bars else None


def fleet_chart(run: Run) -> str | None:
    bars = []
    for variant in sorted(_variants(run, "fleet"), key=lambda variant: variant.split(",")[0]):
        figure = run.find(f"fleet/{variant}/in scripts")
        whole = run.find(f"fleet/{variant}/redis CPU")
        if figure is not None and whole is not None:
            bars.append(Bar(variant, (figure.median, max(0.0, whole.median - figure.median))))
    return (
        chart("Redis CPU per call by size of the fleet, µs", ("inside the script", "around it"), bars) if bars else None
    )


def _variants(run: Run, scenario: str) -> list[str]:
    names = (figure.name.split("/") for figure in run.figures)
    return list(dict.fromkeys(variant for found, variant, _ in names if found == scenario))


def _medians(run: Run, prefix: str, metric: str, whose: Sequence[str]) -> list[float]:
    figures = [run.find(prefix + metric.format(who)) for who in whose]
    return [figure.median if figure is not None else 0.0 for figure in figures]
