"""Sound as engines see it: PCM16 samples with their rate."""

import sys
from array import array
from itertools import accumulate
from math import gcd
from typing import Any, NamedTuple, Self

# Sample rate of clients, for sending and playback; speech of other rates is resampled.
SAMPLE_RATE = 16_000
# How much a client sends at a time.
CHUNK_MS = 200
CHUNK_BYTES = SAMPLE_RATE * 2 * CHUNK_MS // 1000


def printed(record: Any) -> str:
    """A named tuple as text, with the length of sound in place of its bytes, which would fill the screen."""
    shown = (
        f"{name}=<{len(one)} bytes>" if isinstance(one, bytes) else f"{name}={one!r}"
        for name, one in record._asdict().items()
    )
    return f"{type(record).__name__}({', '.join(shown)})"


class Audio(NamedTuple):
    """One voice: `samples` are 16-bit little-endian."""

    samples: bytes
    sample_rate: int = SAMPLE_RATE

    def __repr__(self) -> str:
        return printed(self)

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
    """Linear between neighbours, after an average over what one output sample stands for when the rate goes down.

    Output samples that lie equally far between their neighbours are made together, which is several times as fast.
    """
    if rate == wanted_rate or not samples:
        return samples
    common = gcd(rate, wanted_rate)
    down, up = rate // common, wanted_rate // common
    means = _means(samples, max(1, round(rate / wanted_rate)))
    means.append(means[-1])
    count = len(samples) * wanted_rate // rate
    out = array("h", bytes(2 * count))
    for phase in range(min(up, count)):
        left, part = divmod(phase * down, up)
        places = len(range(phase, count, up))
        made = means[left::down][:places]
        if part:
            pairs = zip(made, means[left + 1 :: down], strict=False)
            made = array("h", [before + (after - before) * part // up for before, after in pairs])
        out[phase::up] = made
    return out


def _means(samples: "array[int]", span: int) -> "array[int]":
    """Of each sample and those before it, `span` of them in all."""
    if span == 1:
        return samples[:]
    sums = list(accumulate(samples, initial=0))
    first = array("h", [sums[count] // count for count in range(1, min(span, len(samples) + 1))])
    return first + array("h", [(after - before) // span for before, after in zip(sums, sums[span:], strict=False)])


def from_little_endian(pcm16: bytes) -> "array[int]":
    samples = array("h", pcm16[: len(pcm16) // 2 * 2])
    if sys.byteorder == "big":
        samples.byteswap()
    return samples


def to_little_endian(samples: "array[int]") -> bytes:
    if sys.byteorder == "big":
        samples.byteswap()
    return samples.tobytes()
