"""Timers on a grid: what is due at about the same time shares one wake-up of the process, and one write to Redis."""

import asyncio
from weakref import WeakKeyDictionary

# What is on the grid may be early or late by half of this.
GRAIN_S = 0.1
# A shorter wait would be off by too much of itself.
SHORTEST_S = 0.8 * GRAIN_S


class _Slot:
    """All that is due at one moment."""

    __slots__ = ("timer", "waiters")

    def __init__(self, timer: asyncio.TimerHandle) -> None:
        self.timer = timer
        self.waiters: set[asyncio.Future[None]] = set()


class Grid:
    """The timers of one event loop; `grid` has it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # Kept, because looking it up costs a call of the system each time.
        self._loop = loop
        self._slots: dict[int, _Slot] = {}
        # Schedulers on one machine must not all wake up at the same moments.
        self._begins_s = loop.time()

    async def sleep(self, seconds: float) -> None:
        """As `asyncio.sleep`, on the grid unless it is a short time."""
        if seconds < SHORTEST_S:
            await asyncio.sleep(seconds)
            return
        loop = self._loop
        moment = round((loop.time() + seconds - self._begins_s) / GRAIN_S)
        slot = self._slots.get(moment)
        if slot is None:
            timer = loop.call_at(self._begins_s + moment * GRAIN_S, self._ring, moment)
            slot = self._slots[moment] = _Slot(timer)
        waiter = loop.create_future()
        slot.waiters.add(waiter)
        try:
            await waiter
        finally:
            slot.waiters.discard(waiter)
            if not slot.waiters and self._slots.get(moment) is slot:
                # The last one was cancelled.
                slot.timer.cancel()
                del self._slots[moment]

    def _ring(self, moment: int) -> None:
        for waiter in self._slots.pop(moment).waiters:
            if not waiter.done():
                waiter.set_result(None)


_GRIDS: WeakKeyDictionary[asyncio.AbstractEventLoop, Grid] = WeakKeyDictionary()


def grid() -> Grid:
    """That of the running event loop, to be kept by those who sleep often."""
    loop = asyncio.get_running_loop()
    found = _GRIDS.get(loop)
    if found is None:
        found = _GRIDS[loop] = Grid(loop)
    return found
