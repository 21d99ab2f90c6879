"""Tables that become blocks where they do not fit."""

from io import StringIO

import pytest
from rich.table import Table

from lingua_scheduler.cli.wording import TableConsole

NAME = "node-in-the-third-rack"


def printed(table: Table, width: int) -> list[str]:
    output = StringIO()
    TableConsole(file=output, width=width).print(table)
    return [line.rstrip() for line in output.getvalue().splitlines()]


def nodes() -> Table:
    table = Table("node", "state", "free", "reason", box=None, pad_edge=False)
    table.add_row(NAME, "ready", "-", "it said that it has no voice for this")
    return table


def test_a_table_that_fits_is_a_table() -> None:
    head, row = printed(nodes(), 100)
    assert head.split() == ["node", "state", "free", "reason"]
    assert row.startswith(NAME)


@pytest.mark.parametrize("width", [60, 40, 30])
def test_a_table_that_does_not_fit_is_a_block_a_row(width: int) -> None:
    lines = printed(nodes(), width)
    assert lines[0].startswith(NAME)
    assert max(map(len, lines)) <= width
    assert " ".join(" ".join(lines).split()) == f"{NAME} state ready reason it said that it has no voice for this"


def test_facts_are_wrapped_beside_their_name_and_a_long_word_stands_below_it() -> None:
    table = Table.grid(padding=(0, 2))
    table.add_row("reason", "one two three four five six")
    assert printed(table, 20) == ["reason  one two", "        three four", "        five six"]
    table.add_row("node", NAME)
    assert printed(table, 24)[-2:] == ["node", f"  {NAME}"]
