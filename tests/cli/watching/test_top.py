"""`lingua top` on a real terminal, in a pipe, and when it is told to stop."""

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any

import pytest

from tests.support.forked import fork_command
from tests.support.terminals import Terminal, terminal
from tests.support.waiting import until
from tests.support.watched import Watched, node, watched

SCHEDULER = 5
# What a terminal is told: to keep the screen aside, and to bring it back.
ALTERNATE, BACK = "\x1b[?1049h", "\x1b[?1049l"
SHOW_CURSOR = "\x1b[?25h"


async def top(screen: Terminal, scheduler: Watched, *arguments: str, **environment: str) -> Process:
    return await screen.run("lingua_scheduler", "top", "--url", scheduler.url, *arguments, **environment)


async def piped(url: str, *arguments: str) -> Process:
    return await fork_command("top", "--url", url, *arguments, stdout=PIPE, stderr=PIPE)


async def code_of(process: Process) -> int | None:
    async with asyncio.timeout(90):
        return await process.wait()


async def test_it_follows_the_scheduler_and_quits_by_key() -> None:
    async with watched() as scheduler:
        with terminal() as screen:
            modes = screen.modes
            process = await top(screen, scheduler, "--interval", "0.1")
            await until(lambda: "node-2" in screen.shown, within_s=30)
            assert ALTERNATE in screen.shown
            assert screen.modes != modes
            await scheduler.change(nodes={"node-three": node("node-three")})
            await until(lambda: "node-three" in screen.shown)
            screen.type("q")
            assert await code_of(process) == 0
            await until(lambda: BACK in screen.shown)
            assert SHOW_CURSOR in screen.shown
            assert screen.modes == modes


@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "ctrl-c"])
async def test_the_terminal_is_left_as_it_was_found(how: str) -> None:
    async with watched() as scheduler:
        with terminal() as screen:
            modes = screen.modes
            process = await top(screen, scheduler)
            await until(lambda: "sort: load" in screen.shown, within_s=30)
            if how == "ctrl-c":
                screen.type("\x03")
            else:
                process.send_signal(signal.Signals[how])
            assert await code_of(process) == 0
            await until(lambda: BACK in screen.shown and SHOW_CURSOR in screen.shown)
            assert screen.modes == modes
            assert "Traceback" not in screen.shown


@pytest.mark.skipif(sys.platform != "linux", reason="looks at the process in /proc")
async def test_ctrl_z_gives_the_screen_back_until_it_is_resumed() -> None:
    async with watched() as scheduler:
        with terminal() as screen:
            modes = screen.modes
            process = await top(screen, scheduler)
            await until(lambda: "sort: load" in screen.shown, within_s=30)
            screen.type("\x1a")
            await until(lambda: BACK in screen.shown)
            await until(lambda: Path(f"/proc/{process.pid}/stat").read_text().split()[2] == "T")
            assert screen.modes == modes
            process.send_signal(signal.SIGCONT)
            await until(lambda: screen.shown.count(ALTERNATE) == 2)
            screen.type("q")
            assert await code_of(process) == 0
            assert screen.modes == modes


async def test_keys_sort_pause_and_go_on() -> None:
    async with watched() as scheduler:
        with terminal() as screen:
            process = await top(screen, scheduler, "--interval", "0.1")
            await until(lambda: "sort: load" in screen.shown, within_s=30)
            screen.type("s")
            await until(lambda: "sort: state" in screen.shown)
            screen.type("p")
            await until(lambda: "go on" in screen.shown)
            await scheduler.change(nodes={"node-three": node("node-three")})
            # A key that means nothing draws the same screen again.
            drawn = len(screen.shown)
            screen.type("x\x1b[A")
            await until(lambda: len(screen.shown) > drawn)
            assert "node-three" not in screen.shown
            screen.type("p")
            await until(lambda: "node-three" in screen.shown)
            screen.type("q")
            assert await code_of(process) == 0


