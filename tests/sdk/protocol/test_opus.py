"""Framed Opus to samples."""

import sys

import pytest

from lingua_sdk.protocol import opus


def test_every_packet_is_decoded() -> None:
    library = pytest.importorskip("opuslib_next", exc_type=ImportError)
    packet = library.Encoder(opus.SAMPLE_RATE, 1, "voip").encode(b"\x00\x10" * 320, 320)
    assert len(opus.samples_of((len(packet).to_bytes(2, "little") + packet) * 4)) == 4 * 640
    assert opus.samples_of(b"") == b""


def test_what_is_no_packet_is_said_so() -> None:
    pytest.importorskip("opuslib_next", exc_type=ImportError)
    with pytest.raises(opus.BadOpus, match="not Opus"):
        opus.samples_of(b"\x02\x00\xff\xff")


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opuslib_next", None)
    with pytest.raises(opus.NoOpus, match=r"lingua-sdk\[opus\]"):
        opus.samples_of(b"\x01\x00a")
