"""Calls the methods of engines: async ones are awaited, plain ones run in threads.

No engine gets more calls at once than it bears, and one that takes batches gets what waits for it in one call."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lingua_sdk import time_limits
from lingua_sdk.checks import checked, checked_batch, count_of
from lingua_sdk.engines import EngineRefused
from lingua_sdk.threads import Threads

# Of an engine that takes batches and does not say how many.
BATCH_SIZE = 8


class _Item(NamedTuple):
    """One input that waits for its batch; inputs with the same `rest` may share one."""

    value: Any
    rest: tuple[Any, ...]
    made: "asyncio.Future[Any]"
    # How its job asks for more time.
    asking: time_limits.Asking | None


class EngineCalls:
    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        # By the identity of the engine, which the pipeline keeps; and of its method.
        self._turns: dict[int, asyncio.Semaphore] = {}
        self._waiting: dict[tuple[int, str], list[_Item]] = {}
        self._workers: dict[tuple[int, str], asyncio.Task[None]] = {}

    async def ask(self, engine: object, service_id: str, method: str, *arguments: Any) -> Any:
        """What the method returns, of the type it must have."""
        try:
            if callable(getattr(engine, f"{method}_batch", None)):
                return await self._in_batch(engine, method, *arguments)
            async with self._turn(engine):
                return checked(method, await self.call(getattr(engine, method), *arguments))
        except EngineRefused as error:
            error.service_id = error.service_id or service_id
            raise

    async def call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        if inspect.iscoroutinefunction(method):
            return await method(*arguments)
        made = await self._threads.run(functools.partial(method, *arguments))
        return await made if inspect.isawaitable(made) else made

    def _turn(self, engine: object) -> asyncio.Semaphore:
        turn = self._turns.get(id(engine))
        if turn is None:
            turn = self._turns[id(engine)] = asyncio.Semaphore(count_of(engine, "concurrency") or 1 << 16)
        return turn

    async def _in_batch(self, engine: object, method: str, value: Any, *rest: Any) -> Any:
        """Inputs that come while a batch is being worked on make the next one."""
        # A batch has no partial results.
        rest = tuple(argument for argument in rest if isinstance(argument, str))
        key = (id(engine), method)
        size = count_of(engine, "batch_size") or BATCH_SIZE
        item = _Item(value, rest, asyncio.get_running_loop().create_future(), time_limits.current())
        self._waiting.setdefault(key, []).append(item)
        worker = self._workers.get(key)
        if worker is None or worker.done():
            self._workers[key] = asyncio.create_task(self._work(engine, method, size))
        return await item.made

    async def _work(self, engine: object, method: str, size: int) -> None:
        waiting = self._waiting[id(engine), method]
        while waiting:
            # Those that come in the same moment belong together.
            await asyncio.sleep(0)
            waiting[:] = [item for item in waiting if not item.made.cancelled()]
            batch = [item for item in waiting if item.rest == waiting[0].rest][:size]
            waiting[:] = [item for item in waiting if item not in batch]
            if batch:
                await self._one(engine, method, batch)

    async def _one(self, engine: object, method: str, batch: Sequence[_Item]) -> None:
        values = [item.value for item in batch]
        try:
            asking = time_limits.together([item.asking for item in batch])
            async with self._turn(engine):
                with time_limits.asking_with(asking):
                    made = await self.call(getattr(engine, f"{method}_batch"), values, *batch[0].rest)
            results = checked_batch(method, made, len(batch))
        except Exception as error:
            for item in batch:
                if not item.made.done():
                    item.made.set_exception(error)
            return
        for item, result in zip(batch, results, strict=True):
            if not item.made.done():
                item.made.set_result(result)
