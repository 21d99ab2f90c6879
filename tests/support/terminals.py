"""A terminal that a test looks at: what a program shows only to people."""

import asyncio
import fcntl
import os
import pty
import struct
import termios
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.forked import fork_module


class Terminal:
    def __init__(self, our_end: int, program_end: int) -> None:
        self.program_end = program_end
        self.shown = ""
        self._our_end = our_end

    @property
    def modes(self) -> list[object]:
        """How it treats what is typed."""
        return list(termios.tcgetattr(self.program_end))

    def type(self, keys: str) -> None:
        os.write(self._our_end, keys.encode())

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._our_end, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    async def run(self, module: str, *arguments: str, **environment: str) -> asyncio.subprocess.Process:
        """As `python -m module`, as a shell would start it: this is its terminal, in every way."""
        clean = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
        return await fork_module(
            module,
            arguments,
            (self.program_end, self.program_end, self.program_end),
            clean | {"TERM": "xterm-256color"} | environment,
            is_on_terminal=True,
        )


@contextmanager
def terminal() -> Iterator[Terminal]:
    """Hand `program_end` to a process as its output; `shown` grows as it writes."""
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    screen = Terminal(ours, theirs)
    screen.resize(80, 24)
    loop = asyncio.get_running_loop()

    def read() -> None:
        screen.shown += os.read(ours, 65_536).decode(errors="replace")

    loop.add_reader(ours, read)
    try:
        yield screen
    finally:
        loop.remove_reader(ours)
        os.close(ours)
        os.close(theirs)
