"""Samples between models and people."""

from array import array

from lingua_scheduler.engines.sound import floats, pcm16
from lingua_sdk.audio import Audio, to_little_endian


def test_samples_become_numbers_and_come_back() -> None:
    samples = Audio(to_little_endian(array("h", [0, 1, -1, 32_767, -32_768])))
    assert pcm16(floats(samples)) == samples.samples
    assert pcm16([2.0, -2.0]) == to_little_endian(array("h", [32_767, -32_768]))
