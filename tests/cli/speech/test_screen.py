"""What stands below the printed lines: partial text of what is not translated yet, and a bar."""

import io

import pytest
from rich.console import Console
from rich.progress import TextColumn

from lingua_scheduler.cli.speech.screen import LiveScreen


def drawn(screen: LiveScreen) -> str:
    target = io.StringIO()
    Console(file=target, width=40).print(screen._render())
    return target.getvalue()


def test_the_latest_partial_text_of_each_utterance_is_shown_until_its_outcome_is_there() -> None:
    with LiveScreen(is_quiet=True) as screen:
        screen.understood(1, "how")
        screen.understood(0, "good")
        screen.understood(0, "good morning")
        assert drawn(screen).split("\n")[:2] == ["  1  good morning …", "  2  how …"]
        screen.understood(0, "")
        assert "good" not in drawn(screen)


def test_a_long_partial_text_takes_one_line() -> None:
    with LiveScreen(is_quiet=True) as screen:
        screen.understood(0, "word " * 40)
        assert len(drawn(screen).strip("\n").split("\n")) == 1


def test_the_bar_is_shown_while_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    screen = LiveScreen(is_quiet=False)
    screen.progress(TextColumn("{task.description}")).add_task("speaking", total=1)
    assert "speaking" in drawn(screen)
    screen.end_progress()
    assert "speaking" not in drawn(screen)
