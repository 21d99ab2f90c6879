"""Notices when this process stood still: frozen, suspended with its machine, or starved of a core."""

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.telemetry import ticks

# The event loop beats this often.
BEAT_S = 0.25
# Without a beat for so long the process stood still, and others may have taken it for dead.
STOOD_STILL_S = 1.0
# What was read before it stood still is handled within this time after it.
CATCHING_UP_S = 2.0


class Pulse:
    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._beaten_at_s = clock()
        self._catches_up_until_s = 0.0

    @property
    def is_behind(self) -> bool:
        """Whether what arrives now may have waited here while others went on without us."""
        now_s = self._clock()
        return now_s < self._catches_up_until_s or now_s - self._beaten_at_s > STOOD_STILL_S

    def beat(self) -> None:
        now_s = self._clock()
        if now_s - self._beaten_at_s > STOOD_STILL_S:
            self._catches_up_until_s = now_s + CATCHING_UP_S
        self._beaten_at_s = now_s

    async def keep_beating(self) -> None:
        grid = ticks.grid()
        while True:
            self.beat()
            await grid.sleep(BEAT_S)
