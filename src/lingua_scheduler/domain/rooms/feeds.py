"""What the listeners of one language get at one instance: outcomes in the order of the room, each once."""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from typing import Generic, NamedTuple, TypeVar

from lingua_scheduler.domain.sessions.ordering import Ordering, Released

T = TypeVar("T")
L = TypeVar("L")


class RoomUtterance(NamedTuple):
    """An utterance of a member, which has ended. `seq` is its number in the room."""

    seq: int
    speaker: str
    utterance_index: int
    # The language that was spoken, and those that get an outcome.
    source: str
    languages: tuple[str, ...]
    # Languages that listeners asked for → those of the outcomes that they get, where nodes serve them by another tag.
    read_as: Mapping[str, str] = {}


class FeedOutcome(NamedTuple, Generic[T, L]):
    """An outcome that may be delivered now, to these listeners; a late one was overtaken by a later one."""

    item: T
    listeners: tuple[L, ...]
    is_late: bool
    # When the speaker had ended.
    said_ms: float = 0.0


class _Announced(NamedTuple, Generic[L]):
    utterance: RoomUtterance
    at_ms: float
    listeners: tuple[L, ...]


class _Nothing(Enum):
    """In the place of an outcome: these listeners get none."""

    NOTHING = auto()


class Feed(Generic[T, L]):
    """`T` is an outcome, `L` a listener. Those who listened when the speaker ended get the outcome.

    Numbers have no gaps. What comes after a gap waits, because what is in it may have been said at another instance.
    """

    __slots__ = ("_announced", "_ordering", "_unknown")

    def __init__(self, hold_ms: int, max_held: int) -> None:
        self._ordering: Ordering[T | _Nothing] = Ordering(hold_ms, max_held)
        self._announced: dict[int, _Announced[L]] = {}
        # Numbers of which nothing is known yet, and since when.
        self._unknown: dict[int, float] = {}

    @property
    def is_idle(self) -> bool:
        return not self._announced and not self._unknown

    @property
    def wake_at_ms(self) -> float | None:
        return self._ordering.wake_at_ms

    def expect(self, seq: int, now_ms: float) -> None:
        """Something was said, and its listeners are not known yet."""
        if self._ordering.expect(seq):
            self._unknown[seq] = now_ms

    def announce(self, utterance: RoomUtterance, listeners: Iterable[L], now_ms: float) -> bool:
        """Its outcome follows. False if it is known already."""
        seq = utterance.seq
        if self._unknown.pop(seq, None) is None and not self._ordering.expect(seq):
            return False
        self._announced[seq] = _Announced(utterance, now_ms, tuple(listeners))
        return True

    def skip(self, seq: int, now_ms: float) -> list[FeedOutcome[T, L]]:
        """What was expected is not for these listeners."""
        if self._unknown.pop(seq, None) is None:
            return []
        return self._due(self._ordering.settle(seq, _Nothing.NOTHING, now_ms))

    def listeners(self, seq: int) -> tuple[L, ...]:
        """Those who wait for an outcome."""
        announced = self._announced.get(seq)
        return () if announced is None else announced.listeners

    def admit(self, listener: L, is_for: Callable[[RoomUtterance], bool]) -> None:
        """One who came from another instance also waits for what was announced before it came."""
        for seq, announced in self._announced.items():
            if is_for(announced.utterance):
                self._announced[seq] = announced._replace(listeners=(*announced.listeners, listener))

    def settle(self, seq: int, item: T, now_ms: float) -> list[FeedOutcome[T, L]]:
        """An outcome is there; it was announced. A second one releases nothing."""
        return self._due(self._ordering.settle(seq, item, now_ms))

    def tick(self, now_ms: float) -> list[FeedOutcome[T, L]]:
        return self._due(self._ordering.tick(now_ms))

    def overdue(self, before_ms: float) -> list[RoomUtterance]:
        """What was announced before, and has no outcome."""
        return [
            announced.utterance
            for seq, announced in self._announced.items()
            if announced.at_ms < before_ms and not self._ordering.is_settled(seq)
        ]

    def unknown(self, before_ms: float) -> list[int]:
        """What was expected before, and never announced."""
        return [seq for seq, at_ms in self._unknown.items() if at_ms < before_ms]

    def _due(self, released: Iterable[Released[T | _Nothing]]) -> list[FeedOutcome[T, L]]:
        due: list[FeedOutcome[T, L]] = []
        for place in released:
            if not isinstance(place.item, _Nothing):
                announced = self._announced.pop(place.utterance_index)
                due.append(FeedOutcome(place.item, announced.listeners, place.is_late, announced.at_ms))
        return due
