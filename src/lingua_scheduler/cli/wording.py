"""Formats figures and states for a terminal."""

import os
import sys
import time
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from lingua_scheduler.cli.listing import Fitted
from lingua_scheduler.domain.watching.picture import Level, NodeLook
from lingua_scheduler.domain.watching.verdict import PROBATION, QUARANTINED

LEVEL_STYLES = {Level.CRITICAL: "bold red", Level.WARNING: "yellow", Level.NOTICE: "cyan"}
# Not colour alone: it may be off, or not visible to the reader.
LEVEL_MARKS = {Level.CRITICAL: "!!", Level.WARNING: "! ", Level.NOTICE: "- "}
NOTHING = "-"
# Of what is not read on a terminal: nothing is cut.
PIPED_WIDTH = 10_000
_BARS = "▁▂▃▄▅▆▇█"


class PlainConsole(Console):
    """Shows untrusted text literally: nothing in it is interpreted as markup, emoji code or terminal escape sequence.
    Styles go through Text."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        # Before it is measured, so that columns stay straight.
        return super().render_str(plain_lines(text), **options)

    def on_broken_pipe(self) -> None:
        """Who runs the command knows how it ends then."""
        raise BrokenPipeError

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=plain_lines(segment.text))


class TableConsole(PlainConsole):
    """Prints every table so that it fits."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(Fitted(one) if isinstance(one, Table) else one for one in objects), **options)


def table_console(*, is_wide: bool = False, stderr: bool = False) -> TableConsole:
    """What is not read on a terminal, or is wanted wide, has no width to keep to."""
    output = sys.stderr if stderr else sys.stdout
    # Who sets COLUMNS wants that width.
    if (output.isatty() or "COLUMNS" in os.environ) and not is_wide:
        return TableConsole(stderr=stderr)
    return TableConsole(width=PIPED_WIDTH, stderr=stderr)


def now_ms() -> int:
    return int(time.time() * 1000)


def plain(text: str) -> str:
    """Without control characters: some of these texts come from untrusted peers."""
    return "".join(" " if unicodedata.category(letter) in ("Cc", "Cf", "Zl", "Zp") else letter for letter in text)


def plain_lines(text: str) -> str:
    """Plain, but for the ends of its lines."""
    return text if text.isprintable() else "\n".join(map(plain, text.split("\n")))


def counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def span(ms: float) -> str:
    """How long, to two parts at most."""
    seconds = max(0, int(ms / 1000))
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def short_span(ms: float) -> str:
    seconds = max(0, int(ms / 1000))
    for unit_s, unit in ((172_800, "d"), (7_200, "h"), (120, "min")):
        if seconds >= unit_s:
            return f"{seconds // {'d': 86_400, 'h': 3_600, 'min': 60}[unit]} {unit}"
    return f"{seconds} s"


def latency(ms: float | None) -> str:
    if ms is None:
        return NOTHING
    return f"{ms:.0f} ms" if ms < 1_000 else f"{ms / 1000:.1f} s" if ms < 100_000 else f"{ms / 1000:.0f} s"


def rate(per_s: float) -> str:
    return f"{per_s:.0f}" if per_s >= 100 or per_s == 0 else f"{per_s:.1f}" if per_s >= 1 else f"{per_s:.2g}"


def bar(part: float, whole: float, width: int) -> Text:
    """Filled as far as it is taken; red where nothing is left."""
    share = min(1.0, part / whole) if whole else 0.0
    filled = round(share * width)
    # A little is not nothing, and almost all is not all.
    filled = max(filled, 1) if part > 0 else filled
    filled = min(filled, width - 1) if part < whole else filled
    style = "red" if whole and part >= whole else "yellow" if share >= 0.8 else "green"
    return Text("■" * filled, style=style) + Text("·" * (width - filled), style="dim")


def sparkline(values: Sequence[float | None], width: int) -> str:
    """The last `width` values, from zero to the highest; a gap where there is none."""
    shown = list(values)[-width:] if width > 0 else []
    highest = max((value for value in shown if value is not None), default=0.0)

    def mark(value: float | None) -> str:
        if value is None:
            return " "
        return _BARS[min(len(_BARS) - 1, int(value / highest * len(_BARS)))] if highest > 0 else _BARS[0]

    return "".join(map(mark, shown))


def level_style(level: Level | None) -> str:
    """Of a node or a fleet; green when all is well."""
    return LEVEL_STYLES[level] if level else "green"


def node_state(node: NodeLook, at_ms: int) -> Text:
    """Whether a node gets work, and if not, why and for how long."""
    style = level_style(node.level)
    if node.state == QUARANTINED:
        return Text(f"quarantined {short_span(node.quarantined_until_ms - at_ms)}", style=style)
    if node.state == PROBATION:
        return Text("on probation", style=style)
    lacks = f" without {plain(' '.join(node.unavailable))}" if node.unavailable else ""
    return Text(f"{plain(node.state)}{lacks}", style=style)


def clock(at_ms: int, beside_ms: int) -> str:
    """The local time of day; with the date, when that is another day than the moment beside it."""
    at, beside = (datetime.fromtimestamp(ms / 1000, UTC).astimezone() for ms in (at_ms, beside_ms))
    return f"{at:%H:%M:%S}" if at.date() == beside.date() else f"{at:%Y-%m-%d %H:%M:%S}"


def age(at_ms: int) -> str:
    """How long ago it was."""
    return short_span(now_ms() - at_ms)


def stamp() -> str:
    """Now, as it stands before a line of a log: local, with the date."""
    return f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S}"
