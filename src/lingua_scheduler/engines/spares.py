"""Things that only one thread may use at a time: as many as are used at once, made when none is free."""

import queue
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


class Spares(Generic[T]):
    """There are never more than threads that ask, so a node's slots are the limit."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._free: queue.LifoQueue[T] = queue.LifoQueue()

    def prepare(self, count: int) -> None:
        """Have so many ready before the first is asked for."""
        for _ in range(count - self._free.qsize()):
            self._free.put(self._make())

    @contextmanager
    def one(self) -> Iterator[T]:
        """Given back after use, unless it failed: who knows what state it is in."""
        try:
            spare = self._free.get_nowait()
        except queue.Empty:
            spare = self._make()
        yield spare
        self._free.put(spare)
