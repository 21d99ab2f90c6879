"""Bar charts as SVG, drawn by hand: a few rectangles and words need no library."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from lingua_scheduler.bench.figures import Run
from lingua_scheduler.bench.tables import number

# A character of a label, generously: nobody knows the reader's font.
CHARACTER_PX = 7
BARS_PX = 520
NUMBER_PX = 90
FOOT_PX = 28
ROW_PX = 26
BAR_PX = 17
TOP_PX = 62
COLOURS = ("#2f6db3", "#c0392b", "#8a8f98")
OF_MEDIANS = "Each part is a median"


class Bar(NamedTuple):
    """Parts are stacked, one for each series. `whole` is what was measured of all together, if it was."""

    label: str
    parts: Sequence[float]
    whole: float | None = None

    @property
    def number(self) -> float:
        return sum(self.parts) if self.whole is None else self.whole


def chart(title: str, series: Sequence[str], bars: Sequence[Bar], caption: str) -> str:
    scale = BARS_PX / (max(sum(bar.parts) for bar in bars) or 1)
    label_px = 20 + CHARACTER_PX * max(len(bar.label) for bar in bars)
    width, height = label_px + BARS_PX + NUMBER_PX, TOP_PX + ROW_PX * len(bars) + FOOT_PX
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        ' font-family="system-ui, sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="12" y="22" font-size="15" font-weight="bold">{escape(title)}</text>',
    ]
    for i, name in enumerate(series):
        x = label_px + i * 150
        lines.append(f'<rect x="{x}" y="34" width="12" height="12" fill="{COLOURS[i]}"/>')
        lines.append(f'<text x="{x + 18}" y="44">{escape(name)}</text>')
    for row, bar in enumerate(bars):
        lines += _row(bar, label_px, TOP_PX + row * ROW_PX, scale)
    lines.append(f'<text x="12" y="{height - 10}" fill="#555555">{escape(caption)}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def _row(bar: Bar, label_px: int, y: int, scale: float) -> list[str]:
    middle = y + BAR_PX - 4
    lines = [f'<text x="{label_px - 8}" y="{middle}" text-anchor="end">{escape(bar.label)}</text>']
    x = float(label_px)
    for part, colour in zip(bar.parts, COLOURS, strict=False):
        lines.append(f'<rect x="{x:.1f}" y="{y}" width="{part * scale:.1f}" height="{BAR_PX}" fill="{colour}"/>')
        x += part * scale
    lines.append(f'<text x="{x + 6:.1f}" y="{middle}">{number(bar.number)}</text>')
    return lines


def cpu_chart(run: Run) -> str | None:
    """The whole life of a job, and the limits beside it."""
    bars = []
    for variant in _variants(run, "life"):
        parts = _medians(run, f"life/{variant}/", "{} CPU", ("scheduler", "redis", "load"))
        bars.append(Bar(variant, parts, _whole(run, f"life/{variant}")))
    limit = _medians(run, "redis/both: a job/", "{} CPU", ("client", "redis"))
    if any(limit):
        bars.append(Bar("limit: bare Redis", (0.0, limit[1], limit[0])))
    for variant in _variants(run, "echo"):
        server, load = _medians(run, f"echo/{variant}/", "{} CPU", ("server", "load"))
        bars.append(Bar(f"limit: two echoes, {variant}", (2 * server, 0.0, 2 * load)))
    if not bars:
        return None
    caption = f"{OF_MEDIANS}; the number is the median of all CPU together, at a limit the sum of its parts."
    return chart("CPU per job, µs", ("scheduler or server", "Redis", "load or client"), bars, caption)


def peers_chart(run: Run) -> str | None:
    """Ours and theirs, cheapest first."""
    bars = []
    for variant in _variants(run, "peers"):
        found = _medians(run, f"peers/{variant}/", "{} CPU", ("scheduler", "worker", "redis", "load", "client"))
        scheduler, worker, redis, load, client = found
        if redis:
            bars.append(Bar(variant, (scheduler + worker, redis, load + client), _whole(run, f"peers/{variant}")))
    if not bars:
        return None
    bars.sort(key=lambda bar: bar.number)
    caption = f"{OF_MEDIANS}; the number is the median of all CPU together."
    return chart("CPU per job, µs", ("scheduler or worker", "Redis", "load or client"), bars, caption)


def fleet_chart(run: Run) -> str | None:
    bars = []
    for variant in sorted(_variants(run, "fleet"), key=lambda variant: variant.split(",")[0]):
        figure = run.find(f"fleet/{variant}/in scripts")
        whole = run.find(f"fleet/{variant}/redis CPU")
        if figure is not None and whole is not None:
            bars.append(Bar(variant, (figure.median, max(0.0, whole.median - figure.median)), whole.median))
    if not bars:
        return None
    caption = "The number is the median of all Redis CPU; inside the script is a median by Redis's own clock"
    is_longer = any(bar.parts[0] > bar.number for bar in bars)
    caption += ", which goes on while Redis waits for a core." if is_longer else "."
    return chart("Redis CPU per call by size of the fleet, µs", ("inside the script", "around it"), bars, caption)


def _variants(run: Run, scenario: str) -> list[str]:
    names = (figure.name.split("/") for figure in run.figures)
    return list(dict.fromkeys(variant for found, variant, _ in names if found == scenario))


def _whole(run: Run, variant: str) -> float | None:
    figure = run.find(f"{variant}/all CPU")
    return figure.median if figure is not None else None


def _medians(run: Run, prefix: str, metric: str, whose: Sequence[str]) -> list[float]:
    figures = [run.find(prefix + metric.format(who)) for who in whose]
    return [figure.median if figure is not None else 0.0 for figure in figures]
