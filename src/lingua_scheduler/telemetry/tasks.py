"""Tasks with a parent, and chores with a name: nothing runs that nobody watches."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from functools import cached_property
from time import monotonic
from typing import Any

from lingua_scheduler.telemetry import logs, metrics

_log = logs.get()

LAG_EVERY_S = 0.25


class Nursery:
    """Keeps the tasks of one owner. A task that fails is logged and counted; it takes nobody with it."""

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


async def every(name: str, interval_s: float, chore: Callable[[], Awaitable[None]]) -> None:
    """Run a chore for ever, with jitter so that instances do not march in step; a failure is counted, not fatal."""
    was_failing = False
    while True:
        await asyncio.sleep(interval_s * random.uniform(0.9, 1.1))
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
    """Measure for ever how late the event loop is: whoever waits for its turn waits this much longer."""
    while True:
        due = monotonic() + LAG_EVERY_S
        await asyncio.sleep(LAG_EVERY_S)
        metrics.LOOP_LAG.observe(max(0.0, monotonic() - due))
