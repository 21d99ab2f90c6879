import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_sdk.protocol.binary import AudioChunkFrame, FinalFrame, decode_binary, encode_audio_chunk, encode_final
from lingua_sdk.protocol.codec import UnreadableFrame

session_ids = st.text(max_size=60).filter(lambda text: len(text.encode()) <= 255)
uint32s = st.integers(0, 2**32 - 1)

CHUNK = bytes.fromhex("01 03 04030201 0d0c0b0a 01 00") + b"s-1" + b"\xaa\xbb"
FINAL = bytes.fromhex("02 03 04030201 0d0c0b0a") + b"s-1"


def refusal(frame: bytes) -> str:
    with pytest.raises(UnreadableFrame) as caught:
        decode_binary(frame)
    return str(caught.value)


def test_a_chunk_is_laid_out_as_the_contract_says() -> None:
    assert encode_audio_chunk("s-1", 0x01020304, 0x0A0B0C0D, b"\xaa\xbb", is_final=True) == CHUNK
    assert decode_binary(CHUNK) == AudioChunkFrame(
        session_id="s-1", seq=0x01020304, timestamp=0x0A0B0C0D, is_final=True, audio=b"\xaa\xbb"
    )


def test_a_final_is_laid_out_as_the_contract_says() -> None:
    assert encode_final("s-1", 0x01020304, 0x0A0B0C0D) == FINAL
    assert decode_binary(FINAL) == FinalFrame(session_id="s-1", seq=0x01020304, timestamp=0x0A0B0C0D)


@given(session_ids, uint32s, uint32s, st.binary(), st.booleans())
def test_a_chunk_is_read_as_it_was_written(
    session_id: str, seq: int, timestamp: int, audio: bytes, is_final: bool
) -> None:
    frame = encode_audio_chunk(session_id, seq, timestamp, audio, is_final=is_final)

    assert decode_binary(frame) == AudioChunkFrame(session_id, seq, timestamp, is_final, audio)


@given(session_ids, uint32s, uint32s)
def test_a_final_is_read_as_it_was_written(session_id: str, seq: int, timestamp: int) -> None:
    assert decode_binary(encode_final(session_id, seq, timestamp)) == FinalFrame(session_id, seq, timestamp)


def test_a_chunk_may_carry_no_audio() -> None:
    chunk = decode_binary(CHUNK[:-2])

    assert isinstance(chunk, AudioChunkFrame)
    assert chunk.audio == b""


def test_only_the_low_bits_of_the_time_travel() -> None:
    now_ms = 1_700_000_000_123
    chunk = decode_binary(encode_audio_chunk("s-1", 0, now_ms, b""))
    final = decode_binary(encode_final("s-1", 0, now_ms))

    assert chunk.timestamp == final.timestamp == now_ms % 2**32


@pytest.mark.parametrize("frame", [CHUNK[:-2], FINAL], ids=["chunk", "final"])
def test_a_frame_cut_anywhere_before_its_audio_is_refused(frame: bytes) -> None:
    assert refusal(b"") == "the binary frame is empty"
    for length in range(1, len(frame)):
        assert refusal(frame[:length]).startswith(f"the binary frame is truncated: {length} of at least ")


@pytest.mark.parametrize("kind", [0x00, 0x03, 0x7B, 0xFF])
def test_an_unknown_kind_of_frame_is_refused_by_its_number(kind: int) -> None:
    assert refusal(bytes([kind]) + CHUNK[1:]) == f"unknown binary frame type 0x{kind:02x}"


@pytest.mark.parametrize("frame", [CHUNK, FINAL], ids=["chunk", "final"])
def test_a_session_id_that_is_not_text_is_refused(frame: bytes) -> None:
    assert refusal(frame.replace(b"s-1", b"s\xff1")) == "the session id of the binary frame is not UTF-8"


@given(st.binary() | st.tuples(st.sampled_from([b"\x01", b"\x02"]), st.binary()).map(b"".join))
def test_no_bytes_break_the_reader(frame: bytes) -> None:
    with contextlib.suppress(UnreadableFrame):
        decode_binary(frame)


def test_a_session_id_longer_than_its_length_byte_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="256 bytes"):
        encode_final("s" * 256, 0, 0)
