"""Sound files: any WAV in, 16 kHz mono PCM16 out; and back."""

import sys
import wave
from array import array
from pathlib import Path

SAMPLE_RATE = 16_000


class BadSound(ValueError):
    """The file cannot be read as sound; the message says why."""


def read(path: Path) -> bytes:
    """PCM16, 16 kHz, mono, whatever the file's rate, width and channels."""
    try:
        with wave.open(str(path), "rb") as file:
            rate, width, channels = file.getframerate(), file.getsampwidth(), file.getnchannels()
            raw = file.readframes(file.getnframes())
    except (wave.Error, EOFError) as error:
        raise BadSound(f"{path} is not a WAV file we can read: {error}") from error
    except OSError as error:
        raise BadSound(f"{path} cannot be opened: {error.strerror}") from error
    if rate < 1:
        raise BadSound(f"{path} is not a WAV file we can read: its sample rate is {rate}")
    samples = _samples(raw, width)
    mono = (
        samples
        if channels == 1
        else array("h", (sum(samples[i : i + channels]) // channels for i in range(0, len(samples), channels)))
    )
    return _little_endian(_resampled(mono, rate))


def write(path: Path, pcm16: bytes, rate: int = SAMPLE_RATE) -> None:
    with path.open("wb") as target, wave.open(target, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(pcm16)


def _samples(raw: bytes, width: int) -> "array[int]":
    if width == 1:
        return array("h", ((byte - 128) << 8 for byte in raw))
    if width == 2:
        samples = array("h", raw[: len(raw) // 2 * 2])
        if sys.byteorder == "big":
            samples.byteswap()
        return samples
    # The two most significant bytes of a wider sample.
    return array(
        "h", (int.from_bytes(raw[i + width - 2 : i + width], "little", signed=True) for i in range(0, len(raw), width))
    )


def _resampled(samples: "array[int]", rate: int) -> "array[int]":
    """Linear between neighbours, after an average over what one output sample stands for when the rate goes down."""
    if rate == SAMPLE_RATE or not samples:
        return samples
    step = rate / SAMPLE_RATE
    if step > 1:
        span = round(step)
        samples = array(
            "h",
            (
                sum(samples[max(0, i - span + 1) : i + 1]) // len(samples[max(0, i - span + 1) : i + 1])
                for i in range(len(samples))
            ),
        )
    last = len(samples) - 1
    out = array("h")
    for i in range(int(len(samples) / step)):
        place = i * step
        left = int(place)
        right = min(left + 1, last)
        out.append(int(samples[left] + (samples[right] - samples[left]) * (place - left)))
    return out


def _little_endian(samples: "array[int]") -> bytes:
    if sys.byteorder == "big":
        samples.byteswap()
    return samples.tobytes()
