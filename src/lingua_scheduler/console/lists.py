"""Lists that take many reads of Redis, made one after another."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TypeVar

from lingua_scheduler.console.answers import Problem
from lingua_scheduler.domain.guards.rates import Bucket
from lingua_sdk.domain.errors import HttpCode

T = TypeVar("T")

# Share of the time in which lists are made, and burst in seconds; only a flood of requests reaches them.
SHARE = 0.25
BURST_S = 0.5
MAX_WAITING = 20
RETRY_AFTER_S = 1


class Lists:
    """What such a list costs is parsed with the replies of Redis, so the budget of HTTP requests does not count it."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._bucket = Bucket(SHARE, BURST_S)
        self._making = asyncio.Lock()
        self._waiting = 0

    async def make(self, read: Callable[[], Awaitable[T]], is_connected: Callable[[], bool] = lambda: True) -> T:
        """In its turn. Raises Problem if too many wait already, or the caller did not wait for its turn."""
        if self._waiting >= MAX_WAITING:
            detail = "too many lists are requested at once; try again shortly"
            raise Problem(503, HttpCode.SERVICE_UNAVAILABLE, detail, retry_after_s=RETRY_AFTER_S)
        self._waiting += 1
        try:
            async with self._making:
                if not is_connected():
                    raise Problem(503, HttpCode.SERVICE_UNAVAILABLE, "the caller has left")
                if wait_s := self._bucket.take(0, self._clock()):
                    await asyncio.sleep(wait_s)
                began_s = self._clock()
                try:
                    return await read()
                finally:
                    now_s = self._clock()
                    self._bucket.take(now_s - began_s, now_s)
        finally:
            self._waiting -= 1
