"""Cuts a stream of audio chunks into utterances (endpointing). Sans-IO: the time is passed in."""

from enum import IntEnum
from typing import NamedTuple

# Silence that is kept before speech begins, so that the beginning of a word is not lost.
LEAD_MS = 300
# And in at most this many chunks: some are shorter than a millisecond.
LEAD_CHUNKS = 32
# An utterance is cut after this many chunks, however short they are.
MAX_CHUNKS = 8_192
# A client that sends finals sends one after a pause like ours, but counts from the end of speech it has not sent yet.
FINAL_GRACE_MS = 250
# A loudspeaker that never reports its end must not keep a sentence waiting for ever.
MAX_PLAYBACK_MS = 60_000
# The silence a node is asked to put after an utterance that was cut by itself, or by hand.
PADDING_AUTO_MS = 220
PADDING_MANUAL_MS = 280


class CutReason(IntEnum):
    """Why an utterance ends; of two reasons the later (greater) wins."""

    TIMEOUT = 1
    MAX_DURATION = 2
    IS_FINAL = 3
    MAX_LENGTH = 4

    @property
    def closes_turn(self) -> bool:
        return self in (CutReason.TIMEOUT, CutReason.IS_FINAL)

    @property
    def padding_ms(self) -> int:
        """The silence a node is asked to put after the utterance."""
        return PADDING_MANUAL_MS if self is CutReason.IS_FINAL else PADDING_AUTO_MS


class CutRules(NamedTuple):
    pause_ms: int = 3_000
    max_duration_ms: int = 10_000
    max_bytes: int = 512_000
    hangover_auto_ms: int = 150
    hangover_manual_ms: int = 260
    # A pause after less speech than this ends nothing the first time; 0 turns that off.
    short_merge_ms: int = 0

    def hangover_ms(self, reason: CutReason, silence_ms: int = 0) -> int:
        """How long audio is still awaited; not after a final that came when nothing had been said for as long."""
        match reason:
            case CutReason.IS_FINAL if silence_ms >= self.hangover_manual_ms:
                return 0
            case CutReason.IS_FINAL:
                return self.hangover_manual_ms
            case CutReason.MAX_LENGTH:
                return 0
            case _:
                return self.hangover_auto_ms


class Cut(NamedTuple):
    """One finished utterance."""

    utterance_index: int
    turn: int
    audio: bytes
    duration_ms: int
    reason: CutReason
    padding_ms: int
    # Of how many chunks it was made.
    chunks: int = 1
    # When the first of them came.
    began_at_ms: float = 0.0


