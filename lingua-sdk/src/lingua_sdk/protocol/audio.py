"""Audio detection from the bytes: framed Opus or raw PCM16, duration, and speech or silence."""

from operator import mul
from typing import Literal, NamedTuple

OPUS_PACKET_MS = 20
MAX_OPUS_PACKET_BYTES = 1275
_PCM16_SAMPLE_BYTES = 2
_LENGTH_BYTES = 2
# A single loud packet in a long chunk is a click, not speech.
_MANY_PACKETS = 5
# PCM16 is as loud as its loudest twentieth of a second at 16 kHz, of which one sample in so many is looked at. Two
# steps take turns, so that no tone falls between the samples of both.
_BLOCK_SAMPLES = 800
_STEPS = (13, 17)

AudioFormat = Literal["opus", "pcm16"]


def opus_packets(data: bytes | memoryview) -> int | None:
    """How many `[u16 little-endian length][packet]` the bytes hold, or None when they are something else."""
    return _equal_packets(data) or _walk(data)


def _equal_packets(data: bytes | memoryview) -> int:
    """How many, when all are of one length as at a constant bit rate: no walk is needed then. Otherwise 0."""
    end = len(data)
    if end <= _LENGTH_BYTES:
        return 0
    low, high = data[0], data[1]
    step = _LENGTH_BYTES + low + (high << 8)
    if end % step or not _LENGTH_BYTES < step <= _LENGTH_BYTES + MAX_OPUS_PACKET_BYTES:
        return 0
    packets = end // step
    is_equal = data[::step] == bytes((low,)) * packets and data[1::step] == bytes((high,)) * packets
    return packets if is_equal else 0


def _walk(data: bytes | memoryview) -> int | None:
    """How many packets there are; None if this is not framed Opus."""
    end = len(data)
    at = packets = 0
    try:
        while at < end:
            # Byte by byte, because most packets are shorter than 256 bytes and need one comparison then.
            packet_bytes = data[at]
            if high := data[at + 1]:
                packet_bytes += high << 8
                if packet_bytes > MAX_OPUS_PACKET_BYTES:
                    return None
            elif not packet_bytes:
                return None
            at += _LENGTH_BYTES + packet_bytes
            packets += 1
    except IndexError:
        return None
    return packets if at == end else None


def _listen_to_packets(data: bytes, silent_bytes: int) -> tuple[int, int] | None:
    """As `_walk`, and how many of the packets are longer than silence. Apart, because most walks need not know."""
    end = len(data)
    at = packets = loud = 0
    try:
        while at < end:
            packet_bytes = data[at]
            if high := data[at + 1]:
                packet_bytes += high << 8
                if packet_bytes > MAX_OPUS_PACKET_BYTES:
                    return None
            elif not packet_bytes:
                return None
            at += _LENGTH_BYTES + packet_bytes
            packets += 1
            if packet_bytes > silent_bytes:
                loud += 1
    except IndexError:
        return None
    return (packets, loud) if at == end else None


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


class SilenceLevels(NamedTuple):
    """What counts as silence at most; 0 and everything is speech."""

    # Bytes of an Opus packet: an encoder spends few on silence and noise.
    opus_bytes: int
    # Root mean square of PCM16 samples.
    pcm_rms: int


def listen(data: bytes, levels: SilenceLevels) -> tuple[int, bool]:
    """How many milliseconds a chunk of 16 kHz mono lasts, and whether there is speech in it."""
    equal = _equal_packets(data)
    if equal:
        # As at a constant bit rate, or digital silence: one length tells.
        return equal * OPUS_PACKET_MS, len(data) // equal - _LENGTH_BYTES > levels.opus_bytes
    heard = _listen_to_packets(data, levels.opus_bytes)
    if heard is not None:
        packets, loud = heard
        return packets * OPUS_PACKET_MS, loud > 1 or (loud == 1 and packets < _MANY_PACKETS)
    return len(data) // (16 * _PCM16_SAMPLE_BYTES), _is_loud(data, levels.pcm_rms)


def _is_loud(data: bytes, most_rms: int) -> bool:
    samples = memoryview(data)[: len(data) // _PCM16_SAMPLE_BYTES * _PCM16_SAMPLE_BYTES].cast("h")
    most = most_rms * most_rms
    for number, first in enumerate(range(0, len(samples), _BLOCK_SAMPLES)):
        block = samples[first : first + _BLOCK_SAMPLES : _STEPS[number % 2]].tolist()
        if sum(map(mul, block, block)) >= most * len(block):
            return True
    return not samples
