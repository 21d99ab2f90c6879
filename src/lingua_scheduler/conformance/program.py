"""The program under test, if the kit starts it: with the address in its environment, its output kept to a limit."""

import asyncio
import contextlib
import os
import signal
from pathlib import Path

from lingua_sdk.processes import die_with_parent, stop

URL_VARIABLE = "LINGUA_URL"
STOP_WITHIN_S = 5.0
# Of its output, the end.
MAX_OUTPUT_BYTES = 1_000_000


class Program:
    """`log` is the file that takes its output."""

    def __init__(self, command: str, url: str, log: Path) -> None:
        self._command = command
        self._environment = os.environ | {URL_VARIABLE: url}
        self._log = log
        self._process: asyncio.subprocess.Process | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    def output(self) -> str:
        if not self._log.exists():
            return ""
        with self._log.open("rb") as file:
            file.seek(max(0, self._log.stat().st_size - MAX_OUTPUT_BYTES))
            return file.read().decode(errors="replace")

    async def start(self) -> None:
        """A process that still runs is ended first."""
        await self.stop()
        with self._log.open("ab") as output:
            # `exec`: the shell must not stand between the program and its signals.
            self._process = await asyncio.create_subprocess_exec(
                *("/bin/sh", "-c", f"exec {self._command}"),
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                stdin=asyncio.subprocess.DEVNULL,
                env=self._environment,
                preexec_fn=die_with_parent,
            )

    def ask_to_leave(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)

    async def exit_code(self, within_s: float) -> int | None:
        """None if it has not ended in time."""
        if self._process is None:
            return None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                return await self._process.wait()
        return None

    async def stop(self) -> None:
        if self._process is not None:
            await stop(self._process, STOP_WITHIN_S)
