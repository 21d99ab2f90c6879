"""Samples as models want them."""

from array import array

from lingua_sdk.audio import Audio, from_little_endian, to_little_endian

FULL_SCALE = 32_768


def floats(audio: Audio) -> list[float]:
    """Between -1 and 1."""
    return [sample / FULL_SCALE for sample in from_little_endian(audio.samples)]


def pcm16(samples: list[float]) -> bytes:
    return to_little_endian(
        array("h", (max(-FULL_SCALE, min(FULL_SCALE - 1, round(sample * FULL_SCALE))) for sample in samples))
    )
