"""Formats by their first bytes, and what is said to the process that decodes."""

import msgspec
import pytest

from lingua_scheduler.protocol.uploads import (
    Decoded,
    DecodeOrder,
    JoinOrder,
    Piece,
    SoundFormat,
    about_file,
    decode_order,
    decode_reply,
    encode_order,
    encode_reply,
    file_in,
    sniff,
    wav_of,
)
from lingua_sdk import wav


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (b"RIFF\x24\0\0\0WAVEfmt ", SoundFormat.WAV),
        (b"OggS\0\x02", SoundFormat.OGG),
        (b"\x1a\x45\xdf\xa3\x9f", SoundFormat.WEBM),
        (b"ID3\x04\0", SoundFormat.MP3),
        (b"\xff\xfb\x90\x64", SoundFormat.MP3),
        (b"\xff\xf3\x40\xc4", SoundFormat.MP3),
        (b"RIFF\x24\0\0\0AVI ", None),
        (b"RIFF", None),
        (b"fLaC\0\0\0\x22", None),
        (b"\0\0\0\x20ftypM4A ", SoundFormat.MP4),
        (b"\0\0\0\x1cftypiso5", SoundFormat.MP4),
        (b"\0\0\0\x08wide", None),
        (b"\xff\xff\xff\xff", None),  # a sample of -1, twice
        (b"\xff\xfb\xf0\x00", None),
        (b"\xff\xfb\x0c\x00", None),
        (b"\xff\xe8\x90\x00", None),
        (b"\0\0\1\0\2\0\1\0", None),
        (b"{}", None),
        (b"", None),
    ],
)
def test_a_format_is_known_by_its_first_bytes(head: bytes, found: SoundFormat | None) -> None:
    assert sniff(head) is found


# 128 kbit/s at 44.1 kHz has frames of 417 bytes, and of 418 with padding; 64 kbit/s at 22.05 kHz of 208.
MPEG_1, PADDED, MPEG_2 = b"\xff\xfb\x90\x64", b"\xff\xfb\x92\x64", b"\xff\xf3\x80\xc4"


@pytest.mark.parametrize(
    ("samples", "kind"),
    [
        (b"OggS\0\x02" + bytes(20), "Ogg"),
        (b"fLaC\0\0\0\x22", "FLAC"),
        (b"\x1a\x45\xdf\xa3\x9f", "WebM"),
        (b"ID3\x04\0\0", "MP3"),
        (MPEG_1.ljust(417, b"\0") + MPEG_1, "MP3"),
        (PADDED.ljust(418, b"\0") + MPEG_1, "MP3"),
        (MPEG_2.ljust(208, b"\0") + MPEG_2, "MP3"),
        (b"\0\0\0\x20ftypM4A ", "MP4"),
        (wav_of(b"\1\0"), ""),
        # Samples that begin like a frame, and do not go on like one.
        (MPEG_1 + bytes(1_000), ""),
        (MPEG_1, ""),
        (b"ID3\x7f\0\0", ""),
        (b"\xff\xff" * 500, ""),
        (b"\0\1" * 500, ""),
        (b"O", ""),
        (b"", ""),
    ],
)
def test_a_compressed_file_is_told_from_samples(samples: bytes, kind: str) -> None:
    assert file_in(samples) == kind


def test_a_sender_of_a_file_is_told_where_files_are_accepted() -> None:
    step = "not pcm16 samples; send WAV, WebM, Ogg, MP3 or MP4 files to POST /v1/translate"
    assert about_file("Ogg") == f"audio is an Ogg file, {step}"
    assert about_file("FLAC") == f"audio is a FLAC file, {step}"


def test_orders_and_replies_arrive_as_they_left() -> None:
    for order in (DecodeOrder(SoundFormat.OGG, 1, 2, 3), JoinOrder([("pcm16", b"x")])):
        read, sound = decode_order(encode_order(order) + b"the file")
        assert (read, bytes(sound)) == (order, b"the file")
    reply = Decoded(5, [Piece(1, b"ab")])
    assert decode_reply(encode_reply(reply)) == reply
    with pytest.raises(msgspec.DecodeError):
        decode_reply(b"")


def test_a_wav_file_of_samples_can_be_read() -> None:
    assert wav.parse(wav_of(b"\1\2" * 100)) == (b"\1\2" * 100, 16_000)
