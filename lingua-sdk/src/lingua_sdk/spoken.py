"""The audio a client has sent, kept to be sent again after a lost connection."""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from lingua_sdk.protocol.session import Utterance

# Two minutes of PCM16; older audio has been translated or is no longer needed.
MAX_REMEMBERED_BYTES = 4_000_000
MAX_REMEMBERED_CHUNKS = 20_000
# Whole utterances under way at once.
MAX_UNANSWERED = 64
MAX_UNANSWERED_BYTES = 8_000_000


class Chunk(NamedTuple):
    seq: int
    audio: bytes
    is_final: bool


class Spoken:
    def __init__(self) -> None:
        self._next_seq = 0
        self._chunks: deque[Chunk] = deque()
        self._chunk_bytes = 0
        self._unanswered: dict[int, Utterance] = {}
        self._utterance_bytes = 0

    @property
    def is_full(self) -> bool:
        """No more chunks can be kept without forgetting some."""
        return self._chunk_bytes >= MAX_REMEMBERED_BYTES or len(self._chunks) >= MAX_REMEMBERED_CHUNKS

    @property
    def has_many_unanswered(self) -> bool:
        return len(self._unanswered) >= MAX_UNANSWERED or self._utterance_bytes >= MAX_UNANSWERED_BYTES

    @property
    def unanswered(self) -> list[Utterance]:
        return list(self._unanswered.values())

    def add_chunk(self, audio: bytes, is_final: bool) -> Chunk:
        """The oldest make room."""
        while self.is_full:
            self._chunk_bytes -= len(self._chunks.popleft().audio)
        chunk = Chunk(self._next_seq, audio, is_final)
        self._next_seq += 1
        self._chunks.append(chunk)
        self._chunk_bytes += len(audio)
        return chunk

    def chunks_from(self, seq: int) -> Iterator[Chunk]:
        """Also those that are added meanwhile."""
        while self._chunks and seq < self._next_seq:
            first = self._chunks[0].seq
            chunk = self._chunks[max(0, seq - first)]
            yield chunk
            seq = chunk.seq + 1

    def add_utterance(self, message: Utterance) -> None:
        self._unanswered[message.utterance_index] = message
        self._utterance_bytes += len(message.audio)

    def answered(self, index: int) -> None:
        message = self._unanswered.pop(index, None)
        if message is not None:
            self._utterance_bytes -= len(message.audio)
