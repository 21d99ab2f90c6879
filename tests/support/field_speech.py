"""Speech that can be read back: every 20 ms carry their word, so cutting, joining and order can be checked."""

import itertools
import random
import struct
import zlib
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple

SLICE_MS = 20
WORD_MS = 500
SLICE_SAMPLES = 320
SLICE_BYTES = 2 * SLICE_SAMPLES
# A recogniser makes nothing of less than this of a word; of more it hears the whole word, even on both sides of a cut.
SHORTEST_HEARD_SLICES = 5

# As recorded: room noise and digital silence, without the length before them.
NOISE_PACKET = bytes.fromhex("4807c979c8c957c0")
SILENCE_PACKET = bytes.fromhex("b8fffe")
_SPEECH_TOC = b"\xb8"
_MAGIC = b"\xa7\x5eSP"
# occurrence, slice, slices of the word, language, bytes of the word
_HEAD = struct.Struct("<IBB2sB")
_CHECK = struct.Struct("<I")
_OCCURRENCES = itertools.count(1)


class Kind(Enum):
    SPEECH = "speech"
    NOISE = "noise"
    SILENCE = "silence"


class Slice(NamedTuple):
    """20 ms of sound; of speech with a marker in it."""

    kind: Kind
    marker: bytes = b""

    @property
    def is_speech(self) -> bool:
        return self.kind is Kind.SPEECH


NOISE = Slice(Kind.NOISE)
SILENCE = Slice(Kind.SILENCE)


class HeardWord(NamedTuple):
    """A run of slices of one spoken word, in the order in which they were heard."""

    text: str
    language: str
    occurrence: int
    first: int
    last: int
    total: int

    @property
    def is_whole(self) -> bool:
        return (self.first, self.last) == (0, self.total - 1)


class Heard(NamedTuple):
    words: list[HeardWord]
    duration_ms: int

    @property
    def text(self) -> str:
        return " ".join(word.text for word in self.words)

    @property
    def language(self) -> str:
        """The one most words are in; "" of silence."""
        spoken = [word.language for word in self.words]
        return max(spoken, key=spoken.count) if spoken else ""


def say(text: str, language: str = "en", word_ms: int = WORD_MS) -> list[Slice]:
    """Each word, parted by blanks, for half a second."""
    slices = []
    for word in text.split():
        occurrence = next(_OCCURRENCES)
        total = word_ms // SLICE_MS
        slices += [Slice(Kind.SPEECH, _marker(word, language, occurrence, part, total)) for part in range(total)]
    return slices


def sentence_of(seconds: float, language: str = "en", start: int = 0) -> str:
    """Different words for this long; another `start` gives another sentence."""
    return " ".join(_word(start + number, language) for number in range(round(seconds * 1000 / WORD_MS)))


def opus(slices: Iterable[Slice]) -> bytes:
    """Framed as clients send it: a length before each packet."""
    return b"".join(len(packet).to_bytes(2, "little") + packet for packet in map(_packet, slices))


def pcm16(slices: Iterable[Slice]) -> bytes:
    return b"".join(map(_samples, slices))


def encoded(slices: Iterable[Slice], audio_format: str) -> bytes:
    return opus(slices) if audio_format == "opus" else pcm16(slices)


