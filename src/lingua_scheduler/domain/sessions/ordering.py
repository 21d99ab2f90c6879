"""Ordered delivery: outcomes are released in the order of their utterances. A late one is overtaken, never dropped."""

from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

# How far behind the newest an utterance may come.
WINDOW = 256


class Released(NamedTuple, Generic[T]):
    """One outcome that may be delivered now; a late one was overtaken by that of a later utterance."""

    utterance_index: int
    item: T
    is_late: bool = False


class _Place(Generic[T]):
    __slots__ = ("hold_ms", "item", "ready_at_ms")

    def __init__(self, hold_ms: int) -> None:
        # How long later outcomes wait for this one.
        self.hold_ms = hold_ms
        self.item: T | None = None
        self.ready_at_ms = 0.0


class Ordering(Generic[T]):
    """Releases every expected utterance exactly once, in order, unless it was overtaken."""

    __slots__ = ("_gone", "_held", "_highest", "_hold_ms", "_max_held", "_overtaken", "_places")

    def __init__(self, hold_ms: int, max_held: int) -> None:
        self._hold_ms = hold_ms
        self._max_held = max_held
        self._places: dict[int, _Place[T]] = {}
        # Utterances under way that nothing waits for any more.
        self._overtaken: set[int] = set()
        self._held = 0
        self._highest = -1
        # Those that left, as far back as a straggler may still come.
        self._gone: set[int] = set()

    def __len__(self) -> int:
        return len(self._places) + len(self._overtaken)

    def __contains__(self, index: object) -> bool:
        """Whether it is under way."""
        return index in self._places or index in self._overtaken

    @property
    def wake_at_ms(self) -> float | None:
        """When `tick` is due: the first outcome that is ready has waited long enough for the first that is not."""
        if not self._held:
            return None
        first_ready_ms = min(place.ready_at_ms for place in self._places.values() if place.item is not None)
        return first_ready_ms + next(iter(self._places.values())).hold_ms

    def is_settled(self, index: int) -> bool:
        """Whether its outcome is there, and waits for those before it."""
        place = self._places.get(index)
        return place is not None and place.item is not None

    def is_too_far_ahead(self, index: int) -> bool:
        """One stray number must not push all others out of the window; the first may be any."""
        return 0 <= self._highest < index - WINDOW

    def expect(self, index: int) -> bool:
        """Announce an utterance; False when it is under way, has left already, or is too far behind to tell."""
        if index in self or index in self._gone or index <= self._highest - WINDOW:
            return False
        self._places[index] = _Place(self._hold_ms)
        if index < self._highest:
            # Whole utterances may arrive out of order; their results still leave in order.
            self._places = dict(sorted(self._places.items()))
        if index > self._highest:
            self._highest = index
            if len(self._gone) > 2 * WINDOW:
                self._gone = {gone for gone in self._gone if gone > index - WINDOW}
        return True

    def hold_at_most(self, index: int, hold_ms: int) -> None:
        """Later outcomes wait no longer than this for it."""
        place = self._places.get(index)
        if place is not None:
            place.hold_ms = min(place.hold_ms, hold_ms)

    def settle(self, index: int, item: T, now_ms: float) -> list[Released[T]]:
        """An outcome is there. A second one releases nothing."""
        if index in self._overtaken:
            self._overtaken.discard(index)
            self._gone.add(index)
            return [Released(index, item, is_late=True)]
        place = self._places.get(index)
        if place is None or place.item is not None:
            return []
        place.item = item
        place.ready_at_ms = now_ms
        self._held += 1
        released = list(self._ready())
        while self._held > self._max_held:
            released += self._overtake_first()
        return released

    def tick(self, now_ms: float) -> list[Released[T]]:
        released: list[Released[T]] = []
        while (wake_at_ms := self.wake_at_ms) is not None and now_ms >= wake_at_ms:
            released += self._overtake_first()
        return released

    def _overtake_first(self) -> Iterator[Released[T]]:
        index = next(iter(self._places))
        del self._places[index]
        self._overtaken.add(index)
        return self._ready()

    def _ready(self) -> Iterator[Released[T]]:
        while self._places:
            index, place = next(iter(self._places.items()))
            if place.item is None:
                return
            del self._places[index]
            self._gone.add(index)
            self._held -= 1
            yield Released(index, place.item)
