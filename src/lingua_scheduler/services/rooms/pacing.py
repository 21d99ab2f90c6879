"""What may be asked for a thousand times a second, and is done once in a while."""

import asyncio
from collections.abc import Callable

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock


class Pacer:
    """Does something when it is asked to: the first time at once, then at most once in `every_s`."""

    def __init__(self, every_s: float, action: Callable[[], None], clock: Clock = SYSTEM_CLOCK) -> None:
        self._every_s = every_s
        self._action = action
        self._clock = clock
        self._done_s = float("-inf")
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_waiting(self) -> bool:
        return self._timer is not None

    def ask(self) -> None:
        if self._timer is not None:
            return
        wait_s = self._done_s + self._every_s - self._clock()
        if wait_s <= 0:
            self._do()
        else:
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._do)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _do(self) -> None:
        self._timer = None
        self._done_s = self._clock()
        self._action()
