"""`lingua events`: each line at once, each event once, through every interruption."""

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from click.testing import CliRunner

from lingua_scheduler.cli.main import main
from lingua_scheduler.cli.watching.events import Wanted, moment
from lingua_scheduler.domain.watching.picture import Level
from lingua_sdk.processes import stop
from tests.support.forked import fork_command
from tests.support.terminals import terminal
from tests.support.waiting import until
from tests.support.watched import AT_MS, Watched, event, watched

SETTINGS, SCHEDULER = 2, 5
LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  (notice|warning|critical) +([a-z.]+) +(.+)")


@asynccontextmanager
async def events(scheduler: Watched, *arguments: str) -> AsyncIterator[Process]:
    process = await fork_command("events", "--url", scheduler.url, *arguments, stdout=PIPE, stderr=PIPE)
    try:
        yield process
    finally:
        await stop(process, 10.0)


async def next_line(process: Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(90):
        return (await process.stdout.readline()).decode()


async def code_of(process: Process) -> int | None:
    async with asyncio.timeout(90):
        return await process.wait()


async def once(scheduler: Watched, *arguments: str) -> list[str]:
    command = ["events", "--once", "--url", scheduler.url, *arguments]
    found = await asyncio.to_thread(CliRunner().invoke, main, command)
    assert found.exit_code == 0, found.output
    return found.stdout.splitlines()


async def test_what_changes_is_written_as_it_happens() -> None:
    async with watched() as scheduler, events(scheduler) as process:
        await until(lambda: scheduler.watchers, within_s=30)
        for kind, level in (("node.joined", Level.NOTICE), ("node.left", Level.WARNING), ("pair.lost", Level.CRITICAL)):
            await scheduler.happen(event(kind, "node-1", level, text=f"node-1 {kind}!"))
            found = LINE.fullmatch((await next_line(process)).strip())
            assert found is not None
            assert found.groups() == (level, kind, f"node-1 {kind}!")
        process.send_signal(signal.SIGINT)
        assert await code_of(process) == 0
        assert process.stderr is not None
        assert await process.stderr.read() == b""


async def test_it_begins_with_the_last_ones() -> None:
    async with watched() as scheduler:
        scheduler.events = [event("node.joined", f"node-{i}", at_ms=AT_MS + i) for i in range(30)]
        async with events(scheduler) as process:
            first = [await next_line(process) for _ in range(10)]
            assert [line.split()[-2] for line in first] == [f"node-{i}" for i in range(20, 30)]
            await scheduler.happen(event("node.left", "node-7"))
            assert "node-7 node.left" in await next_line(process)


async def test_kept_ones_are_chosen_by_count_time_kind_and_level() -> None:
    now_ms = int(time.time() * 1000)
    async with watched() as scheduler:
        scheduler.events = [
            event("node.joined", "a", at_ms=now_ms - 7_200_000),
            event("node.left", "b", Level.WARNING, at_ms=now_ms - 60_000),
            event("pair.lost", "c", Level.CRITICAL, at_ms=now_ms - 50_000),
            event("node.joined", "d", at_ms=now_ms - 40_000),
        ]

        async def subjects(*arguments: str) -> list[str]:
            return [json.loads(line)["subject"] for line in await once(scheduler, "--json", *arguments)]

        assert await subjects() == ["a", "b", "c", "d"]
        assert await subjects("--last", "2") == ["c", "d"]
        assert await subjects("--last", "0") == []
        assert await subjects("--since", "10m") == ["b", "c", "d"]
        assert await subjects("--since", "10m", "--last", "1") == ["d"]
        assert await subjects("--kind", "node.*") == ["a", "b", "d"]
        assert await subjects("--kind", "node.left", "--kind", "pair.*") == ["b", "c"]
        assert await subjects("--level", "warning") == ["b", "c"]
        assert await subjects("--level", "critical", "--kind", "node.*") == []


async def test_in_a_pipe_lines_are_as_wide_as_columns_says(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "a long story about a node that left, came back, and left again before it was noticed"
    async with watched() as scheduler:
        scheduler.events = [event("node.left", "node-1", Level.WARNING, text=said)]
        monkeypatch.setenv("COLUMNS", "60")
        lines = await once(scheduler)
        assert len(lines) > 2
        assert max(map(len, lines)) <= 60
        monkeypatch.delenv("COLUMNS")
        (line,) = await once(scheduler)
        assert line.endswith(said)


async def test_the_choice_holds_for_what_happens_too() -> None:
    async with watched() as scheduler, events(scheduler, "--kind", "node.*", "--level", "warning", "--json") as process:
        await until(lambda: scheduler.watchers, within_s=30)
        await scheduler.happen(event("node.joined", "a"), event("pair.lost", "b", Level.CRITICAL))
        await scheduler.happen(event("node.left", "c", Level.WARNING))
        assert json.loads(await next_line(process))["subject"] == "c"


async def test_after_an_interruption_it_catches_up_and_says_nothing_twice() -> None:
    async with watched() as scheduler, events(scheduler) as process:
        await until(lambda: scheduler.watchers, within_s=30)
        await scheduler.happen(event("node.joined", "before", at_ms=AT_MS))
        assert "before" in await next_line(process)
        scheduler.refusal = (503, {"error": "SERVICE_UNAVAILABLE", "detail": "not now"})
        scheduler.hang_up()
        await scheduler.happen(event("node.left", "meanwhile", at_ms=AT_MS + 1))
        scheduler.refusal = None
        assert "meanwhile" in await next_line(process)
        await until(lambda: scheduler.watchers, within_s=30)
        await scheduler.happen(event("node.left", "meanwhile", at_ms=AT_MS + 1), event("node.joined", "after"))
        assert "after" in await next_line(process)
        process.terminate()
        assert await code_of(process) == 0
        assert process.stderr is not None
        told = (await process.stderr.read()).decode().splitlines()
        assert [line.split(" to ")[0] for line in told] == ["lingua: lost the connection", "lingua: reconnected"]


async def shell(command: str) -> tuple[str, str]:
    """What a pipeline says, on both of its outputs; nothing of it is left."""
    process = await asyncio.create_subprocess_exec(
        *("bash", "-c", command), stdout=PIPE, stderr=PIPE, start_new_session=True
    )
    try:
        async with asyncio.timeout(90):
            said, complaints = await process.communicate()
            return said.decode(), complaints.decode()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


async def test_it_ends_at_once_when_nobody_reads_any_more_though_nothing_happens() -> None:
    async with watched() as scheduler:
        scheduler.events = [event("node.joined", f"node-{i}", at_ms=AT_MS + i) for i in range(3)]
        command = f"{sys.executable} -m lingua_scheduler events --url {scheduler.url}"
        said, complaints = await shell(command + " | head -2; echo ${PIPESTATUS[0]}")
    assert complaints == ""
    assert [line.split()[-1] for line in said.splitlines()] == ["node.joined", "node.joined", "0"]


async def test_it_ends_quietly_in_the_middle_of_what_nobody_reads() -> None:
    async with watched() as scheduler:
        # More than a pipe holds.
        scheduler.events = [event("node.joined", str(i), at_ms=AT_MS + i, text="x" * 1_000) for i in range(400)]
        command = f"{sys.executable} -m lingua_scheduler events --once --last 400 --url {scheduler.url}"
        said, complaints = await shell(command + " | head -1; echo ${PIPESTATUS[0]}")
    assert complaints == ""
    assert said.splitlines()[-1] == "0"


@pytest.mark.parametrize(
    ("environment", "is_coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
async def test_colour_is_for_terminals_that_want_it(environment: dict[str, str], is_coloured: bool) -> None:
    async with watched() as scheduler:
        scheduler.events = [event("pair.lost", "en:zh", Level.CRITICAL)]
        with terminal() as screen:
            arguments = ("lingua_scheduler", "events", "--once", "--url", scheduler.url)
            process = await screen.run(*arguments, **environment)
            assert await code_of(process) == 0
            await until(lambda: "en:zh" in screen.shown)
            assert ("\x1b[31m" in screen.shown) == is_coloured


async def test_a_stranger_cannot_command_the_terminal() -> None:
    async with watched() as scheduler:
        scheduler.events = [event("job.failed", "j", text="failed: \x1b[2J\nnotice  all.fine")]
        (line,) = await once(scheduler)
    assert "\x1b" not in line


def test_times_are_spans_or_dates() -> None:
    now_ms = int(time.time() * 1000)
    for text, ms in (("90s", 90_000), ("10m", 600_000), ("10min", 600_000), ("2 h", 7_200_000), ("1d", 86_400_000)):
        found = moment(None, None, text)
        assert found is not None
        assert abs(now_ms - ms - found) < 5_000
    assert moment(None, None, "2027-01-15T08:00:00+00:00") == AT_MS
    assert moment(None, None, None) is None


@pytest.mark.parametrize("text", ["yesterday", "10", "-3m", ""])
def test_a_time_that_is_none_is_refused(text: str) -> None:
    refused = CliRunner().invoke(main, ["events", "--since", text])
    assert refused.exit_code == SETTINGS
    assert "such as" in refused.stderr or "such as 30s" in refused.stderr


def test_the_last_ones_are_counted_after_the_choice() -> None:
    some = [event(kind, str(i)) for i, kind in enumerate(["node.left", "pair.lost", "node.left", "pair.lost"])]
    assert [found.subject for found in Wanted(kinds=("node.*",), last=1).kept(some)] == ["2"]


async def test_a_scheduler_that_keeps_no_events_is_named_in_one_sentence() -> None:
    async with watched() as scheduler:
        scheduler.refusal = (404, {"error": "NOT_FOUND", "detail": ""})
        for arguments in ((), ("--once",)):
            async with events(scheduler, *arguments) as process:
                assert await code_of(process) == SCHEDULER
                assert process.stderr is not None
                assert "older than this command" in (await process.stderr.read()).decode()