class Cutter:
    """Collects chunks; every call returns the utterances it finished.

    An utterance begins with a chunk that has speech in it. Silence before it is forgotten, but for the last moment;
    silence in it and after it is kept, but ends it like a pause in the stream. A chunk within the hangover after a
    final still belongs to the utterance being finalised: browsers send the final a few milliseconds before the last
    chunk.
    """

    __slots__ = (
        "_began_at_ms",
        "_bytes",
        "_duration_ms",
        "_durations_ms",
        "_ending",
        "_next_index",
        "_parts",
        "_pause_ms",
        "_playing_until_ms",
        "_quiet_since_ms",
        "_rules",
        "_sends_finals",
        "_silence_ms",
        "_speech_chunks",
        "_speech_ms",
        "_tail_until_ms",
        "_take_at_ms",
        "_turn",
        "_turn_has_parts",
        "_was_too_short",
    )

    def __init__(self, rules: CutRules) -> None:
        self._rules = rules
        self._pause_ms = rules.pause_ms
        self._next_index = 0
        self._turn = 0
        self._turn_has_parts = False
        self._began_at_ms = 0.0
        self._parts: list[bytes] = []
        self._durations_ms: list[int] = []
        self._bytes = 0
        self._duration_ms = 0
        # Chunks since the first with speech, how long it is from that one to the last with speech, and how much silence
        # came after it.
        self._speech_chunks = 0
        self._speech_ms = 0
        self._silence_ms = 0
        # When the pause began: with the last speech, or when the listener's loudspeaker fell silent after it.
        self._quiet_since_ms = 0.0
        self._playing_until_ms = 0.0
        self._was_too_short = False
        self._sends_finals = False
        self._tail_until_ms = 0.0
        self._ending: CutReason | None = None
        self._take_at_ms = 0.0

    @property
    def held_bytes(self) -> int:
        return self._bytes

    @property
    def held_chunks(self) -> int:
        return len(self._parts)

    @property
    def has_speech(self) -> bool:
        """Whether an utterance has begun."""
        return self._speech_chunks > 0

    @property
    def next_index(self) -> int:
        return self._next_index

    @property
    def turn(self) -> int:
        return self._turn

    @property
    def is_ending(self) -> bool:
        return self._ending is not None

    @property
    def wake_at_ms(self) -> float | None:
        """When `tick` is due; None while there is nothing to end."""
        if not self._speech_chunks:
            return None
        if self._ending is not None:
            return self._take_at_ms
        return self._pause_over_ms

    @property
    def _pause_over_ms(self) -> float:
        quiet_ms, playing_ms = self._quiet_since_ms, self._playing_until_ms
        return (quiet_ms if quiet_ms > playing_ms else playing_ms) + self._pause_ms

    def chunk(self, audio: bytes, duration_ms: int, now_ms: float, is_speech: bool = True) -> list[Cut]:
        cuts = self.tick(now_ms)
        if not audio:
            return cuts
        if not is_speech and not self._speech_chunks:
            self._lead(audio, duration_ms)
            return cuts
        if is_speech:
            if self._ending is CutReason.TIMEOUT:
                # Speech that resumes after a pause starts the next utterance.
                cuts += self._take()
            self._quiet_since_ms = now_ms
        self._add(audio, duration_ms, is_speech)
        if is_speech and now_ms < self._tail_until_ms:
            cuts += self._end(CutReason.IS_FINAL, now_ms)
        if self._speech_chunks == 1:
            # However long it is: the last chunk is kept for the job that ends the turn.
            return cuts
        if self._bytes >= self._rules.max_bytes or self._speech_chunks >= MAX_CHUNKS:
            cuts += self._cut_full(now_ms)
        elif is_speech and self._speech_ms >= self._rules.max_duration_ms:
            cuts += self._end(CutReason.MAX_DURATION, now_ms)
        return cuts

    def final(self, now_ms: float) -> list[Cut]:
        cuts = self.tick(now_ms)
        self._sends_finals = True
        if self._speech_chunks:
            cuts += self._end(CutReason.IS_FINAL, now_ms)
        elif not self._parts:
            # The pause was quicker than the final; the tail that still follows has its final already. A client that
            # sends silence too has no tail: what it says next is new.
            self._tail_until_ms = now_ms + self._rules.hangover_manual_ms
        return cuts

    def tick(self, now_ms: float) -> list[Cut]:
        """Let time pass: a pause or a hangover may have run out."""
        if not self._speech_chunks:
            if self._turn_has_parts and now_ms >= self._pause_over_ms:
                # The last part was followed by silence alone, so nothing is left to close the turn with.
                self._turn += 1
                self._turn_has_parts = False
            return []
        if self._ending is None and now_ms >= self._pause_over_ms:
            return self._pause_is_over(now_ms)
        if self._ending is not None and now_ms >= self._take_at_ms:
            return self._take()
        return []

    def playback_started(self, now_ms: float) -> None:
        """While the translation is played the speaker is expected to listen, so silence is no pause, for a while."""
        self._playing_until_ms = now_ms + MAX_PLAYBACK_MS

    def playback_ended(self, now_ms: float) -> None:
        self._playing_until_ms = min(self._playing_until_ms, now_ms)

    def flush(self) -> list[Cut]:
        """Nothing more will come: what was said is an utterance."""
        if not self._speech_chunks:
            return []
        self._ending = CutReason.IS_FINAL
        return self._take()

    def drop(self) -> int:
        """Forget what was said and not cut; how many bytes it was."""
        dropped = self._bytes
        self._clear()
        return dropped

    def begin_at(self, next_index: int, turn: int) -> None:
        """Go on where another cutter ended."""
        self._next_index, self._turn = next_index, turn

    def number_next(self, index: int) -> None:
        self._next_index = max(self._next_index, index)

    def claim_index(self, index: int) -> None:
        """A whole utterance arrives with its own number and is a turn of its own; what is cut next comes after it."""
        self._next_index = max(self._next_index, index + 1)
        self._turn += 1
        self._turn_has_parts = False

    def _pause_is_over(self, now_ms: float) -> list[Cut]:
        is_short = self._duration_ms < self._rules.short_merge_ms
        if is_short and not self._was_too_short and not self._turn_has_parts:
            # Too little to be worth a job: it waits one more pause for what follows.
            self._was_too_short = True
            self._quiet_since_ms = now_ms
            return []
        return self._end(CutReason.TIMEOUT, now_ms)

    def _end(self, reason: CutReason, now_ms: float) -> list[Cut]:
        if self._ending is None or reason > self._ending:
            self._ending = reason
            self._take_at_ms = now_ms + self._rules.hangover_ms(reason, self._silence_ms)
            if reason is CutReason.TIMEOUT and self._sends_finals and not self._silence_ms:
                # Its own final may be on the way, with the tail of the sentence right behind it.
                self._take_at_ms += FINAL_GRACE_MS
        return self._take() if now_ms >= self._take_at_ms else []

    def _cut_full(self, now_ms: float) -> list[Cut]:
        """Too many bytes cannot wait; a final that was under way still ends what is left."""
        was_final = self._ending is CutReason.IS_FINAL
        take_at_ms = self._take_at_ms
        cuts = self._end(CutReason.MAX_LENGTH, now_ms)
        if was_final and self._speech_chunks:
            self._ending, self._take_at_ms = CutReason.IS_FINAL, take_at_ms
        return cuts

    def _lead(self, audio: bytes, duration_ms: int) -> None:
        """Silence before speech: the last moment of it is kept."""
        self._parts.append(audio)
        self._durations_ms.append(duration_ms)
        self._bytes += len(audio)
        self._duration_ms += duration_ms
        while len(self._parts) > 1 and (
            self._duration_ms - self._durations_ms[0] >= LEAD_MS or len(self._parts) > LEAD_CHUNKS
        ):
            self._bytes -= len(self._parts.pop(0))
            self._duration_ms -= self._durations_ms.pop(0)

    def _add(self, audio: bytes, duration_ms: int, is_speech: bool) -> None:
        if not self._speech_chunks:
            self._began_at_ms = self._quiet_since_ms
        self._parts.append(audio)
        self._durations_ms.append(duration_ms)
        self._bytes += len(audio)
        self._duration_ms += duration_ms
        self._speech_chunks += 1
        if is_speech:
            self._speech_ms += self._silence_ms + duration_ms
            self._silence_ms = 0
        else:
            self._silence_ms += duration_ms

    def _clear(self) -> None:
        self._parts, self._durations_ms = [], []
        self._bytes = self._duration_ms = 0
        self._speech_chunks = self._speech_ms = self._silence_ms = 0
        self._ending = None
        self._was_too_short = False

    def _take(self) -> list[Cut]:
        reason = self._ending or CutReason.TIMEOUT
        parts, durations_ms, began_at_ms = self._parts, self._durations_ms, self._began_at_ms
        ends_with_speech = not self._silence_ms
        self._clear()
        if not reason.closes_turn:
            # A turn must end with a job that says so: the last chunk is kept for it, if there is speech in it.
            if ends_with_speech:
                self._add(parts.pop(), durations_ms.pop(), is_speech=True)
            else:
                self._lead(parts.pop(), durations_ms.pop())
        cut = Cut(
            utterance_index=self._next_index,
            turn=self._turn,
            audio=parts[0] if len(parts) == 1 else b"".join(parts),
            duration_ms=sum(durations_ms),
            reason=reason,
            padding_ms=reason.padding_ms,
            chunks=len(parts),
            began_at_ms=began_at_ms,
        )
        self._next_index += 1
        self._turn_has_parts = not reason.closes_turn
        if reason.closes_turn:
            self._turn += 1
        return [cut]
