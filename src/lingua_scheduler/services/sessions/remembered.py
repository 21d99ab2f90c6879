"""Outcomes remembered for clients that may come back: bounded for each session, and in sum over all of them."""

import heapq
import sys
from collections import deque
from collections.abc import Callable, Iterator
from time import monotonic

import msgspec

from lingua_scheduler.protocol.session import MissingResult, TranslationResult
from lingua_scheduler.telemetry import metrics

# What an utterance is answered with: a result, or the word that there is none.
Answer = TranslationResult | MissingResult
# To ask whether a message is one; a tuple is quicker to ask than a union.
ANSWERS = TranslationResult, MissingResult

# What one session remembers: more outcomes than can be under way, and so much speech and text.
MAX_REMEMBERED = 512
MAX_REMEMBERED_BYTES = 1_000_000
# After this long on a socket that still answers pings, what was sent on it has arrived.
ARRIVED_AFTER_S = 60.0
# Of an outcome without its texts.
ENVELOPE_BYTES = 1_024
# What a value takes in memory beyond its text as JSON; each has one of these marks before or after it.
VALUE_BYTES = 64
_MARKS = (b",", b":", b"[", b"{")
_SHORT_BYTES = 256

# When all sessions remember too much, they forget a little more than they must: finding the oldest looks at each.
_ROOM = 0.9

_FORGOTTEN = metrics.by(metrics.FORGOTTEN, "speech", "outcome")


class Memory:
    """What all sessions of the process remember. When it is full, the oldest lose their speech, then go altogether."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        # Those that remember something.
        self._owners: set[Remembered] = set()
        self.held_bytes = 0
        metrics.REMEMBERED_BYTES.set_function(lambda: self.held_bytes)

    def __len__(self) -> int:
        return sum(map(len, self._owners))

    def enter(self, owner: "Remembered") -> None:
        self._owners.add(owner)

    def leave(self, owner: "Remembered") -> None:
        self._owners.discard(owner)

    def make_room(self) -> None:
        self._take_oldest(Remembered.oldest_spoken_s, Remembered.strip, "speech")
        self._take_oldest(Remembered.oldest_s, Remembered.pop, "outcome")

    def _take_oldest(
        self,
        oldest_s: Callable[["Remembered"], float | None],
        take: Callable[["Remembered"], object],
        what: str,
    ) -> None:
        """From whoever has the oldest, again and again, until there is room or nothing left."""
        if self.held_bytes <= self.max_bytes:
            return
        oldest = [(at_s, id(owner), owner) for owner in self._owners if (at_s := oldest_s(owner)) is not None]
        heapq.heapify(oldest)
        while oldest and self.held_bytes > self.max_bytes * _ROOM:
            owner = oldest[0][2]
            take(owner)
            _FORGOTTEN[what].inc()
            if (at_s := oldest_s(owner)) is None:
                heapq.heappop(oldest)
            else:
                heapq.heapreplace(oldest, (at_s, id(owner), owner))


class _Kept:
    __slots__ = ("at_s", "outcome", "size", "speech")

    def __init__(self, outcome: Answer, size: int, speech: int) -> None:
        self.at_s = monotonic()
        self.outcome = outcome
        # In bytes: all of it, and of that its speech.
        self.size = size
        self.speech = speech


class Remembered:
    """The latest outcomes of one session: when it is too much, the oldest keep their text alone, then go."""

    __slots__ = ("_bytes", "_kept", "_memory", "_mute")

    def __init__(self, memory: Memory) -> None:
        self._memory: Memory | None = memory
        # Made with the first outcome: many sessions never have one.
        self._kept: deque[_Kept] | None = None
        # So many of the first have no speech.
        self._mute = 0
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept or ())

    def __iter__(self) -> Iterator[Answer]:
        return (kept.outcome for kept in list(self._kept or ()))

    def add(self, outcome: Answer) -> None:
        memory = self._memory
        if memory is None:
            return
        if self._kept is None:
            self._kept = deque()
        if not self._kept:
            memory.enter(self)
        speech = len(outcome.tts_audio) if isinstance(outcome, TranslationResult) else 0
        size = _size_of_text(outcome) + speech
        self._kept.append(_Kept(outcome, size, speech))
        self._bytes += size
        memory.held_bytes += size
        if len(self._kept) > MAX_REMEMBERED:
            self.pop()
        if self._bytes > MAX_REMEMBERED_BYTES:
            self._make_room()
        if memory.held_bytes > memory.max_bytes:
            memory.make_room()

    def first(self) -> Answer | None:
        return self._kept[0].outcome if self._kept else None

    def pop(self) -> Answer:
        """The oldest; there must be one."""
        assert self._kept
        kept = self._kept.popleft()
        if self._mute:
            self._mute -= 1
        self._forget_bytes(kept.size)
        if not self._kept and self._memory is not None:
            self._memory.leave(self)
        return kept.outcome

    def strip(self) -> None:
        """The oldest that has speech loses it. A copy does: the one that is being written to a socket keeps it."""
        kept = self._oldest_spoken()
        if kept is not None and isinstance(kept.outcome, TranslationResult):
            kept.outcome = msgspec.structs.replace(kept.outcome, tts_audio="")
            kept.size -= kept.speech
            self._forget_bytes(kept.speech)
            kept.speech = 0

    def oldest_s(self) -> float | None:
        return self._kept[0].at_s if self._kept else None

    def oldest_spoken_s(self) -> float | None:
        kept = self._oldest_spoken()
        return None if kept is None else kept.at_s

    def forget_arrived(self) -> None:
        arrived_s = monotonic() - ARRIVED_AFTER_S
        while self._kept and self._kept[0].at_s < arrived_s:
            self.pop()

    def close(self) -> None:
        """Nobody comes back: forget everything, and whatever comes later."""
        while self._kept:
            self.pop()
        self._memory = None

    def _oldest_spoken(self) -> _Kept | None:
        if self._kept is None:
            return None
        while self._mute < len(self._kept):
            kept = self._kept[self._mute]
            if kept.speech:
                return kept
            self._mute += 1
        return None

    def _make_room(self) -> None:
        """The latest stays whole, whatever it takes."""
        assert self._kept
        latest = self._kept[-1]
        while self._bytes > MAX_REMEMBERED_BYTES and self._oldest_spoken() not in (None, latest):
            self.strip()
        while self._bytes > MAX_REMEMBERED_BYTES and len(self._kept) > 1:
            self.pop()

    def _forget_bytes(self, size: int) -> None:
        self._bytes -= size
        if self._memory is not None:
            self._memory.held_bytes -= size


def _size_of_text(outcome: Answer) -> int:
    if isinstance(outcome, MissingResult):
        return ENVELOPE_BYTES
    size = ENVELOPE_BYTES + sys.getsizeof(outcome.text_asr) + sys.getsizeof(outcome.text_translated)
    for more in (outcome.extra, outcome.reason_codes, outcome.segments_meta):
        if more is not None:
            # It may be of any shape.
            written = msgspec.json.encode(more)
            size += len(written)
            if len(written) > _SHORT_BYTES:
                size += VALUE_BYTES * sum(map(written.count, _MARKS))
    return size
