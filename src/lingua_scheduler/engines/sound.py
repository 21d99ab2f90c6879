"""Samples as models want them, and as people hear them."""

import importlib
from array import array
from typing import Any

from lingua_scheduler.sdk.audio import SAMPLE_RATE, Audio, from_little_endian, to_little_endian

FULL_SCALE = 32_768
_TAPS = 31


def floats(audio: Audio) -> list[float]:
    """Between -1 and 1."""
    return [sample / FULL_SCALE for sample in from_little_endian(audio.samples)]


def pcm16(samples: list[float]) -> bytes:
    return to_little_endian(
        array("h", (max(-FULL_SCALE, min(FULL_SCALE - 1, round(sample * FULL_SCALE))) for sample in samples))
    )


def played(audio: Audio) -> Audio:
    """At the rate that clients play, by numpy where an engine has brought it: a tenth of the time it takes without.

    What would be too high for the lower rate is taken out first, or it would come back as a whistle.
    """
    if audio.sample_rate <= SAMPLE_RATE or not audio.samples:
        return audio
    try:
        numpy: Any = importlib.import_module("numpy")
    except ImportError:
        return audio
    samples = numpy.frombuffer(audio.samples, "<i2").astype(numpy.float32)
    share = SAMPLE_RATE / audio.sample_rate
    low_pass = numpy.sinc((numpy.arange(_TAPS) - _TAPS // 2) * share) * numpy.hamming(_TAPS)
    smooth = numpy.convolve(samples, low_pass / low_pass.sum(), mode="same")
    places = numpy.arange(int(len(samples) * share)) / share
    made = numpy.interp(places, numpy.arange(len(smooth)), smooth)
    return Audio(numpy.clip(made.round(), -FULL_SCALE, FULL_SCALE - 1).astype("<i2").tobytes(), SAMPLE_RATE)
