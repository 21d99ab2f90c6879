"""Decodes framed Opus, as nodes and clients send it, with libopus if that is installed."""

import importlib
from typing import Any

SAMPLE_RATE = 16_000
# 120 ms, the longest there is.
_MAX_PACKET_SAMPLES = SAMPLE_RATE * 120 // 1000
_LENGTH_BYTES = 2


class NoOpus(Exception):
    """The library is missing."""


class BadOpus(Exception):
    """A packet is not Opus."""


def samples_of(sound: bytes) -> bytes:
    """PCM16, 16 kHz, mono, of `[u16 little-endian length][packet]…`. Raises NoOpus, BadOpus."""
    try:
        opus: Any = importlib.import_module("opuslib_next")
    except Exception as error:  # the library below it may be missing, which it tells in its own way
        raise NoOpus("Opus is not supported by this installation; pip install 'lingua-sdk[opus]'") from error
    decoder = opus.Decoder(SAMPLE_RATE, 1)
    decoded = bytearray()
    at = 0
    while at < len(sound):
        begin = at + _LENGTH_BYTES
        at = begin + int.from_bytes(sound[at:begin], "little")
        try:
            decoded += decoder.decode(sound[begin:at], _MAX_PACKET_SAMPLES)
        except opus.OpusError as error:
            raise BadOpus("the audio contains a packet that is not Opus") from error
    return bytes(decoded)
