"""Shared by `lingua top` and `lingua events`: how they connect, how they end, and their output."""

import asyncio
import os
import signal
import stat
import sys
from collections.abc import AsyncGenerator, Coroutine
from typing import Any, NoReturn

from lingua_scheduler.cli.options import Exit, fail
from lingua_scheduler.cli.scheduler_access import not_allowed, unreachable
from lingua_sdk.access import AccessDenied
from lingua_sdk.address import BadAddress
from lingua_sdk.trouble import Trouble
from lingua_sdk.watching import Connected, Interrupted, StreamMessage

Stream = AsyncGenerator[Connected | StreamMessage | Interrupted, None]


def run(url: str, work: Coroutine[Any, Any, None], *, is_endless: bool = True) -> None:
    """Run until Ctrl-C or until the reader of the output is gone; both are a normal end."""
    try:
        asyncio.run(_until_stopped(work) if is_endless else work)
    except BadAddress as error:
        fail(str(error), Exit.SETTINGS)
    except AccessDenied as error:
        not_allowed(url, error)
    except BrokenPipeError:
        # Or the interpreter complains when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


async def _until_stopped(work: Coroutine[Any, Any, None]) -> None:
    working = asyncio.ensure_future(work)
    is_asked = False

    def stop() -> None:
        nonlocal is_asked
        is_asked = True
        working.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    if _is_pipe():
        # The reader hung up: seen at once, not only with the next line.
        loop.add_reader(sys.stdout.fileno(), stop)
    try:
        await working
    except asyncio.CancelledError:
        if not is_asked:
            raise
    finally:
        if _is_pipe():
            loop.remove_reader(sys.stdout.fileno())


def _is_pipe() -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)
    except (OSError, ValueError):  # not a file at all
        return False


async def begin(stream: Stream, url: str) -> None:
    """The first connection must succeed: who mistyped an address wants to know."""
    said = await anext(stream)
    if isinstance(said, Interrupted):
        no_scheduler(url, said)


def no_scheduler(url: str, said: Interrupted) -> NoReturn:
    if said.is_refusal:
        fail(f"the scheduler at {url} cannot be watched ({said.reason})", Exit.SCHEDULER)
    absent = Trouble(said.reason, "start one with: lingua serve", is_absent=True)
    fail(unreachable(url, said.trouble or absent), Exit.SCHEDULER)


def write_line(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()
