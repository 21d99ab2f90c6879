"""Cheap deadlines: those of about the same time share one event-loop timer, and may fire a little late."""

import asyncio
from functools import cached_property
from typing import Protocol

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock

# An event-loop timer costs as much as the rest of waiting; a deadline may be late by this much.
GRAIN_S = 0.02


class Ringing(Protocol):
    def ring(self) -> None: ...


class Deadlines:
    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._moments: dict[int, dict[Ringing, None]] = {}

    @cached_property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Kept, because looking it up costs a call of the system each time."""
        return asyncio.get_running_loop()

    def set(self, timeout_s: float, bell: Ringing) -> int:
        """The moment at which it rings, to be given back if it need not."""
        now_s = self._clock()
        moment = int((now_s + timeout_s) / GRAIN_S) + 1
        bells = self._moments.get(moment)
        if bells is None:
            bells = self._moments[moment] = {}
            self.loop.call_later(moment * GRAIN_S - now_s, self._ring, moment)
        bells[bell] = None
        return moment

    def clear(self, moment: int, bell: Ringing) -> None:
        bells = self._moments.get(moment)
        if bells is not None:
            bells.pop(bell, None)

    def _ring(self, moment: int) -> None:
        for bell in self._moments.pop(moment):
            bell.ring()
