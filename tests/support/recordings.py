"""A recorded conversation, the same bytes every time: made of syllables, as 16 kHz mono PCM16 or as framed Opus."""

import importlib
import math
import random
import struct
from array import array
from enum import Enum
from typing import Any, NamedTuple

SAMPLE_RATE = 16_000
CHUNK_MS = 200
PACKET_MS = 20
_BYTES_PER_MS = SAMPLE_RATE * 2 // 1000
_SYLLABLE_MS = 200
_VOICES_HZ = {"a": 120.0, "b": 210.0}


class Ending(Enum):
    """How a client tells that somebody has finished."""

    SILENCE = "final after a silence, just before the last chunk"
    BUTTON = "final after the last chunk"
    PAUSE = "nothing: the scheduler finds the pause"
    HESITATION = "nothing, and the person goes on after a little more than a pause"


class Turn(NamedTuple):
    speaker: str
    speech_ms: int
    ending: Ending
    gap_ms: int = 4_000


class Spoken(NamedTuple):
    """A turn as the client sends it: chunks of 200 ms; what is left over is the tail."""

    turn: Turn
    chunks: list[bytes]
    tail: bytes


def pcm16(turns: list[Turn]) -> list[Spoken]:
    dice = random.Random(4)
    voices = {who: [_syllable(hz, dice) for _ in range(12)] for who, hz in _VOICES_HZ.items()}
    return [_spoken(turn, _speech(turn, voices[turn.speaker], dice), _BYTES_PER_MS) for turn in turns]


def opus(turns: list[Turn]) -> list[Spoken]:
    """The same, `[u16 little-endian length][packet]` for every 20 ms."""
    encode = _encoder()
    packet_bytes = PACKET_MS * _BYTES_PER_MS
    made = []
    for spoken in pcm16(turns):
        chunks = [
            b"".join(_framed(encode(chunk[at : at + packet_bytes])) for at in range(0, len(chunk), packet_bytes))
            for chunk in (*spoken.chunks, spoken.tail)
        ]
        made.append(Spoken(spoken.turn, chunks[:-1], chunks[-1]))
    return made


def _speech(turn: Turn, syllables: list[bytes], dice: random.Random) -> bytes:
    count = turn.speech_ms // _SYLLABLE_MS + 1
    return b"".join(dice.choice(syllables) for _ in range(count))[: turn.speech_ms * _BYTES_PER_MS]


def _syllable(pitch_hz: float, dice: random.Random) -> bytes:
    """A few harmonics that swell and fade, and a breath of noise."""
    pitch = pitch_hz * dice.uniform(0.85, 1.2) * 2 * math.pi / SAMPLE_RATE
    strengths = [dice.uniform(0.2, 1.0) / number for number in (1, 2, 3)]
    count = SAMPLE_RATE * _SYLLABLE_MS // 1000
    samples = array("h")
    for i in range(count):
        swell = math.sin(math.pi * i / count)
        voice = sum(strength * math.sin(pitch * (number + 1) * i) for number, strength in enumerate(strengths))
        samples.append(int(6_000 * swell * voice + dice.uniform(-80, 80)))
    return samples.tobytes()


def _spoken(turn: Turn, speech: bytes, bytes_per_ms: int) -> Spoken:
    size = CHUNK_MS * bytes_per_ms
    whole = len(speech) // size * size
    return Spoken(turn, [speech[at : at + size] for at in range(0, whole, size)], speech[whole:])


def _framed(packet: bytes) -> bytes:
    return struct.pack("<H", len(packet)) + packet


def _encoder() -> Any:
    """The real codec where it is installed; else packets of the sizes it makes, since nobody decodes them."""
    try:
        codec: Any = importlib.import_module("opuslib_next")
    except ImportError:
        dice = random.Random(5)
        return lambda pcm: dice.randbytes(dice.randint(25, 90))
    encoder = codec.Encoder(SAMPLE_RATE, 1, codec.APPLICATION_VOIP)
    return lambda pcm: encoder.encode(pcm, len(pcm) // 2)
