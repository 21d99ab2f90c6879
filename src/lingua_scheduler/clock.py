"""The clock of a process. `app.py` hands it in; services and the store read no other.

A test hands in its own and moves it, instead of sleeping.
"""

import time
from collections.abc import Callable
from typing import TypeAlias

# Monotonic seconds, on the scale of the event loop's timers. A plain function: reading it costs one call.
Clock: TypeAlias = Callable[[], float]
SYSTEM_CLOCK: Clock = time.monotonic
# The event loop's timers count milliseconds. Less cannot be waited for: a loop that tried would spin.
LEAST_WAIT_S = 0.001


def wall_ms() -> float:
    """Milliseconds since the epoch, for peers and people to read. Only the expiry of credentials is decided by it."""
    return time.time() * 1000
