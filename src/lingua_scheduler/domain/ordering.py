"""Outcomes leave in the order of their utterances; a late one is waited for, but not for ever."""

from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

# How far behind the newest an utterance may come.
WINDOW = 256


class Released(NamedTuple, Generic[T]):
    """One outcome that may leave now; `item` None is a gap that ran out of time or room."""

    utterance_index: int
    item: T | None
    overflowed: bool = False


class _Place(Generic[T]):
    __slots__ = ("index", "item", "ready_at_ms")

    def __init__(self, index: int) -> None:
        self.index = index
        self.item: T | None = None
        self.ready_at_ms = 0.0


class Ordering(Generic[T]):
    """Every expected utterance is released exactly once, in order of expectation."""

    __slots__ = ("_gone", "_held", "_highest", "_hold_ms", "_max_held", "_places")

    def __init__(self, hold_ms: int, max_held: int) -> None:
        self._hold_ms = hold_ms
        self._max_held = max_held
        self._places: dict[int, _Place[T]] = {}
        self._held = 0
        self._highest = -1
        # Those that left, as far back as a straggler may still come.
        self._gone: set[int] = set()

    def __len__(self) -> int:
        return len(self._places)

    @property
    def wake_at_ms(self) -> float | None:
        """When `tick` is due: the longest waiting outcome has waited enough."""
        if not self._held:
            return None
        return min(place.ready_at_ms for place in self._places.values() if place.item is not None) + self._hold_ms

    def is_too_far_ahead(self, index: int) -> bool:
        """One stray number must not push all others out of the window; the first may be any."""
        return 0 <= self._highest < index - WINDOW

    def expect(self, index: int) -> bool:
        """Announce an utterance; False when it is under way, has left already, or is too far behind to tell."""
        if index in self._places or index in self._gone or index <= self._highest - WINDOW:
            return False
        self._places[index] = _Place(index)
        if index < self._highest:
            # Whole utterances may arrive out of order; their results still leave in order.
            self._places = dict(sorted(self._places.items()))
        if index > self._highest:
            self._highest = index
            if len(self._gone) > 2 * WINDOW:
                self._gone = {gone for gone in self._gone if gone > index - WINDOW}
        return True

    def settle(self, index: int, item: T, now_ms: float) -> list[Released[T]]:
        """An outcome is there. A second one, or one after its gap was filled, releases nothing."""
        place = self._places.get(index)
        if place is None or place.item is not None:
            return []
        place.item = item
        place.ready_at_ms = now_ms
        self._held += 1
        released = list(self._ready())
        while self._held > self._max_held:
            released += self._skip_gap(overflowed=True)
        return released

    def tick(self, now_ms: float) -> list[Released[T]]:
        released: list[Released[T]] = []
        while (wake_at_ms := self.wake_at_ms) is not None and now_ms >= wake_at_ms:
            released += self._skip_gap(overflowed=False)
        return released

    def _skip_gap(self, overflowed: bool) -> list[Released[T]]:
        index = next(iter(self._places))
        self._leave(index)
        return [Released(index, None, overflowed), *self._ready()]

    def _leave(self, index: int) -> None:
        del self._places[index]
        self._gone.add(index)

    def _ready(self) -> Iterator[Released[T]]:
        while self._places:
            index, place = next(iter(self._places.items()))
            if place.item is None:
                return
            self._leave(index)
            self._held -= 1
            yield Released(index, place.item)
