"""Threads for engines that are not async: as many as slots, so that none waits for another's turn."""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from lingua_sdk.job_course import ended_late

R = TypeVar("R")


class Threads:
    """Started when first needed, and kept: a model may hold something for each. They do not outlive the process,
    as those of an executor would if a model hangs."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._waiting: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._started = 0
        self._busy = 0

    async def run(self, call: Callable[[], R]) -> R:
        """Its result. Who is cancelled meanwhile waits for its end all the same: a thread cannot be stopped, and what
        it takes up is taken. A second cancellation is obeyed: then the node is stopping."""
        done: Future[R] = Future()
        self._busy += 1
        if self._busy > self._started and self._started < self._most:
            self._started += 1
            threading.Thread(target=self._serve, name=f"{self._name}-{self._started}", daemon=True).start()
        # What an engine finds in its context, such as how to ask for more time, is there in the thread too.
        self._waiting.put((done, partial(copy_context().run, call)))
        ended = asyncio.wrap_future(done)
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            ended.add_done_callback(_nobody_asks)
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait((ended,))
                ended_late(ended.exception())
            raise
        finally:
            self._busy -= 1

    def _serve(self) -> None:
        while True:
            done, call = self._waiting.get()
            try:
                result = call()
            except Exception as error:
                done.set_exception(error)
            except BaseException as error:
                # An engine that wants to end the process fails its job, and no more.
                done.set_exception(RuntimeError(f"the engine raised {type(error).__name__}"))
            else:
                done.set_result(result)
            # Nothing of a job is kept until the next one comes.
            del done, call


def _nobody_asks(ended: "asyncio.Future[Any]") -> None:
    """Retrieve the error, because asyncio complains about errors that are never retrieved."""
    if not ended.cancelled():
        ended.exception()
