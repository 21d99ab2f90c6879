"""A semaphore that is fair between callers: a free place goes to the callers in turn, not to the longest queue."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairPlaces:
    """Round-robin over those that wait, by name. Of one caller, who came first is served first."""

    def __init__(self, places: int) -> None:
        self._free = places
        # The caller whose turn is next comes first.
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def place(self, caller: str) -> AsyncIterator[None]:
        if self._free:
            # While a place is free, no caller waits.
            self._free -= 1
        else:
            await self._wait(caller)
        try:
            yield
        finally:
            self._give_back()

    async def _wait(self, caller: str) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._leave(caller, turn)
            else:
                # It got the place in the moment in which it gave up.
                self._give_back()
            raise

    def _leave(self, caller: str, turn: asyncio.Future[None]) -> None:
        queue = self._waiting[caller]
        queue.remove(turn)
        if not queue:
            del self._waiting[caller]

    def _give_back(self) -> None:
        """To the next caller, who goes to the end of the line if more of its own wait."""
        while self._waiting:
            caller, queue = self._waiting.popitem(last=False)
            turn = queue.popleft()
            if queue:
                self._waiting[caller] = queue
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
