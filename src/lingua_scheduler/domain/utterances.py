"""Cutting a stream of audio chunks into utterances; sans-IO, the time is handed in."""

from enum import IntEnum
from typing import NamedTuple


class CutReason(IntEnum):
    """Why an utterance ends; of two reasons the later (greater) wins."""

    TIMEOUT = 1
    MAX_DURATION = 2
    IS_FINAL = 3
    MAX_LENGTH = 4

    @property
    def closes_turn(self) -> bool:
        return self in (CutReason.TIMEOUT, CutReason.IS_FINAL)


class CutRules(NamedTuple):
    pause_ms: int = 3_000
    max_duration_ms: int = 10_000
    max_bytes: int = 512_000
    hangover_auto_ms: int = 150
    hangover_manual_ms: int = 200
    padding_auto_ms: int = 220
    padding_manual_ms: int = 280

    def hangover_ms(self, reason: CutReason) -> int:
        match reason:
            case CutReason.IS_FINAL:
                return self.hangover_manual_ms
            case CutReason.MAX_LENGTH:
                return 0
            case _:
                return self.hangover_auto_ms

    def padding_ms(self, reason: CutReason) -> int:
        return self.padding_manual_ms if reason is CutReason.IS_FINAL else self.padding_auto_ms


class Cut(NamedTuple):
    """One finished utterance."""

    utterance_index: int
    turn: int
    audio: bytes
    duration_ms: int
    reason: CutReason
    padding_ms: int


class Cutter:
    """Collects chunks; every call returns the utterances it finished.

    A chunk within the hangover after a final still belongs to the utterance being finalised: browsers
    send the final a few milliseconds before the last chunk.
    """

    def __init__(self, rules: CutRules) -> None:
        self._rules = rules
        self._next_index = 0
        self._turn = 0
        self._parts: list[bytes] = []
        self._bytes = 0
        self._duration_ms = 0
        self._last_chunk_ms = 0.0
        self._ending: CutReason | None = None
        self._take_at_ms = 0.0

    @property
    def held_bytes(self) -> int:
        return self._bytes

    @property
    def next_index(self) -> int:
        return self._next_index

    @property
    def wake_at_ms(self) -> float | None:
        """When `tick` is due; None while there is nothing to end."""
        if not self._parts:
            return None
        if self._ending is not None:
            return self._take_at_ms
        return self._last_chunk_ms + self._rules.pause_ms

    def chunk(self, audio: bytes, duration_ms: int, now_ms: float) -> list[Cut]:
        cuts = self.tick(now_ms)
        if not audio:
            return cuts
        if self._ending is CutReason.TIMEOUT:
            # Speech that resumes after a pause starts the next utterance.
            cuts += self._take()
        self._parts.append(audio)
        self._bytes += len(audio)
        self._duration_ms += duration_ms
        self._last_chunk_ms = now_ms
        if self._bytes >= self._rules.max_bytes:
            cuts += self._end(CutReason.MAX_LENGTH, now_ms)
        elif self._duration_ms >= self._rules.max_duration_ms:
            cuts += self._end(CutReason.MAX_DURATION, now_ms)
        return cuts

    def final(self, now_ms: float) -> list[Cut]:
        cuts = self.tick(now_ms)
        if self._parts:
            cuts += self._end(CutReason.IS_FINAL, now_ms)
        return cuts

    def tick(self, now_ms: float) -> list[Cut]:
        """Let time pass: a pause or a hangover may have run out."""
        if not self._parts:
            return []
        if self._ending is None and now_ms >= self._last_chunk_ms + self._rules.pause_ms:
            return self._end(CutReason.TIMEOUT, now_ms)
        if self._ending is not None and now_ms >= self._take_at_ms:
            return self._take()
        return []

    def flush(self) -> list[Cut]:
        """Nothing more will come: what was said is an utterance."""
        if not self._parts:
            return []
        self._ending = max(self._ending or CutReason.TIMEOUT, CutReason.IS_FINAL)
        return self._take()

    def claim_index(self, index: int) -> int:
        """A whole utterance arrives with its own number; what is cut next is numbered after it."""
        self._next_index = max(self._next_index, index + 1)
        return self._turn

    def close_turn(self) -> None:
        self._turn += 1

    def _end(self, reason: CutReason, now_ms: float) -> list[Cut]:
        if self._ending is None or reason > self._ending:
            self._ending = reason
            self._take_at_ms = now_ms + self._rules.hangover_ms(reason)
        return self._take() if now_ms >= self._take_at_ms else []

    def _take(self) -> list[Cut]:
        reason = self._ending or CutReason.TIMEOUT
        audio = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        cut = Cut(
            utterance_index=self._next_index,
            turn=self._turn,
            audio=audio,
            duration_ms=self._duration_ms,
            reason=reason,
            padding_ms=self._rules.padding_ms(reason),
        )
        self._next_index += 1
        if reason.closes_turn:
            self._turn += 1
        self._parts = []
        self._bytes = self._duration_ms = 0
        self._ending = None
        return [cut]
