"""A terminal that a test looks at: what a program shows only to people."""

import asyncio
import os
import pty
from collections.abc import Iterator
from contextlib import contextmanager


class Terminal:
    def __init__(self, program_end: int) -> None:
        self.program_end = program_end
        self.shown = ""


@contextmanager
def terminal() -> Iterator[Terminal]:
    """Hand `program_end` to a process as its output; `shown` grows as it writes."""
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    screen = Terminal(theirs)
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
