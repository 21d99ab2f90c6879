"""The processes of a benchmark: a scheduler, its load, an echo server, other queues. All end with their `with`."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from bench.orders import Answer, Cast, Command, Fleet, Pressed, Spoken, Tally
from lingua_sdk.processes import die_with_parent, stop

A = TypeVar("A", bound=Answer)

# Where `bench` is found as a package.
ROOT = Path(__file__).parents[1]

START_LIMIT_S = 60.0
ORDER_LIMIT_S = 180.0
STOP_GRACE_S = 20.0
POLL_S = 0.05
# One utterance under pressure is about forty bytes of its answer.
MAX_LINE_BYTES = 2**24


# Jobs under way at the end have lost their nodes, so there is nothing to wait for; a few peers stand for many people,
# so no rate limit applies; our nodes have the slots that they claim; and a Redis that waits for a core is not away.
SETTINGS = (
    "redis.timeout_ms=10000",
    "server.stop_timeout_ms=0",
    "server.max_connection_cpu_percent=100",
    "server.max_shared_loop_percent=100",
    "logs.format=json",
    "logs.level=info",
    "sessions.max_frames_per_s=1000000",
    "sessions.max_bytes_per_s=1073741824",
    "nodes.max_frames_per_s=1000000",
    "nodes.max_bytes_per_s=1073741824",
    "nodes.believed_slots=0",
)
_KNOWN = """
import json, sys
from lingua_scheduler.settings import Settings
known = lambda name: hasattr(getattr(Settings(), name.split(".")[0]), name.split(".")[1])
print(json.dumps([setting for setting in sys.argv[1:] if known(setting.partition("=")[0])]))
"""


class BenchFailed(Exception):
    """The measurement cannot go on; one sentence that says why."""


class SchedulerChild(NamedTuple):
    pids: tuple[int, ...]  # of all that serve
    port: int
    redis_pid: int
    redis_url: str


@asynccontextmanager
async def scheduler(
    folder: Path, workers: int = 1, *, module: str = "lingua_scheduler", python: str = sys.executable, **variables: str
) -> AsyncIterator[SchedulerChild]:
    """A scheduler with a Redis of its own, of the release that `python` has installed; `variables` are of its
    environment."""
    settings = SETTINGS if python == sys.executable else await _known(python, SETTINGS)
    arguments = [word for setting in settings for word in ("--set", setting)]
    if workers > 1:
        arguments += ["--workers", str(workers)]
    log_path = folder / "scheduler.log"
    with log_path.open("wb") as log:
        process = await _spawn(
            python, "-m", module, "serve", "--host", "127.0.0.1", "--port", "0",
            "--data-dir", str(folder / "redis"), *arguments,
            stdin=DEVNULL, stdout=log, stderr=log, cwd=ROOT, **variables,
        )  # fmt: skip
    try:
        said = await wait_ready(process, log_path)
        events = {event["event"]: event for event in said}
        worker_pids = tuple(event["pid"] for event in said if event["event"] == "worker.ready")
        yield SchedulerChild(
            pids=worker_pids or (process.pid,),
            port=events["scheduler.started"]["port"],
            redis_pid=events["embedded.started"]["pid"],
            redis_url=events["embedded.started"]["url"],
        )
    finally:
        await stop(process, STOP_GRACE_S)


async def _known(python: str, settings: Sequence[str]) -> list[str]:
    """Those of the settings that another release knows, which may be an older one."""
    code, said = await run_to_end(python, "-c", _KNOWN, *settings, folder=ROOT, limit_s=START_LIMIT_S)
    if code != 0:
        raise BenchFailed(f"{python} has no Lingua Scheduler: {said[-300:]}")
    return list(json.loads(said))


async def wait_ready(process: Process, log_path: Path) -> list[dict[str, Any]]:
    """What the scheduler said of itself until it was ready."""
    for _ in range(int(START_LIMIT_S / POLL_S)):
        said = log_path.read_text("utf-8", "replace")
        if '"scheduler.ready"' in said and said.endswith("\n"):
            return [json.loads(line) for line in said.splitlines()]
        if process.returncode is not None:
            raise BenchFailed(f"the scheduler ended at once: {said[-500:].strip()}")
        await asyncio.sleep(POLL_S)
    raise BenchFailed(f"the scheduler was not ready after {START_LIMIT_S:g} s")


class LoadChild(Generic[A]):
    """A load process; it answers every command with an `A`."""

    def __init__(self, process: Process, kind: type[A]) -> None:
        self._process = process
        self._kind = kind
        self.pid = process.pid

    async def carry_out(self, command: Command) -> A:
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(command) + b"\n")
        return await self.hear(ORDER_LIMIT_S + command.lasts_s)

    async def hear(self, limit_s: float) -> A:
        line = await _line(self._process, limit_s, "the load process")
        answer = msgspec.json.decode(line, type=self._kind)
        if answer.failure:
            raise BenchFailed(answer.failure)
        return answer


def load(cast: Cast) -> AbstractAsyncContextManager[LoadChild[Tally]]:
    """Clients that talk without pause, or at a rate; nodes that answer at once."""
    return _load("bench.load", cast, Tally)


def speakers(cast: Cast) -> AbstractAsyncContextManager[LoadChild[Spoken]]:
    """Clients that speak as people do."""
    return _load("bench.speaking", cast, Spoken)


def pressure(fleet: Fleet) -> AbstractAsyncContextManager[LoadChild[Pressed]]:
    """Clients that ask for more than nodes can do that take a while for a job."""
    return _load("bench.pressing", fleet, Pressed)


@asynccontextmanager
async def _load(module: str, cast: Cast, kind: type[A]) -> AsyncIterator[LoadChild[A]]:
    process = await _start(module, msgspec.json.encode(cast).decode())
    try:
        child = LoadChild(process, kind)
        await child.hear(ORDER_LIMIT_S)
        yield child
    finally:
        await _end(process)


@asynccontextmanager
async def echo_server() -> AsyncIterator[tuple[int, int]]:
    """The process id and the port of a bare echo server."""
    process = await _start("bench.echo")
    try:
        yield process.pid, int(await _line(process, START_LIMIT_S, "the echo server"))
    finally:
        await _end(process)


@asynccontextmanager
async def queue(
    worker: Sequence[str], client: Sequence[str], log_path: Path
) -> AsyncIterator[tuple[int, LoadChild[Tally]]]:
    """The process id of a worker of another job queue, and a client of that queue."""
    with log_path.open("ab") as log:
        working = await _spawn(*worker, stdin=DEVNULL, stdout=log, stderr=log)
        try:
            process = await _spawn(*client, stderr=log)
            try:
                child = LoadChild(process, Tally)
                await child.hear(START_LIMIT_S)
                yield working.pid, child
            finally:
                await _end(process)
        finally:
            await stop(working, STOP_GRACE_S)


async def run_to_end(*command: str, folder: Path, limit_s: float) -> tuple[int, str]:
    """The exit code of a command and what it said."""
    process = await _spawn(*command, stdin=DEVNULL, stderr=STDOUT, cwd=folder)
    try:
        async with asyncio.timeout(limit_s):
            said, _ = await process.communicate()
    except TimeoutError:
        return 1, f"it was not done after {limit_s:g} s"
    finally:
        await stop(process, 1.0)
    return process.returncode or 0, said.decode("utf-8", "replace").strip()


async def _start(module: str, *arguments: str) -> Process:
    return await _spawn(sys.executable, "-m", module, *arguments, cwd=ROOT)


async def _spawn(
    *command: str, stdin: int = PIPE, stdout: Any = PIPE, stderr: Any = None, cwd: Path | None = None, **variables: str
) -> Process:
    # Settings of the person who measures must not change what is measured.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("LINGUA_", "OTEL_"))}
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        cwd=cwd,
        env=environment | variables,
        limit=MAX_LINE_BYTES,
        start_new_session=True,  # Ctrl-C is ours to pass on
        preexec_fn=die_with_parent,
    )


async def _end(process: Process) -> None:
    """Stop it, and leave no pipe open."""
    assert process.stdin is not None
    assert process.stdout is not None
    await stop(process, STOP_GRACE_S)
    process.stdin.close()
    await process.stdout.read()


async def _line(process: Process, limit_s: float, who: str) -> bytes:
    assert process.stdout is not None
    try:
        async with asyncio.timeout(limit_s):
            line = await process.stdout.readline()
    except TimeoutError:
        raise BenchFailed(f"{who} said nothing for {limit_s:.0f} s") from None
    if not line:
        raise BenchFailed(f"{who} ended with code {await process.wait()}")
    return line
