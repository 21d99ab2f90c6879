"""Supervised tasks and named periodic chores: every task has a parent that notices its failure."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from functools import cached_property
from time import monotonic
from typing import Any, Generic, TypeVar

from lingua_scheduler.telemetry import logs, metrics, ticks

_log = logs.get()

T = TypeVar("T")

LAG_EVERY_S = 0.25


class Nursery:
    """The tasks of one owner. A task that fails is logged and counted; the others continue."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        """Kept, because looking it up costs a call of the system each time."""
        return asyncio.get_running_loop()

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def settle(self, timeout_s: float) -> int:
        """Let running tasks finish, for a while; return how many did not."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)
        return len(self._tasks)

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            metrics.TASK_FAILURES.labels(self._name).inc()
            _log.error("task.failed", nursery=self._name, exc_info=error)


class SingleFlight(Generic[T]):
    """One run of some work at a time, whose result all callers share that ask for it meanwhile.

    It goes on when callers are cancelled. Its failure is theirs: they may expect it, so it is not logged here.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[T] | None = None

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    async def join(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of the run that is under way, or of a new one."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(work())
            # All callers may have left by the time it fails.
            self._task.add_done_callback(_take_exception)
        return await asyncio.shield(self._task)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        self.cancel()
        if self._task is not None:
            await asyncio.wait((self._task,))


def _take_exception(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


async def every(name: str, interval_s: float, chore: Callable[[], Awaitable[None]]) -> None:
    """Run a chore periodically, for ever, with jitter so that instances do not synchronise. Chores share their timers.

    A failure is counted, not fatal.
    """
    was_failing, grid = False, ticks.grid()
    while True:
        await grid.sleep(interval_s * random.uniform(0.9, 1.1))
        try:
            await chore()
            was_failing = False
        except Exception as error:
            metrics.CHORE_FAILURES.labels(name).inc()
            if not was_failing:
                # Said once, however long it lasts; the metric counts on.
                _log.warning("chore.failed", chore=name, error=f"{type(error).__name__}: {error}")
            was_failing = True


async def watch_loop() -> None:
    """Measure the event-loop lag, for ever: how late a timer fires."""
    while True:
        due = monotonic() + LAG_EVERY_S
        await asyncio.sleep(LAG_EVERY_S)
        metrics.LOOP_LAG.observe(max(0.0, monotonic() - due))
