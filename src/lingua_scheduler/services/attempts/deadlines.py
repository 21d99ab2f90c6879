"""Deadlines that are seldom reached: those of one moment share a timer of the loop, and may ring a little late."""

import asyncio
from functools import cached_property
from typing import Protocol

# A timer of the loop costs as much as the rest of waiting; nobody minds a deadline that is this much later.
GRAIN_S = 0.02


class Ringing(Protocol):
    def ring(self) -> None: ...


class Deadlines:
    def __init__(self) -> None:
        self._moments: dict[int, dict[Ringing, None]] = {}

    @cached_property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Kept, because looking it up costs a call of the system each time."""
        return asyncio.get_running_loop()

    def set(self, timeout_s: float, bell: Ringing) -> int:
        """The moment at which it rings, to be given back if it need not."""
        moment = int((self.loop.time() + timeout_s) / GRAIN_S) + 1
        bells = self._moments.get(moment)
        if bells is None:
            bells = self._moments[moment] = {}
            self.loop.call_at(moment * GRAIN_S, self._ring, moment)
        bells[bell] = None
        return moment

    def clear(self, moment: int, bell: Ringing) -> None:
        bells = self._moments.get(moment)
        if bells is not None:
            bells.pop(bell, None)

    def _ring(self, moment: int) -> None:
        for bell in self._moments.pop(moment):
            bell.ring()
