"""Logs: to standard error, as JSON unless a person is watching."""

import asyncio
import io
import json
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
import structlog

from lingua_scheduler.telemetry import logs
from lingua_scheduler.telemetry.logs import Format, Level
from lingua_scheduler.telemetry.storms import Storms


class Screen(io.StringIO):
    """Standard error, with or without a person in front of it."""

    def __init__(self, watched: bool) -> None:
        super().__init__()
        self._watched = watched

    def isatty(self) -> bool:
        return self._watched


@pytest.fixture(autouse=True)
def _configuration_of_before() -> Iterator[None]:
    kept, handlers = structlog.get_config(), logging.root.handlers[:]
    logging.root.handlers.clear()  # the configuration would close them
    yield
    structlog.configure(**kept)
    logging.root.handlers[:] = handlers


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
    assert failed["exception"].endswith("ValueError")
    assert "test_logs.py" in failed["exception"]


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
        try:
            raise KeyError(speech)
        except KeyError as error:
            raise ValueError(f"{speech} cannot be translated") from error

    screen = Screen(watched=False)
    monkeypatch.setattr(sys, "stderr", screen)
    logs.configure("info", log_format)
    try:
        translate(" ".join(("meet", "me", "at", "noon")))  # so that it is not in the source, which a traceback may show
    except ValueError:
        logs.get().exception("job.surprised")
    assert "KeyError" in screen.getvalue()
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


@pytest.mark.parametrize("log_format", ["json", "console"])
@pytest.mark.expects_surprise("loop.failed", "library.failed")
def test_what_libraries_say_comes_the_same_way_and_without_speech(
    monkeypatch: pytest.MonkeyPatch, log_format: Format
) -> None:
    screen = Screen(watched=False)
    monkeypatch.setattr(sys, "stderr", screen)
    logs.configure("info", log_format)
    speech = " ".join(("meet", "me", "at", "noon"))
    try:
        raise ValueError(speech)
    except ValueError as error:
        logging.getLogger("aiohttp.server").exception("Error handling %s", speech)
        logging.getLogger("asyncio").error(f"Task exception was never retrieved\nfuture: {error!r}")
    logging.getLogger("asyncio").warning("Executing %s took long", speech)
    logging.getLogger("asyncio").info("Not for us")
    told = screen.getvalue()
    assert told.count("library.failed") == 2
    assert told.count("library.warned") == 1
    assert "Task exception was never retrieved" in told
    assert "ValueError" in told
    assert "noon" not in told
    assert "Not for us" not in told


# Ids and storms


async def test_what_a_task_is_about_is_named_in_all_it_says_and_in_what_it_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = Screen(watched=False)
    monkeypatch.setattr(sys, "stderr", screen)
    logs.configure("info", "json")

    async def job() -> None:
        logs.bind(job_id="job-1")
        logs.get().info("job.began")

    async def session() -> None:
        logs.bind(session_id="s-1")
        await asyncio.create_task(job())
        logs.get().info("session.went_on", session_id="s-2")

    await asyncio.create_task(session())
    logs.get().info("test.told")
    told = [{key: line.get(key) for key in ("session_id", "job_id")} for line in map(json.loads, lines_of(screen))]
    assert told == [
        {"session_id": "s-1", "job_id": "job-1"},
        {"session_id": "s-2", "job_id": None},
        {"session_id": None, "job_id": None},
    ]


async def test_a_storm_is_cut_short_and_its_size_told(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, clock = Screen(watched=False), Clock()
    monkeypatch.setattr(sys, "stderr", screen)
    logs.configure("info", "json", 3)
    monkeypatch.setattr(logs, "_storms", Storms(3, clock))
    for number in range(50):
        logs.get().error("node.raged", number=number)
        logs.get().info("other.told") if number % 25 == 0 else None
    await logs.tell_storms()
    assert [json.loads(line)["event"] for line in lines_of(screen)] == [
        *("node.raged", "other.told", "node.raged", "node.raged", "other.told")
    ]
    clock.now += 10
    await logs.tell_storms()
    await logs.tell_storms()
    logs.get().error("node.raged")
    limited, again = map(json.loads, lines_of(screen)[5:])
    assert (limited["event"], limited["limited"], limited["lines"]) == ("log.limited", "node.raged", 47)
    assert again["event"] == "node.raged"


def test_the_end_of_a_storm_is_told_before_whatever_is_said_next(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, clock = Screen(watched=False), Clock()
    monkeypatch.setattr(sys, "stderr", screen)
    logs.configure("info", "json", 1)
    monkeypatch.setattr(logs, "_storms", Storms(1, clock))
    for _ in range(3):
        logs.get().error("node.raged")
    clock.now += 10
    logs.get().info("other.told")
    assert [json.loads(line)["event"] for line in lines_of(screen)] == ["node.raged", "log.limited", "other.told"]


def lines_of(screen: Screen) -> list[str]:
    return screen.getvalue().splitlines()


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_line_is_one_write_so_that_processes_can_share_a_file() -> None:
    # What is written at once to a socket of datagrams arrives as one.
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with near, far:
        say = "from lingua_scheduler.telemetry import logs; logs.configure('info', 'json'); logs.get().info('it.was')"
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        subprocess.run([sys.executable, "-c", say], stderr=far.fileno(), env=environment, check=True, timeout=60)
        near.setblocking(False)
        line = near.recv(10_000)
    assert json.loads(line)["event"] == "it.was"
    assert line.endswith(b"\n")
