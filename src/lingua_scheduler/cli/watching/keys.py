"""Single keys from a terminal, which is left as it was found."""

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MOST_BYTES = 64


@contextmanager
def keys(pressed: Callable[[str], None]) -> Iterator[bool]:
    """Call `pressed` with each key. Says whether there are keys: not without a terminal, nor in the background."""
    if not _is_ours():
        yield False
        return
    terminal = sys.stdin.fileno()
    loop = asyncio.get_running_loop()
    before = termios.tcgetattr(terminal)

    def read() -> None:
        try:
            typed = os.read(terminal, MOST_BYTES)
        except OSError:
            typed = b""
        if not typed:  # the terminal is gone
            loop.remove_reader(terminal)
        # An arrow or another long key is one escape sequence, and none of ours.
        elif not typed.startswith(b"\x1b"):
            for letter in typed.decode(errors="ignore"):
                pressed(letter)

    tty.setcbreak(terminal)
    loop.add_reader(terminal, read)
    try:
        yield True
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _is_ours() -> bool:
    """Whether a terminal types for us: one in the background would be stopped for touching it."""
    try:
        return sys.stdin.isatty() and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError):  # another session's terminal, or no file at all
        return False
