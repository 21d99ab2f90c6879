"""What somebody at a terminal sees of a real scheduler whose nodes come and go."""

import asyncio
import json
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from lingua_scheduler.domain.watching.picture import Picture
from lingua_sdk.processes import stop
from tests.support.forked import fork_command
from tests.support.schedulers import serve_process
from tests.support.terminals import terminal
from tests.support.waiting import until

START_S = 60.0
SEEN_S = 60.0
CRITICAL = 6
# Often, so that nobody waits long for a picture; and a node that is killed is missed soon.
QUICK = ("--set", "watch.interval_ms=500", "--set", "watch.watched_interval_ms=200")


@asynccontextmanager
async def lingua(*arguments: str) -> AsyncIterator[Process]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LINGUA_")}
    process = await fork_command(*arguments, stdout=PIPE, stderr=PIPE, environment=clean)
    try:
        yield process
    finally:
        await stop(process, 10.0)


async def said(*arguments: str) -> tuple[int | None, str]:
    async with lingua(*arguments) as process, asyncio.timeout(START_S):
        output, _ = await process.communicate()
        return process.returncode, output.decode()


@asynccontextmanager
async def scheduler(folder: Path) -> AsyncIterator[str]:
    async with serve_process(folder, "--data-dir", str(folder / "data"), *QUICK) as serving:
        yield f"127.0.0.1:{await until(lambda: serving.port, START_S)}"


def node(url: str, name: str) -> Any:
    return lingua("node", "--engine", "sim", "--languages", "en,zh", "--id", name, "--url", url)


async def lines_until(process: Process, kind: str, subject: str) -> list[dict[str, Any]]:
    """Every event up to the first of this kind about this subject."""
    assert process.stdout is not None
    found: list[dict[str, Any]] = []
    async with asyncio.timeout(SEEN_S):
        while not found or (found[-1]["kind"], found[-1]["subject"]) != (kind, subject):
            found.append(json.loads(await process.stdout.readline()))
    return found


async def test_nodes_that_come_and_are_killed_are_told_as_it_happens(tmp_path: Path) -> None:
    async with scheduler(tmp_path) as url, lingua("events", "--json", "--url", url) as events:
        async with node(url, "sim-1") as process:
            await lines_until(events, "pair.served", "en:zh")
            code, words = await said("status", "--check", "--url", url)
            assert (code, words.splitlines()[0]) == (0, "All is well; there is no speech right now.")
            process.send_signal(signal.SIGKILL)
            told = await lines_until(events, "alarm.raised", "")
        assert {"node.left", "pair.lost"} <= {event["kind"] for event in told}
        code, words = await said("status", "--check", "--url", url)
        assert (code, words.splitlines()[0]) == (CRITICAL, "Translation is down: no node accepts jobs.")
        events.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(events.wait(), START_S) == 0


async def test_the_picture_for_scripts_is_the_one_of_the_scheduler(tmp_path: Path) -> None:
    async with scheduler(tmp_path) as url, node(url, "sim-1"):

        async def whole() -> Picture | None:
            code, body = await said("status", "--json", "--url", url)
            assert code == 0
            picture = msgspec.json.decode(body, type=Picture)
            return picture if [found.state for found in picture.nodes] == ["ready"] else None

        picture = await until(whole, SEEN_S)
        assert {f"{pair.src}:{pair.tgt}" for pair in picture.pairs} == {"en:en", "en:zh", "zh:en", "zh:zh"}
        assert [one.is_alive for one in picture.instances] == [True]


async def test_a_live_view_follows_over_a_restart_of_the_scheduler(tmp_path: Path) -> None:
    port = ""
    with terminal() as screen:
        async with scheduler(tmp_path) as url, node(url, "sim-first"):
            port = url.rpartition(":")[2]
            view = await screen.run("lingua_scheduler", "top", "--interval", "0.1", "--url", url)
            await until(lambda: "sim-first" in screen.shown, SEEN_S)
        await until(lambda: "lost the scheduler" in screen.shown, SEEN_S)
        (tmp_path / "again").mkdir()
        arguments = ("--port", port, "--data-dir", str(tmp_path / "data"), *QUICK)
        async with serve_process(tmp_path / "again", *arguments), node(f"127.0.0.1:{port}", "sim-second"):
            await until(lambda: "sim-second" in screen.shown, SEEN_S)
            screen.type("q")
            assert await asyncio.wait_for(view.wait(), START_S) == 0


async def test_one_process_says_that_it_is_not_replaced_and_goes_on(tmp_path: Path) -> None:
    async with serve_process(tmp_path, "--data-dir", str(tmp_path / "data")) as serving:
        await until(lambda: serving.port, START_S)
        serving.process.send_signal(signal.SIGHUP)
        await until(lambda: '"server.not_replaced"' in serving.log)
        assert "restart it" in serving.log
        assert serving.process.returncode is None
