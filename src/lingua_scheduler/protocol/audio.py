"""Telling framed Opus from raw PCM16, and how long either lasts, from the bytes alone."""

import struct
from typing import Literal

OPUS_PACKET_MS = 20
MAX_OPUS_PACKET_BYTES = 1275
_PCM16_SAMPLE_BYTES = 2
_LENGTH = struct.Struct("<H")

AudioFormat = Literal["opus", "pcm16"]


def opus_packets(data: bytes | memoryview) -> int | None:
    """How many `[u16 little-endian length][packet]` the bytes hold, or None when they are something else."""
    head_bytes, length_at = _LENGTH.size, _LENGTH.unpack_from
    end = len(data)
    at = packets = 0
    while at + head_bytes <= end:
        (packet_bytes,) = length_at(data, at)
        if not 0 < packet_bytes <= MAX_OPUS_PACKET_BYTES:
            return None
        at += head_bytes + packet_bytes
        packets += 1
    return packets if at == end else None


def detect_format(data: bytes | memoryview) -> AudioFormat:
    """Opus when the walk from length to length ends exactly at the end of the bytes, else PCM16."""
    # As lengths, silent, loud and negative samples are impossible, so PCM16 passes for Opus only by a chance
    # that shrinks with every step: judge the whole utterance, because a few samples prove nothing.
    return "pcm16" if opus_packets(data) is None else "opus"


def duration_ms(data: bytes | memoryview, audio_format: str, sample_rate: int = 16_000) -> int:
    """How long the audio lasts. A client may label PCM16 as Opus, so a failed walk is measured as PCM16."""
    packets = opus_packets(data) if audio_format == "opus" else None
    if packets is not None:
        return packets * OPUS_PACKET_MS
    return len(data) * 1000 // (_PCM16_SAMPLE_BYTES * sample_rate)


def measure(data: bytes | memoryview, sample_rate: int = 16_000) -> tuple[AudioFormat, int]:
    """Format and duration in one walk."""
    packets = opus_packets(data)
    if packets is not None:
        return "opus", packets * OPUS_PACKET_MS
    return "pcm16", len(data) * 1000 // (_PCM16_SAMPLE_BYTES * sample_rate)
