"""Outcomes remembered for clients that may come back: bounded for each session, and in sum over all of them."""

import sys
from collections import OrderedDict
from collections.abc import Iterator
from itertools import count
from time import monotonic

import msgspec

from lingua_scheduler.protocol.session import MissingResult, TranslationResult
from lingua_scheduler.telemetry import metrics

# What an utterance is answered with: a result, or the word that there is none.
Answer = TranslationResult | MissingResult

# What one session remembers: more outcomes than can be under way, and so much speech and text.
MAX_REMEMBERED = 512
MAX_REMEMBERED_BYTES = 1_000_000
# After this long on a socket that still answers pings, what was sent on it has arrived.
ARRIVED_AFTER_S = 60.0
# Of an outcome without its texts.
ENVELOPE_BYTES = 1_024

_FORGOTTEN = metrics.by(metrics.FORGOTTEN, "speech", "outcome")


class Memory:
    """What all sessions of the process remember. When it is full, the oldest lose their speech, then go altogether."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._serials = count()
        # Everything that is remembered, and of that what has speech; the oldest first.
        self._all: OrderedDict[int, Remembered] = OrderedDict()
        self._spoken: OrderedDict[int, Remembered] = OrderedDict()
        self.held_bytes = 0
        metrics.REMEMBERED_BYTES.set_function(lambda: self.held_bytes)

    def __len__(self) -> int:
        return len(self._all)

    def enter(self, owner: "Remembered", size: int, has_speech: bool) -> int:
        """Before it is there: the number to give it."""
        self.held_bytes += size
        serial = next(self._serials)
        self._all[serial] = owner
        if has_speech:
            self._spoken[serial] = owner
        return serial

    def leave(self, serial: int, size: int) -> None:
        self.held_bytes -= size
        del self._all[serial]
        self._spoken.pop(serial, None)

    def fall_silent(self, serial: int, size: int) -> None:
        """It has lost its speech, which took so much."""
        self.held_bytes -= size
        del self._spoken[serial]

    def make_room(self) -> None:
        while self.held_bytes > self._max_bytes and self._all:
            if self._spoken:
                serial, owner = next(iter(self._spoken.items()))
                owner.strip(serial)
                _FORGOTTEN["speech"].inc()
            else:
                serial, owner = next(iter(self._all.items()))
                owner.forget(serial)
                _FORGOTTEN["outcome"].inc()


class _Kept:
    __slots__ = ("at_s", "outcome", "size")

    def __init__(self, outcome: Answer, size: int) -> None:
        self.at_s = monotonic()
        self.outcome = outcome
        self.size = size


class Remembered:
    """The latest outcomes of one session: when it is too much, the oldest keep their text alone, then go."""

    __slots__ = ("_bytes", "_kept", "_memory", "_spoken")

    def __init__(self, memory: Memory) -> None:
        self._memory: Memory | None = memory
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        # Those that have speech.
        self._spoken: OrderedDict[int, None] = OrderedDict()
        self._bytes = 0

    def __iter__(self) -> Iterator[Answer]:
        return (kept.outcome for kept in list(self._kept.values()))

    def add(self, outcome: Answer) -> None:
        if self._memory is None:
            return
        size = _size(outcome)
        has_speech = _speech_of(outcome) > 0
        serial = self._memory.enter(self, size, has_speech)
        self._kept[serial] = _Kept(outcome, size)
        if has_speech:
            self._spoken[serial] = None
        self._bytes += size
        if len(self._kept) > MAX_REMEMBERED:
            self.pop()
        if self._bytes > MAX_REMEMBERED_BYTES:
            self._make_room()
        self._memory.make_room()

    def first(self) -> Answer | None:
        return next(iter(self._kept.values())).outcome if self._kept else None

    def pop(self) -> Answer:
        return self.forget(next(iter(self._kept)))

    def forget(self, serial: int) -> Answer:
        kept = self._kept.pop(serial)
        self._spoken.pop(serial, None)
        self._bytes -= kept.size
        if self._memory is not None:
            self._memory.leave(serial, kept.size)
        return kept.outcome

    def strip(self, serial: int) -> None:
        """Without its speech. A copy: the one that is being written to a socket keeps it."""
        kept = self._kept[serial]
        if isinstance(kept.outcome, TranslationResult) and (size := _speech_of(kept.outcome)):
            kept.outcome = msgspec.structs.replace(kept.outcome, tts_audio="")
            kept.size -= size
            del self._spoken[serial]
            self._bytes -= size
            if self._memory is not None:
                self._memory.fall_silent(serial, size)

    def forget_arrived(self) -> None:
        arrived_s = monotonic() - ARRIVED_AFTER_S
        while self._kept and next(iter(self._kept.values())).at_s < arrived_s:
            self.pop()

    def close(self) -> None:
        """Nobody comes back: forget everything, and whatever comes later."""
        while self._kept:
            self.pop()
        self._memory = None

    def _make_room(self) -> None:
        """The latest stays whole, whatever it takes."""
        latest = next(reversed(self._kept))
        while self._bytes > MAX_REMEMBERED_BYTES and (serial := next(iter(self._spoken), latest)) != latest:
            self.strip(serial)
        while self._bytes > MAX_REMEMBERED_BYTES and (serial := next(iter(self._kept))) != latest:
            self.forget(serial)


def _speech_of(outcome: Answer) -> int:
    return len(outcome.tts_audio) if isinstance(outcome, TranslationResult) else 0


def _size(outcome: Answer) -> int:
    if isinstance(outcome, MissingResult):
        return ENVELOPE_BYTES
    size = ENVELOPE_BYTES + len(outcome.tts_audio)
    size += sys.getsizeof(outcome.text_asr) + sys.getsizeof(outcome.text_translated)
    for more in (outcome.extra, outcome.reason_codes, outcome.segments_meta):
        if more is not None:
            # As JSON: about what it takes, and it may be of any shape.
            size += len(msgspec.json.encode(more))
    return size
