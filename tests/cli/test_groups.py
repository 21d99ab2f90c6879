"""The help of a group says of each command whole what it does, however narrow the terminal is."""

import pytest
from click.testing import CliRunner

from lingua_scheduler.cli.main import main


@pytest.mark.parametrize("group", [(), ("redis",), ("redis-cluster",)])
@pytest.mark.parametrize("columns", [60, 80])
def test_summaries_are_whole_and_fit(group: tuple[str, ...], columns: int) -> None:
    shown = CliRunner().invoke(main, [*group, "--help"], terminal_width=columns)
    assert shown.exit_code == 0
    commands = shown.output.partition("\nCommands:\n")[2]
    assert commands
    assert "..." not in commands
    assert [line for line in commands.splitlines() if len(line) > columns] == []


def test_at_80_columns_every_summary_is_one_line() -> None:
    shown = CliRunner().invoke(main, ["--help"], terminal_width=80)
    rows = shown.output.partition("\nCommands:\n")[2].splitlines()
    assert len(rows) == len(main.commands)
