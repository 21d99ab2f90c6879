"""Samples between models and people."""

import math
import sys
from array import array

import pytest

from lingua_scheduler.engines.sound import floats, pcm16, played
from lingua_scheduler.sdk.audio import Audio, from_little_endian, to_little_endian
from tests.support.engines import loudness


def tone(hertz: float, rate: int, seconds: float = 0.5) -> Audio:
    wave = (round(8000 * math.sin(2 * math.pi * hertz * i / rate)) for i in range(int(rate * seconds)))
    return Audio(to_little_endian(array("h", wave)), rate)


def test_samples_become_numbers_and_come_back() -> None:
    samples = Audio(to_little_endian(array("h", [0, 1, -1, 32_767, -32_768])))
    assert pcm16(floats(samples)) == samples.samples
    assert pcm16([2.0, -2.0]) == to_little_endian(array("h", [32_767, -32_768]))


@pytest.mark.parametrize("rate", [22_050, 24_000, 44_100, 48_000])
def test_a_voice_is_played_at_the_rate_of_clients(rate: int) -> None:
    pytest.importorskip("numpy", reason="numpy is not installed")
    heard = played(tone(440, rate))
    assert heard.sample_rate == 16_000
    assert heard.seconds == pytest.approx(0.5, abs=0.01)
    crossings = sum(a < 0 <= b for a, b in zip(*(from_little_endian(heard.samples)[i:] for i in (0, 1)), strict=False))
    assert crossings == pytest.approx(220, abs=3)
    assert loudness(heard) == pytest.approx(8000 / math.sqrt(2), rel=0.05)


def test_what_is_too_high_does_not_come_back_as_a_whistle() -> None:
    pytest.importorskip("numpy", reason="numpy is not installed")
    assert loudness(played(tone(10_500, 24_000))) < 300


def test_without_numpy_and_at_a_lower_rate_it_is_left_to_the_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    low = tone(440, 8_000)
    assert played(low) is low
    monkeypatch.setitem(sys.modules, "numpy", None)
    high = tone(440, 22_050)
    assert played(high) is high
