"""Outcomes kept for clients that may reconnect: bounded per session, and in total."""

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from sys import getsizeof

import msgspec

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.telemetry import metrics
from lingua_sdk.protocol.session import MissingResult, TranslationResult

# The outcome of an utterance: a result, or a missing result.
Answer = TranslationResult | MissingResult
# To ask whether a message is one; a tuple is quicker to ask than a union.
ANSWERS = TranslationResult, MissingResult

# Limits of one session: more outcomes than can be in progress, and bytes of speech and text.
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
    """The memory of all sessions of the process.

    When it is full, the oldest outcomes lose their speech, then are dropped.
    """

    def __init__(self, max_bytes: int, clock: Clock = SYSTEM_CLOCK) -> None:
        self.clock = clock
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
        """Free the oldest outcomes of any session until there is room or nothing is left."""
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


class _Kept(msgspec.Struct, gc=False, eq=False):
    outcome: Answer
    # In bytes: all of it, and of that its speech.
    size: int
    speech: int
    at_s: float


class Remembered:
    """The latest outcomes of one session. Above its limit the oldest lose their speech, then are dropped."""

    __slots__ = ("_bytes", "_kept", "_memory", "_mute")

    def __init__(self, memory: Memory) -> None:
        self._memory: Memory | None = memory
        # Made with the first outcome: many sessions never have one.
        self._kept: deque[_Kept] | None = None
        # Number of oldest outcomes without speech.
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
        all_kept = self._kept
        if not all_kept:
            if all_kept is None:
                all_kept = self._kept = deque()
            memory.enter(self)
        speech, size = 0, ENVELOPE_BYTES
        if isinstance(outcome, TranslationResult):
            speech = len(outcome.tts_audio)
            size += speech + _size_of_text(outcome)
        all_kept.append(_Kept(outcome, size, speech, memory.clock()))
        self._bytes += size
        memory.held_bytes += size
        if len(all_kept) > MAX_REMEMBERED:
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
        if self._memory is None:
            return
        arrived_s = self._memory.clock() - ARRIVED_AFTER_S
        while self._kept and self._kept[0].at_s < arrived_s:
            self.pop()

    def close(self) -> None:
        """The client will not reconnect: drop everything, also what comes later."""
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
        """The latest outcome keeps its speech, even above the limit."""
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


def _size_of_text(result: TranslationResult) -> int:
    size = getsizeof(result.text_asr) + getsizeof(result.text_translated)
    if result.extra is not None:
        size += _size_of_json(result.extra)
    if result.reason_codes is not None:
        size += _size_of_json(result.reason_codes)
    if result.segments_meta is not None:
        size += _size_of_json(result.segments_meta)
    return size


def _size_of_json(value: object) -> int:
    """Of any shape."""
    written = msgspec.json.encode(value)
    return len(written) + (VALUE_BYTES * sum(map(written.count, _MARKS)) if len(written) > _SHORT_BYTES else 0)
