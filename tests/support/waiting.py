"""Waiting for a condition, in the one place where tests sleep."""

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Self

# On a busy machine a second may take ten: what comes at all is waited for, and no test measures time by that.
PATIENCE_S = 120.0


async def until(condition: Callable[[], Any], within_s: float = PATIENCE_S, what: str = "") -> Any:
    """Poll until the condition (plain or async) gives something true, and return that.

    `within_s` is for what takes even longer. A condition that takes long itself, such as a request to a busy process,
    is asked for less often: it is part of the load."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + max(within_s, PATIENCE_S)
    while True:
        asked_s = clock()
        found = condition()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        if clock() > deadline:
            raise AssertionError(f"not within {within_s:g} s: {what or condition}")
        await asyncio.sleep(min(0.25, max(0.01, 4 * (clock() - asked_s))))


class Lateness:
    """How late this process woke at most, in seconds: what a busy machine adds to whatever is timed in it."""

    def __init__(self) -> None:
        self.most_s = 0.0

    async def watch(self, every_s: float = 0.02) -> None:
        while True:
            before_s = time.monotonic()
            await asyncio.sleep(every_s)
            self.most_s = max(self.most_s, time.monotonic() - before_s - every_s)


@asynccontextmanager
async def lateness() -> AsyncIterator[Lateness]:
    late = Lateness()
    watching = asyncio.create_task(late.watch())
    try:
        yield late
    finally:
        watching.cancel()


class Turns:
    """How many turns of the event loop others have had: work that must not hold them up lets some pass."""

    def __init__(self) -> None:
        self.taken = 0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._take())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _take(self) -> None:
        while True:
            self.taken += 1
            await asyncio.sleep(0)
