"""Child processes end when told to, and when their parent is gone."""

import asyncio
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from lingua_sdk import processes

PATIENCE_S = 20.0
POLITE = "print('ready', flush=True); import signal; signal.pause()"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + POLITE
# Starts a child that dies with it, tells its pid, and waits to be killed.
PARENT = """
import asyncio, signal, sys, uvloop
from lingua_sdk import processes

async def main():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # ignored signals are inherited: the child must not care
    child = await asyncio.create_subprocess_exec(
        "sleep", "1000", preexec_fn=processes.die_with_parent, start_new_session=True
    )
    print(child.pid, flush=True)
    await child.wait()

with asyncio.Runner(loop_factory={"asyncio": asyncio, "uvloop": uvloop}[sys.argv[1]].new_event_loop) as runner:
    runner.run(main())
"""
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux can tie a child to its parent")


async def run(program: str, *arguments: str) -> tuple[Process, str]:
    """Start a Python program and return it with the first line it prints."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, *arguments, stdout=PIPE)
    assert process.stdout is not None
    return process, (await process.stdout.readline()).decode().strip()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.01)


def is_running(pid: int) -> bool:
    """A zombie nobody has collected yet does not run."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_a_polite_process_ends_on_the_first_request() -> None:
    process, _ = await run(POLITE)
    assert await processes.stop(process, grace_s=PATIENCE_S) == -signal.SIGTERM


async def test_a_stubborn_process_is_killed_after_its_grace() -> None:
    process, _ = await run(STUBBORN)
    assert await processes.stop(process, grace_s=0.05) == -signal.SIGKILL


async def test_stopping_a_process_that_has_ended_gives_its_exit_code() -> None:
    process, _ = await run("raise SystemExit(7)")
    await process.wait()
    assert await processes.stop(process, grace_s=PATIENCE_S) == 7
    assert await processes.stop(process, grace_s=0) == 7


@needs_linux
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
async def test_a_child_dies_when_its_parent_is_killed(loop: str) -> None:
    parent, said = await run(PARENT, loop)
    assert is_running(int(said))
    parent.kill()
    await parent.wait()
    await until(lambda: not is_running(int(said)))


@needs_linux
async def test_a_child_whose_parent_died_before_it_could_ask_ends_itself() -> None:
    def forget_the_parent() -> None:
        processes._forking_pid = -1
        processes.die_with_parent()

    orphan = await asyncio.create_subprocess_exec("sleep", "1000", stdin=DEVNULL, preexec_fn=forget_the_parent)
    async with asyncio.timeout(PATIENCE_S):
        assert await orphan.wait() == 128 + signal.SIGTERM


@needs_linux
async def test_a_process_that_was_itself_forked_may_have_children() -> None:
    program = """
import os, subprocess
from lingua_sdk import processes
if os.fork() == 0:
    done = subprocess.run(["true"], preexec_fn=processes.die_with_parent)
    os._exit(done.returncode)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    process, said = await run(program)
    await process.wait()
    assert said == "0"


def test_uvloop_stops_processes_just_the_same() -> None:
    async def stop_both() -> tuple[int, int]:
        polite, _ = await run(POLITE)
        stubborn, _ = await run(STUBBORN)
        return await processes.stop(polite, PATIENCE_S), await processes.stop(stubborn, 0.05)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(stop_both()) == (-signal.SIGTERM, -signal.SIGKILL)


async def test_without_the_kernels_help_a_child_runs_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_prctl", None)
    child = await asyncio.create_subprocess_exec("true", preexec_fn=processes.die_with_parent)
    assert await child.wait() == 0
