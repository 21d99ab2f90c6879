"""Formats by their first bytes, and what is said to the process that decodes."""

import msgspec
import pytest

from lingua_scheduler.protocol.uploads import (
    Decoded,
    DecodeOrder,
    JoinOrder,
    Piece,
    SoundFormat,
    decode_order,
    decode_reply,
    encode_order,
    encode_reply,
    sniff,
    wav_of,
)
from lingua_scheduler.sdk import wav


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
