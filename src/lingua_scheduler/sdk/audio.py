"""Sound as engines see it: PCM16 samples with their rate."""

import sys
from array import array
from itertools import accumulate
from typing import NamedTuple, Self

# What clients send, and what they play whatever the voice's own rate is.
SAMPLE_RATE = 16_000
# How much a client sends at a time.
CHUNK_MS = 200
CHUNK_BYTES = SAMPLE_RATE * 2 * CHUNK_MS // 1000


class Audio(NamedTuple):
    """One voice: `samples` are 16-bit little-endian."""

    samples: bytes
    sample_rate: int = SAMPLE_RATE

    @property
    def seconds(self) -> float:
        return len(self.samples) / 2 / self.sample_rate

    def at(self, sample_rate: int) -> Self:
        """The same sound at another rate."""
        if sample_rate == self.sample_rate:
            return self
        samples = resampled(from_little_endian(self.samples), self.sample_rate, sample_rate)
        return self._replace(samples=to_little_endian(samples), sample_rate=sample_rate)


def resampled(samples: "array[int]", rate: int, wanted_rate: int = SAMPLE_RATE) -> "array[int]":
    """Linear between neighbours, after an average over what one output sample stands for when the rate goes down."""
    if rate == wanted_rate or not samples:
        return samples
    step = rate / wanted_rate
    span = max(1, round(step))
    sums = list(accumulate(samples, initial=0))
    last = len(samples) - 1

    def mean(end: int) -> int:
        begin = max(0, end - span + 1)
        return (sums[end + 1] - sums[begin]) // (end + 1 - begin)

    out = array("h")
    for i in range(int(len(samples) / step)):
        place = i * step
        left = int(place)
        before = mean(left)
        out.append(int(before + (mean(min(left + 1, last)) - before) * (place - left)))
    return out


def from_little_endian(pcm16: bytes) -> "array[int]":
    samples = array("h", pcm16[: len(pcm16) // 2 * 2])
    if sys.byteorder == "big":
        samples.byteswap()
    return samples


def to_little_endian(samples: "array[int]") -> bytes:
    if sys.byteorder == "big":
        samples.byteswap()
    return samples.tobytes()
