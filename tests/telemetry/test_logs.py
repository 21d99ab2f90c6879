"""Logs: to standard error, as JSON unless a person is watching."""

import io
import json
import sys
from collections.abc import Iterator

import pytest
import structlog

from lingua_scheduler.telemetry import logs
from lingua_scheduler.telemetry.logs import Format, Level


class Screen(io.StringIO):
    """Standard error, with or without a person in front of it."""

    def __init__(self, watched: bool) -> None:
        super().__init__()
        self._watched = watched

    def isatty(self) -> bool:
        return self._watched


@pytest.fixture(autouse=True)
def _configuration_of_before() -> Iterator[None]:
    kept = structlog.get_config()
    yield
    structlog.configure(**kept)


def written(
    monkeypatch: pytest.MonkeyPatch, log_format: Format, *, watched: bool = False, level: Level = "info"
) -> list[str]:
    screen = Screen(watched)
    monkeypatch.setattr(sys, "stderr", screen)
    logs.configure(level, log_format)
    log = logs.get()
    log.debug("test.debugged")
    log.info("test.told", node_id="node-1", slots=4)
    log.warning("test.warned")
    try:
        raise ValueError("why")
    except ValueError:
        log.exception("test.failed")
    return screen.getvalue().splitlines()


@pytest.mark.parametrize(("log_format", "watched"), [("json", False), ("json", True), ("auto", False)])
def test_machines_get_one_json_object_a_line(
    monkeypatch: pytest.MonkeyPatch, log_format: Format, watched: bool
) -> None:
    told, warned, failed = map(json.loads, written(monkeypatch, log_format, watched=watched))
    assert told.pop("timestamp").endswith("Z")
    assert told == {"event": "test.told", "level": "info", "node_id": "node-1", "slots": 4}
    assert (warned["event"], warned["level"]) == ("test.warned", "warning")
    assert (failed["event"], failed["level"]) == ("test.failed", "error")
    assert "ValueError: why" in failed["exception"]


@pytest.mark.parametrize(("log_format", "watched"), [("console", False), ("console", True), ("auto", True)])
def test_people_get_lines_they_can_read(monkeypatch: pytest.MonkeyPatch, log_format: Format, watched: bool) -> None:
    lines = written(monkeypatch, log_format, watched=watched)
    assert "test.told" in lines[0]
    assert "node-1" in lines[0]
    assert not lines[0].startswith("{")
    assert "ValueError" in "\n".join(lines)


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_a_surprise_is_logged_without_the_speech_it_happened_to(
    monkeypatch: pytest.MonkeyPatch, log_format: Format
) -> None:
    def translate(speech: str) -> None:
        raise ValueError(f"{len(speech)} words")

    screen = Screen(watched=False)
    monkeypatch.setattr(sys, "stderr", screen)
    logs.configure("info", log_format)
    try:
        translate(" ".join(("meet", "me", "at", "noon")))  # so that it is not in the source, which a traceback may show
    except ValueError:
        logs.get().exception("job.surprised")
    assert "ValueError" in screen.getvalue()
    assert "meet me at noon" not in screen.getvalue()


@pytest.mark.parametrize("watched", [True, False])
def test_colours_are_only_for_terminals(monkeypatch: pytest.MonkeyPatch, watched: bool) -> None:
    assert ("\x1b[" in "".join(written(monkeypatch, "console", watched=watched)[:1])) is watched


@pytest.mark.parametrize(
    ("level", "events"),
    [
        ("debug", ["test.debugged", "test.told", "test.warned", "test.failed"]),
        ("info", ["test.told", "test.warned", "test.failed"]),
        ("warning", ["test.warned", "test.failed"]),
        ("error", ["test.failed"]),
    ],
)
def test_what_is_less_severe_than_the_level_is_not_written(
    monkeypatch: pytest.MonkeyPatch, level: Level, events: list[str]
) -> None:
    assert [json.loads(line)["event"] for line in written(monkeypatch, "json", level=level)] == events


def test_standard_output_stays_free_for_results(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written(monkeypatch, "json")
    assert capsys.readouterr().out == ""
