"""A cached page that is expensive to generate: callers who ask too often get the previous one."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic

from lingua_scheduler.domain.guards.rates import Budget

# Pages per second, and burst; several scrapers stay below that.
PER_S = 1
BURST = 20


class Cached:
    """Generated for each request within a rate; to generate one holds everything else up, however seldom it happens."""

    def __init__(self, make: Callable[[], Awaitable[bytes]], clock: Callable[[], float] = monotonic) -> None:
        self._make = make
        self._clock = clock
        self._budget = Budget(PER_S, BURST)
        self._latest: bytes | None = None
        # A lock, because concurrent callers would each render a page.
        self._making = asyncio.Lock()

    async def get(self) -> bytes:
        async with self._making:
            # The first page is made in any case.
            if self._budget.take(self._clock()) or self._latest is None:
                self._latest = await self._make()
            return self._latest