def hear(audio: bytes, audio_format: str) -> Heard:
    """What a recogniser hears, a word at a time. Raises ValueError when the audio is not of this format."""
    if audio_format == "opus":
        packets = packets_of(audio)
        return Heard(_words([mark for packet in packets if (mark := _read(packet, 1))]), len(packets) * SLICE_MS)
    low_bytes = audio[0::2]
    return Heard(_words(_found(low_bytes)), len(low_bytes) * SLICE_MS // SLICE_SAMPLES)


def packets_of(audio: bytes) -> list[bytes]:
    packets, at = [], 0
    while at < len(audio):
        length = int.from_bytes(audio[at : at + 2], "little")
        packet = audio[at + 2 : at + 2 + length]
        if len(packet) < length or at + 2 > len(audio):
            raise ValueError(f"the audio ends inside a packet, at byte {at}")
        packets.append(packet)
        at += 2 + length
    return packets


def _marker(word: str, language: str, occurrence: int, part: int, total: int) -> bytes:
    letters = word.encode()
    body = _HEAD.pack(occurrence, part, total, language.encode()[:2], len(letters)) + letters
    return _MAGIC + body + _CHECK.pack(zlib.crc32(body))


def _packet(piece: Slice) -> bytes:
    match piece.kind:
        case Kind.NOISE:
            return NOISE_PACKET
        case Kind.SILENCE:
            return SILENCE_PACKET
    # Recorded speech has packets of 60 to 80 bytes.
    dice = random.Random(piece.marker)
    filler = dice.randbytes(max(4, dice.randint(62, 78) - len(piece.marker)))
    return _SPEECH_TOC + piece.marker + filler


def _samples(piece: Slice) -> bytes:
    match piece.kind:
        case Kind.SILENCE:
            return bytes(SLICE_BYTES)
        case Kind.NOISE:
            return struct.pack(f"<{SLICE_SAMPLES}h", *(round(random.gauss(0, 45)) for _ in range(SLICE_SAMPLES)))
    # The marker is in the low bytes of loud samples.
    dice = random.Random(piece.marker)
    low = piece.marker + dice.randbytes(SLICE_SAMPLES - len(piece.marker))
    samples = bytearray(SLICE_BYTES)
    samples[0::2] = low
    samples[1::2] = bytes(dice.choices((8, 12, 16, 20, 236, 240, 244, 248), k=SLICE_SAMPLES))
    return bytes(samples)


class _Mark(NamedTuple):
    occurrence: int
    part: int
    total: int
    language: str
    text: str


def _read(low_bytes: bytes, at: int) -> _Mark | None:
    if low_bytes[at : at + len(_MAGIC)] != _MAGIC:
        return None
    begin = at + len(_MAGIC)
    if len(low_bytes) < begin + _HEAD.size:
        return None
    occurrence, part, total, language, length = _HEAD.unpack_from(low_bytes, begin)
    end = begin + _HEAD.size + length
    if low_bytes[end : end + _CHECK.size] != _CHECK.pack(zlib.crc32(low_bytes[begin:end])):
        return None
    return _Mark(occurrence, part, total, language.decode(), low_bytes[begin + _HEAD.size : end].decode())


def _found(low_bytes: bytes) -> list[_Mark]:
    """A cut may lie anywhere, so the markers are looked for."""
    marks, at = [], low_bytes.find(_MAGIC)
    while at >= 0:
        if mark := _read(low_bytes, at):
            marks.append(mark)
        at = low_bytes.find(_MAGIC, at + 1)
    return marks


def _words(marks: Sequence[_Mark]) -> list[HeardWord]:
    runs: list[list[_Mark]] = []
    for mark in marks:
        # Going back in a word means that it is heard again.
        if runs and runs[-1][-1].occurrence == mark.occurrence and runs[-1][-1].part < mark.part:
            runs[-1].append(mark)
        else:
            runs.append([mark])
    return [
        HeardWord(run[0].text, run[0].language, run[0].occurrence, run[0].part, run[-1].part, run[0].total)
        for run in runs
        if len(run) >= SHORTEST_HEARD_SLICES
    ]


_ENGLISH = (
    "alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima mike november oscar papa quebec romeo "
    "sierra tango uniform victor whiskey xray yankee zulu apple banana cherry dragon eagle forest garden harbor island "
    "jungle kettle lemon marble needle orange pepper quartz rabbit silver tiger umbrella velvet"
)
_CHINESE = "今天 天气 很好 我们 明天 一起 出去 吃饭 然后 回家 学习 中文 朋友 电影 音乐 城市 火车 机场 医院 学校"


def _word(number: int, language: str) -> str:
    words = (_CHINESE if language == "zh" else _ENGLISH).split()
    return words[number % len(words)]
