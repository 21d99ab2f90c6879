"""Tones as samples and files, and how to find their pitch and strength again."""

import math
import wave
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path

from lingua_sdk.audio import CHUNK_BYTES


def tone(hz: float, rate: int, seconds: float, amplitude: float = 9_000) -> "array[int]":
    step = 2 * math.pi * hz / rate
    return array("h", (int(amplitude * math.sin(step * i)) for i in range(int(rate * seconds))))


def silence(rate: int, seconds: float) -> "array[int]":
    return array("h", bytes(2 * int(rate * seconds)))


def write_wav(path: Path, samples: "array[int]", rate: int) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.tobytes())
    return path


def samples_of(pcm16: bytes) -> "array[int]":
    return array("h", pcm16)


def pitch_hz(samples: Sequence[int], rate: int) -> float:
    """By the first and the last time it rises through zero; 0 when it does not."""
    rises = [
        i + samples[i] / (samples[i] - samples[i + 1])
        for i in range(len(samples) - 1)
        if samples[i] < 0 <= samples[i + 1]
    ]
    return rate * (len(rises) - 1) / (rises[-1] - rises[0]) if len(rises) > 1 else 0.0


def pitches_hz(samples: Sequence[int], rate: int, window_s: float = 0.05) -> list[float]:
    size = int(rate * window_s)
    return [pitch_hz(samples[at : at + size], rate) for at in range(0, len(samples) - size + 1, size)]


def strength(samples: Sequence[float], rate: int, hz: float) -> float:
    """How much of this pitch there is, in the samples' own unit (Goertzel, under a Hann window)."""
    count = len(samples)
    window: Callable[[int], float] = lambda i: 1 - math.cos(2 * math.pi * i / count)  # noqa: E731
    turn = 2 * math.cos(2 * math.pi * hz / rate)
    before = last = 0.0
    for i, sample in enumerate(samples):
        before, last = last, sample * window(i) + turn * last - before
    power = last * last + before * before - turn * last * before
    return 2 * math.sqrt(max(power, 0.0)) / count


def decibel(ratio: float) -> float:
    return 20 * math.log10(max(ratio, 1e-12))


def noise(amplitude: float, chunks: int = 1) -> bytes:
    """A tone whose loudness is known."""
    count = chunks * CHUNK_BYTES // 2
    return array("h", (int(amplitude * math.sqrt(2) * math.sin(i * 0.3)) for i in range(count))).tobytes()
