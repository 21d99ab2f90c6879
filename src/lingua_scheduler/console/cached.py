"""A page that changes all the time and costs CPU to make: beyond a share of a core whoever asks gets the last one."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic, thread_time

from lingua_scheduler.domain.guards.rates import Bucket

# So much of a core may go into making it, and so many seconds of CPU at once: nobody but a flood comes near it.
CPU_SHARE = 0.1
CPU_BURST_S = 0.25


class Cached:
    """Made anew for whoever asks, as long as that is cheap."""

    def __init__(
        self,
        make: Callable[[], Awaitable[bytes]],
        clock: Callable[[], float] = monotonic,
        cpu_clock: Callable[[], float] = thread_time,
    ) -> None:
        self._make = make
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._cpu = Bucket(CPU_SHARE, CPU_BURST_S)
        self._latest: bytes | None = None
        # Those who ask while it is being made would each make another.
        self._making = asyncio.Lock()

    async def get(self) -> bytes:
        async with self._making:
            if self._latest is None or not self._cpu.take(0, self._clock()):
                began_s = self._cpu_clock()
                self._latest = await self._make()
                self._cpu.take(self._cpu_clock() - began_s, self._clock())
            return self._latest
