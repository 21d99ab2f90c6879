"""Decodes the audio of a job: framed Opus, raw PCM16 or a WAV file."""

import importlib
from typing import Any

from lingua_scheduler.protocol.audio import opus_packets
from lingua_scheduler.sdk import wav
from lingua_scheduler.sdk.audio import SAMPLE_RATE, Audio

# 120 ms, the longest there is.
_MAX_PACKET_SAMPLES = SAMPLE_RATE * 120 // 1000


class CannotDecode(Exception):
    """The sound is in a form that cannot be read here; the message says what would help."""


class NoDecoder(CannotDecode):
    """A library is missing."""


def decode(sound: bytes, audio_format: str, sample_rate: int) -> Audio:
    """The audio of a job; raises CannotDecode."""
    match audio_format:
        case "opus" if opus_packets(sound) is not None:
            return _opus(sound)
        # A client may send PCM16 although Opus was agreed on.
        case "pcm16" | "opus":
            return Audio(sound[: len(sound) // 2 * 2], sample_rate)
        case "wav":
            try:
                return wav.parse(sound)
            except wav.BadSound as error:
                raise CannotDecode(f"the audio is not a WAV file: {error}") from None
        case _:
            raise CannotDecode(f"unsupported audio format {audio_format[:32]!r}; send opus, pcm16 or wav")


def _opus(sound: bytes) -> Audio:
    try:
        opus: Any = importlib.import_module("opuslib_next")
    except Exception as error:  # the library below it may be missing, which it tells in its own way
        raise NoDecoder("Opus is not supported by this installation; pip install 'lingua-scheduler[opus]'") from error
    decoder = opus.Decoder(SAMPLE_RATE, 1)
    decoded = bytearray()
    at = 0
    while at < len(sound):
        length = int.from_bytes(sound[at : at + 2], "little")
        try:
            decoded += decoder.decode(sound[at + 2 : at + 2 + length], _MAX_PACKET_SAMPLES)
        except opus.OpusError as error:
            raise CannotDecode("the audio contains a packet that is not Opus") from error
        at += 2 + length
    return Audio(bytes(decoded), SAMPLE_RATE)
