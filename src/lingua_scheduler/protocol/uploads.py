"""Uploaded sound files: their formats, told by their first bytes, and the messages to the process that decodes them."""

import struct
from enum import StrEnum

import msgspec

SAMPLE_RATE = 16_000
_LENGTH = struct.Struct("<I")
# MPEG audio: eleven ones, then version, layer and bit rate, some of whose values are none.
_SYNC, _LAYER_3 = 0xE0, 0b01
_RIFF_HEAD = struct.Struct("<4sI4s4sIHHIIHH4sI")


class SoundFormat(StrEnum):
    WAV = "wav"
    OGG = "ogg"
    WEBM = "webm"
    MP3 = "mp3"
    # As Safari records, and phones: AAC in MP4.
    MP4 = "mp4"


# What curl names by itself. It is not documented: a generated client would send a form of fields.
FORM = "application/x-www-form-urlencoded"
# What a caller may name as its Content-Type. Many programs name a general one, so the bytes decide.
MEDIA_TYPES = (
    "audio/wav",
    "audio/x-wav",
    "audio/wave",
    "audio/vnd.wave",
    "audio/webm",
    "video/webm",
    "audio/ogg",
    "application/ogg",
    "audio/opus",
    "audio/mpeg",
    "audio/mp3",
    "audio/mp4",
    "audio/m4a",
    "audio/x-m4a",
    "video/mp4",
    "application/octet-stream",
    FORM,
)
WAV_TYPES = MEDIA_TYPES[:4]


FILES = "WAV, WebM, Ogg, MP3 or MP4"
# The second byte of the version follows, so that samples do not pass for a tag.
_MAGIC = (
    (b"OggS\0", "Ogg"),
    (b"fLaC", "FLAC"),
    (b"\x1a\x45\xdf\xa3", "WebM"),
    *((b"ID3" + bytes((version, 0)), "MP3") for version in (2, 3, 4)),
)
_ARTICLE = {"Ogg": "an", "MP3": "an", "MP4": "an"}
# One look at the first byte spares nearly all samples the rest.
_FIRST_BYTES = frozenset({b"O", b"f", b"\x1a", b"I", b"\xff"})
# Of layer 3, by the index in the header of a frame; the versions are 1, 2 and 2.5.
_KILOBITS = (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_KILOBITS_LOW = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
_SAMPLE_RATES = (44_100, 48_000, 32_000)
_MPEG_1 = 0b11
_RATE_DIVISORS = {_MPEG_1: 1, 0b10: 2, 0b00: 4}


def sniff(head: bytes) -> SoundFormat | None:
    """By the first bytes; None for everything else, raw samples among them."""
    if head[:4] == b"RIFF" and head[8:12] == b"WAVE":
        return SoundFormat.WAV
    if head[:4] == b"OggS":
        return SoundFormat.OGG
    if head[:4] == b"\x1a\x45\xdf\xa3":
        return SoundFormat.WEBM
    if head[:3] == b"ID3" or _is_mpeg_frame(head):
        return SoundFormat.MP3
    if head[4:8] == b"ftyp":
        return SoundFormat.MP4
    return None


def _is_mpeg_frame(head: bytes) -> bool:
    if len(head) < 4 or head[0] != 0xFF or head[1] & _SYNC != _SYNC:
        return False
    version, layer = head[1] >> 3 & 0b11, head[1] >> 1 & 0b11
    bit_rate, sample_rate = head[2] >> 4, head[2] >> 2 & 0b11
    return version != 0b01 and layer == _LAYER_3 and bit_rate not in (0, 0b1111) and sample_rate != 0b11


def file_in(samples: bytes) -> str:
    """The kind of a compressed sound file that is passed off as raw samples; empty for everything else.

    A WAV file is left alone: its header is a moment of noise before samples that nodes understand, and clients send it.
    """
    if samples[:1] in _FIRST_BYTES:
        kind = next((kind for magic, kind in _MAGIC if samples.startswith(magic)), "")
        return kind or ("MP3" if _is_mpeg_stream(samples) else "")
    return "MP4" if samples[4:8] == b"ftyp" else ""


def about_file(kind: str) -> str:
    return (
        f"audio is {_ARTICLE.get(kind, 'a')} {kind} file, not pcm16 samples; send {FILES} files to POST /v1/translate"
    )


def _is_mpeg_stream(samples: bytes) -> bool:
    """Whether a second frame follows the first: samples may begin like one frame, but not like two."""
    if not _is_mpeg_frame(samples[:4]):
        return False
    is_first_version = samples[1] >> 3 & 0b11 == _MPEG_1
    kilobits = (_KILOBITS if is_first_version else _KILOBITS_LOW)[(samples[2] >> 4) - 1]
    sample_rate = _SAMPLE_RATES[samples[2] >> 2 & 0b11] // _RATE_DIVISORS[samples[1] >> 3 & 0b11]
    length = (144_000 if is_first_version else 72_000) * kilobits // sample_rate + (samples[2] >> 1 & 1)
    return samples[length : length + 2] == samples[:2] and _is_mpeg_frame(samples[length : length + 4])


class DecodeOrder(msgspec.Struct, frozen=True, tag="decode"):
    """Decode the file that follows, and cut it into utterances of at most `piece_ms`."""

    format: SoundFormat
    max_ms: int
    piece_ms: int
    silence_rms: int


class JoinOrder(msgspec.Struct, frozen=True, tag="join"):
    """Make one WAV file of these sounds, each with its format as nodes name it."""

    sounds: list[tuple[str, bytes]]


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """One utterance of the file: PCM16, 16 kHz, mono."""

    begins_ms: int
    audio: bytes


class Decoded(msgspec.Struct, frozen=True, tag="decoded"):
    audio_ms: int
    pieces: list[Piece]


class Joined(msgspec.Struct, frozen=True, tag="joined"):
    wav: bytes


class Flaw(StrEnum):
    NO_LIBRARY = "no_library"
    TOO_LONG = "too_long"
    UNREADABLE = "unreadable"


class NotDecoded(msgspec.Struct, frozen=True, tag="not_decoded"):
    flaw: Flaw
    detail: str


_ORDERS: msgspec.msgpack.Decoder[DecodeOrder | JoinOrder] = msgspec.msgpack.Decoder(DecodeOrder | JoinOrder)
_REPLIES: msgspec.msgpack.Decoder[Decoded | Joined | NotDecoded] = msgspec.msgpack.Decoder(
    Decoded | Joined | NotDecoded
)
encode_reply = msgspec.msgpack.Encoder().encode


def encode_order(order: DecodeOrder | JoinOrder) -> bytes:
    """With its length before it: a file follows."""
    encoded = msgspec.msgpack.encode(order)
    return _LENGTH.pack(len(encoded)) + encoded


def decode_order(said: bytes) -> tuple[DecodeOrder | JoinOrder, memoryview]:
    """The order, and the file behind it."""
    (length,) = _LENGTH.unpack_from(said)
    rest = memoryview(said)[_LENGTH.size :]
    return _ORDERS.decode(rest[:length]), rest[length:]


def decode_reply(said: bytes) -> Decoded | Joined | NotDecoded:
    """Raises msgspec.DecodeError."""
    return _REPLIES.decode(said)


def wav_of(pcm16: bytes) -> bytes:
    """A WAV file of 16 kHz mono samples."""
    size = len(pcm16)
    head = (b"RIFF", 36 + size, b"WAVE", b"fmt ", 16, 1, 1, SAMPLE_RATE, 2 * SAMPLE_RATE, 2, 16, b"data", size)
    return _RIFF_HEAD.pack(*head) + pcm16
