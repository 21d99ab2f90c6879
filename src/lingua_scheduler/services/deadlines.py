"""Deadlines that are seldom reached: those of one moment share a timer of the loop, and may ring a little late."""

import asyncio
from typing import Protocol

# A timer of the loop costs as much as the rest of waiting; nobody minds a deadline that is this much later.
GRAIN_S = 0.02


class Ringing(Protocol):
    def ring(self) -> None: ...


class Deadlines:
    def __init__(self) -> None:
        self._moments: dict[int, dict[Ringing, None]] = {}

    def set(self, timeout_s: float, bell: Ringing) -> int:
        """The moment at which it rings, to be given back if it need not."""
        loop = asyncio.get_running_loop()
        moment = int((loop.time() + timeout_s) / GRAIN_S) + 1
        bells = self._moments.get(moment)
        if bells is None:
            bells = self._moments[moment] = {}
            loop.call_at(moment * GRAIN_S, self._ring, moment)
        bells[bell] = None
        return moment

    def clear(self, moment: int, bell: Ringing) -> None:
        bells = self._moments.get(moment)
        if bells is not None:
            bells.pop(bell, None)

    def _ring(self, moment: int) -> None:
        for bell in self._moments.pop(moment):
            bell.ring()
