"""Sound files: any WAV in, 16 kHz mono PCM16 out; and back."""

import os
import struct
import sys
import wave
from array import array
from pathlib import Path
from typing import NamedTuple

from lingua_sdk.audio import SAMPLE_RATE, Audio, from_little_endian, to_little_endian

_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_HEAD_BYTES = 12
_FORMAT = struct.Struct("<HHIIHH")
# In the extended form the real format is the beginning of a longer name.
_SUBFORMAT_AT = 24
# Nothing records faster; a file that claims more would last no time at all, however long it is.
_MAX_RATE = 768_000
_SIGNED_FROM_UNSIGNED = bytes(byte ^ 0x80 for byte in range(256))


class BadSound(ValueError):
    """The file cannot be read as sound; the message says why."""


class _Format(NamedTuple):
    kind: int
    channels: int
    rate: int
    sample_bytes: int


def read(path: str | os.PathLike[str]) -> bytes:
    """Convert a file of any rate, width and number of channels to PCM16, 16 kHz, mono."""
    try:
        with Path(path).open("rb") as file:
            head = file.read(_HEAD_BYTES)
            content = head + file.read() if _begins_like_one(head) else head
    except OSError as error:
        raise BadSound(f"{path} cannot be opened: {error.strerror}") from error
    try:
        return parse(content).at(SAMPLE_RATE).samples
    except BadSound as error:
        raise BadSound(f"{path} is not a supported WAV file: {error}") from None


def seconds_of(content: bytes) -> float:
    """How long a file lasts, without converting it."""
    form, raw = _parsed(content)
    return len(raw) / (form.sample_bytes * form.channels * form.rate)


def parse(content: bytes) -> Audio:
    """One channel, at the file's own rate."""
    form, raw = _parsed(content)
    return Audio(to_little_endian(_mono(_samples(form, raw), form.channels)), form.rate)


def write(path: str | os.PathLike[str], pcm16: bytes, rate: int = SAMPLE_RATE) -> None:
    with Path(path).open("wb") as target, wave.open(target, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(pcm16)


def _begins_like_one(head: bytes) -> bool:
    return len(head) == _HEAD_BYTES and head[:4] == b"RIFF" and head[8:] == b"WAVE"


def _parsed(file: bytes) -> tuple[_Format, bytes]:
    """The chunks up to the sound. A length that is too great (a pipe did not know it) means: to the end."""
    if not _begins_like_one(file[:_HEAD_BYTES]):
        raise BadSound("it has no RIFF/WAVE header")
    body = file[_HEAD_BYTES:]
    form: _Format | None = None
    at = 0
    while at + 8 <= len(body):
        name = body[at : at + 4]
        (length,) = struct.unpack_from("<I", body, at + 4)
        content = body[at + 8 : at + 8 + length]
        if name == b"fmt ":
            form = _format(content)
        elif name == b"data":
            if form is None:
                raise BadSound("its format chunk comes after its audio")
            return form, content
        at += 8 + length + length % 2
    raise BadSound("it contains no audio")


def _format(content: bytes) -> _Format:
    if len(content) < _FORMAT.size:
        raise BadSound("its format chunk is truncated")
    kind, channels, rate, _, _, bits = _FORMAT.unpack_from(content)
    if kind == _EXTENSIBLE and len(content) >= _SUBFORMAT_AT + 2:
        (kind,) = struct.unpack_from("<H", content, _SUBFORMAT_AT)
    if not 1 <= rate <= _MAX_RATE or channels < 1:
        raise BadSound(f"its sample rate is {rate}, and it has {channels} channels")
    widths = {_PCM: (8, 16, 20, 24, 32), _FLOAT: (32, 64)}.get(kind, ())
    if bits not in widths:
        raise BadSound(f"unsupported encoding (format {kind}, {bits} bits); save it as PCM")
    return _Format(kind, channels, rate, (bits + 7) // 8)


def _samples(form: _Format, raw: bytes) -> "array[int]":
    width = form.sample_bytes
    raw = raw[: len(raw) // width * width]
    if form.kind == _FLOAT:
        values = array("f" if width == 4 else "d", raw)
        if sys.byteorder == "big":
            values.byteswap()
        return array("h", (int(max(-1.0, min(1.0, value)) * 32_767) for value in values))
    # The two most significant bytes of a sample; a single byte is unsigned.
    pcm16 = bytearray(len(raw) // width * 2)
    pcm16[1::2] = raw.translate(_SIGNED_FROM_UNSIGNED) if width == 1 else raw[width - 1 :: width]
    if width > 1:
        pcm16[0::2] = raw[width - 2 :: width]
    return from_little_endian(bytes(pcm16))


def _mono(samples: "array[int]", channels: int) -> "array[int]":
    if channels == 1:
        return samples
    frames = zip(*(samples[channel::channels] for channel in range(channels)), strict=False)
    return array("h", (sum(frame) // channels for frame in frames))
