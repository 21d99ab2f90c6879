"""Tables that fit the terminal: beside each other where there is room, else one block a row. Nothing is cut."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

INDENT = 2
_NOTHING = ("", "-")


class Fitted:
    """A table, or its rows as blocks: the first column, which names the row, then the others as far as they go."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        natural = Measurement.get(console, options.update(width=10**6), _unbound(self._table)).maximum
        if natural <= options.max_width:
            yield self._table
        elif self._table.show_header:
            yield Group(*self._blocks(console))
        else:
            yield Group(*_facts(console, _rows(self._table)))

    def _blocks(self, console: Console) -> Iterator[Text]:
        headers = [str(column.header) for column in self._table.columns]
        for row in _rows(self._table):
            named = zip(headers[1:], row[1:], strict=True)
            parts = [_fact(header, cell) for header, cell in named if cell.plain.strip() not in _NOTHING]
            first = row[0].copy()
            first.stylize("bold")
            yield from flowing(console, first, parts, INDENT)


def _unbound(table: Table) -> Table:
    """As wide as its cells are, whatever else was said of its columns."""
    copy = Table(box=None, pad_edge=False, show_header=table.show_header, padding=table.padding)
    for column in table.columns:
        copy.add_column(column.header, no_wrap=True)
    for row in _rows(table):
        copy.add_row(*row)
    return copy


def _rows(table: Table) -> list[tuple[Text, ...]]:
    return list(zip(*([_text(cell) for cell in column.cells] for column in table.columns), strict=True))


def _text(cell: Any) -> Text:
    return cell if isinstance(cell, Text) else Text(str(cell))


def _fact(name: str, cell: Text) -> Text:
    return Text().append(f"{name} ", style="dim").append_text(cell)


def _facts(console: Console, rows: Sequence[tuple[Text, ...]]) -> Iterator[Text]:
    """A name and a value each; a value that does not fit beside its name stands below it."""
    names = max((row[0].cell_len for row in rows), default=0) + INDENT
    for name, *values in rows:
        value = Text("  ").join(values)
        lines = value.wrap(console, max(8, console.width - names))
        is_folded = any(len(word) > console.width - names for word in value.plain.split())
        if is_folded:
            yield name
            for line in value.wrap(console, max(8, console.width - INDENT)):
                yield Text(" " * INDENT) + line
            continue
        for number, line in enumerate(lines):
            head = name.copy() if not number else Text()
            yield Text().append_text(head).append(" " * (names - head.cell_len)).append_text(line)
        if not lines:
            yield name


def flowing(console: Console, first: Text, parts: Iterable[str | Text], indent: int, gap: int = 2) -> Iterator[Text]:
    """Parts behind the first as far as they fit, the others below it; only a part wider than the screen is broken."""
    # Appended, so that the style of the first does not become that of the line.
    line = Text().append_text(first)
    for part in map(_text, parts):
        if line.cell_len + gap + part.cell_len <= console.width:
            line.append(" " * gap).append_text(part)
            continue
        yield line
        *whole, rest = part.wrap(console, max(8, console.width - indent)) or [Text()]
        for broken in whole:
            yield Text(" " * indent) + broken
        line = Text(" " * indent).append_text(rest)
    yield line
