"""The recorder of the existing web page: what it sends and when, decided from the time that is handed in."""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from tests.support.field_speech import SILENCE, SLICE_MS, Slice, opus, pcm16

# All of it recorded. A frame of 256 ms is encoded as 13 packets of 20 ms.
FRAME_S = 0.256
FRAME_SLICES = 13
FRAME_PCM_BYTES = 8_192
FINAL_AFTER_S = 3.25
SILENCE_SENT_S = 5.1


class Recorded(NamedTuple):
    audio: bytes
    then_final: bool
    has_speech: bool


class Recorder:
    """Speech, then the room for 5.1 s; a final after 3.25 s, and from then on one after every frame.

    In a loud room it takes the noise for speech: frames go on and no final comes."""

    def __init__(self, room: Slice = SILENCE, *, room_is_loud: bool = False, audio_format: str = "opus") -> None:
        self.room = room
        self.room_is_loud = room_is_loud
        self.audio_format = audio_format
        self._unheard: deque[Slice] = deque()
        self._samples = b""
        self._speech_ended_at: float | None = None
        self._has_ended = False

    @property
    def unheard(self) -> int:
        """Slices of speech that are not yet in a frame."""
        return len(self._unheard)

    @property
    def final_at(self) -> float | None:
        """When the final of this sentence is due."""
        if self._speech_ended_at is None or self._has_ended or self.room_is_loud or self._unheard:
            return None
        return self._speech_ended_at + FINAL_AFTER_S

    def hear(self, slices: Iterable[Slice]) -> None:
        self._unheard.extend(slices)

    def end(self) -> None:
        """The final of this sentence is out."""
        self._has_ended = True

    def rest(self) -> None:
        """Off while speech is played; it begins anew."""
        self._speech_ended_at = None
        self._has_ended = False
        self._samples = b""

    def frame(self, now: float) -> Recorded | None:
        """The frame that is full now; None while nobody speaks."""
        slices = self._next_slices()
        spoken = [place for place, piece in enumerate(slices) if piece.is_speech]
        if spoken:
            self._speech_ended_at = now - FRAME_S * (len(slices) - 1 - spoken[-1]) / max(1, len(slices))
            self._has_ended = False
        if self._speech_ended_at is None:
            return None
        if not self.room_is_loud and now - self._speech_ended_at > SILENCE_SENT_S:
            self.rest()
            return None
        return Recorded(self._encoded(slices), self._has_ended, bool(spoken))

    def _next_slices(self) -> list[Slice]:
        count = FRAME_SLICES
        if self.audio_format != "opus":
            # 12.8 slices a frame: a part of one is left for the next.
            missing = FRAME_PCM_BYTES - len(self._samples)
            count = -(-missing // (32 * SLICE_MS))
        return [self._unheard.popleft() if self._unheard else self.room for _ in range(count)]

    def _encoded(self, slices: list[Slice]) -> bytes:
        if self.audio_format == "opus":
            return opus(slices)
        samples = self._samples + pcm16(slices)
        self._samples = samples[FRAME_PCM_BYTES:]
        return samples[:FRAME_PCM_BYTES]
