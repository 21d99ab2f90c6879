"""Garbage collection without long pauses: a full collection would stop the event loop while it scans all sessions.

Sessions and jobs leave no cycles behind (tests/telemetry/test_garbage.py), so this is for cycles of libraries."""

import asyncio
import gc
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic

from lingua_scheduler.telemetry import logs

_log = logs.get()

# The generation whose survivors would grow old.
MIDDLE = 1
# Collections of the youngest generation before one of the middle generation, whose pause grows with them. With ten, the
# default of Python, the event loop stood still for 9 to 17 ms every five seconds while 2 000 people spoke. From Python
# 3.14 on the number means something else.
YOUNG_PER_MIDDLE = 2
LOOK_EVERY_S = 30.0
DEEP_EVERY_S = 600.0
# A busy scheduler may be idle for a moment between two jobs; it counts as quiet only if that lasts.
QUIET_LOOKS = 20
QUIET_PAUSE_S = 0.1
# Without a quiet moment everything is looked at only when memory has doubled and grown by this: cycles may be why.
GROWN_BYTES = 2**30


class Tidier:
    """Freezes objects that survive two collections: they are not scanned again until a full collection at a quiet
    moment.

    A frozen object is still freed when its reference count drops to zero; only cycles wait for the full collection.
    """

    def __init__(self, is_quiet: Callable[[], bool], clock: Callable[[], float] = monotonic) -> None:
        self._is_quiet = is_quiet
        self._clock = clock
        self._looked_at_s = clock()
        self._bytes = 0
        self._thresholds = gc.get_threshold()

    def start(self) -> None:
        """What was made to start with is looked at for the last time in a while.

        What is frozen already stays so: a process that runs many schedulers one after the other, as tests do, would
        scan all it holds each time."""
        self._look_at_what_moves()
        gc.callbacks.append(_freeze_survivors)
        if sys.version_info < (3, 14):
            young, _, old = self._thresholds
            gc.set_threshold(young, YOUNG_PER_MIDDLE, old)

    def stop(self) -> None:
        if _freeze_survivors in gc.callbacks:
            gc.callbacks.remove(_freeze_survivors)
            gc.set_threshold(*self._thresholds)

    async def look(self) -> None:
        """Run a full collection if it is due and the loop is quiet, or if memory has grown too much."""
        since_s = self._clock() - self._looked_at_s
        is_quiet = since_s >= DEEP_EVERY_S and await self._stays_quiet()
        if is_quiet or resident_bytes() - self._bytes > max(GROWN_BYTES, self._bytes):
            found = self._look_at_everything()
            took_ms = round((self._clock() - self._looked_at_s) * 1000, 1)
            _log.info("garbage.collected", objects=found, took_ms=took_ms, is_quiet=is_quiet)

    async def _stays_quiet(self) -> bool:
        for _ in range(QUIET_LOOKS):
            if not self._is_quiet():
                return False
            await asyncio.sleep(QUIET_PAUSE_S)
        return self._is_quiet()

    def _look_at_everything(self) -> int:
        gc.unfreeze()
        return self._look_at_what_moves()

    def _look_at_what_moves(self) -> int:
        self._looked_at_s = self._clock()
        found = gc.collect()
        gc.freeze()
        self._bytes = resident_bytes()
        return found


def _freeze_survivors(phase: str, info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] == MIDDLE:
        gc.freeze()


def resident_bytes() -> int:
    """Memory of this process; where only its peak is known, that."""
    if sys.platform == "linux":
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
