"""One worker process, and how it reports to its supervisor."""

import asyncio
import contextlib
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from pathlib import Path
from typing import NamedTuple

import msgspec

from lingua_scheduler.supervisor.listeners import Listeners
from lingua_sdk.processes import die_with_parent, stop


class Word(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's report on standard output, once: that it serves and with which Redis, or why it cannot."""

    redis: str = ""
    failure: str = ""
    exit_code: int = 1


class Launch(NamedTuple):
    """How workers are started and ended."""

    arguments: tuple[str, ...]  # of `lingua serve`, without those that every worker has for itself
    run_dir: Path
    start_limit_s: float | None  # None: it may wait for Redis for ever
    stop_grace_s: float
    internal_sockets: int = 0  # the last so many sockets of a worker are those of the internal port


class Worker:
    def __init__(self, number: int, process: Process) -> None:
        self.number = number
        self.pid = process.pid
        self.name = f"{number}-{process.pid}"
        self._process = process
        self._began_s = time.monotonic()

    @classmethod
    async def start(cls, number: int, listeners: Listeners, launch: Launch) -> "Worker":
        descriptors = [listener.fileno() for listener in listeners]
        public = len(descriptors) - launch.internal_sockets
        options = [("--listen-fd" if at < public else "--internal-fd", one) for at, one in enumerate(descriptors)]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "lingua_scheduler", "serve", *launch.arguments),
            *("--worker", str(number), "--run-dir", str(launch.run_dir)),
            *(word for option, descriptor in options for word in (option, str(descriptor))),
            stdin=DEVNULL,
            stdout=PIPE,
            pass_fds=descriptors,
            start_new_session=True,  # Ctrl-C is ours to pass on
            preexec_fn=die_with_parent,
        )
        return cls(number, process)

    @property
    def has_ended(self) -> bool:
        return self._process.returncode is not None

    @property
    def lived_s(self) -> float:
        return time.monotonic() - self._began_s

    async def first_word(self, limit_s: float | None) -> Word:
        """Whether it became ready; a worker that does not report in time is stopped."""
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(limit_s):
                line = await self._process.stdout.readline()
        except TimeoutError:
            await self.stop(0)
            return Word(failure=f"worker {self.number} was not ready after {limit_s:g} s; see its log")
        try:
            return msgspec.json.decode(line, type=Word)
        except msgspec.DecodeError:
            code = await self.ended()
            return Word(failure=f"worker {self.number} ended with exit code {code}; see its log")

    async def ended(self) -> int:
        return await self._process.wait()

    async def stop(self, grace_s: float) -> None:
        await stop(self._process, grace_s)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
