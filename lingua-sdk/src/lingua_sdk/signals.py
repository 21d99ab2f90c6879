"""SIGTERM and Ctrl-C of a program that serves, also where event loops cannot handle signals."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

NUMBERS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def calling_at_signals(ask: Callable[[], None]) -> Iterator[None]:
    """Calls `ask` on the event loop at each signal, instead of what else a signal does."""
    loop = asyncio.get_running_loop()
    try:
        for number in NUMBERS:
            loop.add_signal_handler(number, ask)
    except NotImplementedError:  # on Windows
        with _without_the_loop(lambda *_: loop.call_soon_threadsafe(ask)):
            yield
        return
    try:
        yield
    finally:
        for number in NUMBERS:
            loop.remove_signal_handler(number)


@contextmanager
def _without_the_loop(handler: Callable[..., Any]) -> Iterator[None]:
    # Ctrl-Break is what a parent can send on Windows; SIGTERM comes from nowhere there.
    numbers = [*NUMBERS, *([signal.SIGBREAK] if hasattr(signal, "SIGBREAK") else [])]
    before = [(number, signal.signal(number, handler)) for number in numbers]
    try:
        yield
    finally:
        for number, former in before:
            signal.signal(number, former)
