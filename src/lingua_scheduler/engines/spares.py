"""A pool of objects that only one thread may use at a time; it grows when none is free."""

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


class Spares(Generic[T]):
    """There are never more than threads that ask, so a node's slots are the limit."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        # One at a time: libraries load themselves with the first object, and not all of them expect two threads then.
        self._making = threading.Lock()
        self._free: queue.LifoQueue[T] = queue.LifoQueue()

    def prepare(self, count: int) -> None:
        """Create this many in advance."""
        for _ in range(count - self._free.qsize()):
            self._free.put(self._made())

    @contextmanager
    def one(self) -> Iterator[T]:
        """Given back after use, unless it failed: who knows what state it is in."""
        try:
            spare = self._free.get_nowait()
        except queue.Empty:
            spare = self._made()
        yield spare
        self._free.put(spare)

    def _made(self) -> T:
        with self._making:
            return self._make()