async def test_it_follows_the_size_of_the_terminal() -> None:
    async with watched() as scheduler:
        with terminal() as screen:
            process = await top(screen, scheduler, "--interval", "60")
            await until(lambda: "node-2" in screen.shown, within_s=30)
            # Below this width there is no room for pairs, and the words are cut.
            drawn = len(screen.shown)
            screen.resize(40, 12)
            process.send_signal(signal.SIGWINCH)
            await until(lambda: "node-2" in screen.shown[drawn:])
            assert "pair" not in screen.shown[drawn:]
            screen.type("q")
            assert await code_of(process) == 0


async def test_a_lost_scheduler_is_said_and_followed_again() -> None:
    async with watched() as scheduler:
        with terminal() as screen:
            process = await top(screen, scheduler, "--interval", "0.1")
            await until(lambda: scheduler.watchers, within_s=30)
            scheduler.refusal = (503, {"error": "SERVICE_UNAVAILABLE", "detail": "not now"})
            scheduler.hang_up()
            await until(lambda: "lost the scheduler" in screen.shown, within_s=30)
            scheduler.refusal = None
            await until(lambda: scheduler.watchers, within_s=30)
            await scheduler.change(nodes={"node-three": node("node-three")})
            await until(lambda: "node-three" in screen.shown)
            screen.type("q")
            assert await code_of(process) == 0


@pytest.mark.parametrize("how", [{"TERM": "dumb"}, {"arguments": "--once"}])
async def test_one_frame_where_nothing_can_move(how: dict[str, str]) -> None:
    arguments = how.pop("arguments", "").split()
    async with watched() as scheduler:
        with terminal() as screen:
            process = await top(screen, scheduler, *arguments, **how)
            assert await code_of(process) == 0
            await until(lambda: "node-2" in screen.shown)
            assert ALTERNATE not in screen.shown


async def test_no_colour_when_it_is_not_wanted() -> None:
    async with watched() as scheduler:
        with terminal() as screen:
            process = await top(screen, scheduler, "--once", NO_COLOR="1")
            assert await code_of(process) == 0
            await until(lambda: "node-2" in screen.shown)
            assert "\x1b[3" not in screen.shown
            assert ";3" not in screen.shown


async def test_in_a_pipe_it_shows_one_plain_frame() -> None:
    async with watched() as scheduler:
        process = await piped(scheduler.url)
        said, complaints = await process.communicate()
    assert (process.returncode, complaints) == (0, b"")
    assert b"\x1b" not in said
    assert "All is well" in said.decode()
    assert "node-2" in said.decode()


async def test_scripts_get_a_picture_and_then_every_change() -> None:
    async with watched() as scheduler:
        process = await piped(scheduler.url, "--json")
        assert process.stdout is not None

        async def line() -> dict[str, Any]:
            assert process.stdout is not None
            async with asyncio.timeout(90):
                found: dict[str, Any] = json.loads(await process.stdout.readline())
                return found

        first = await line()
        assert (first["type"], len(first["picture"]["nodes"])) == ("picture", 2)
        await until(lambda: scheduler.watchers)
        await scheduler.change(map_version=13)
        changed = await line()
        assert (changed["type"], changed["serial"], changed["map_version"]) == ("change", 2, 13)
        process.send_signal(signal.SIGINT)
        assert await code_of(process) == 0


async def test_one_picture_for_scripts() -> None:
    async with watched() as scheduler:
        process = await piped(scheduler.url, "--json", "--once")
        said, _ = await process.communicate()
    assert process.returncode == 0
    assert [json.loads(line)["type"] for line in said.splitlines()] == ["picture"]


async def test_who_cannot_be_watched_is_named_in_one_sentence() -> None:
    async with watched() as scheduler:
        scheduler.refusal = (503, {"error": "SERVICE_UNAVAILABLE", "detail": "200 others watch"})
        process = await piped(scheduler.url)
        _, complaints = await process.communicate()
    assert process.returncode == SCHEDULER
    assert complaints.decode() == (
        f"lingua: the scheduler at {scheduler.url} cannot be watched (SERVICE_UNAVAILABLE: 200 others watch)\n"
    )
