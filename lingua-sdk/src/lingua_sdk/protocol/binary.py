"""The binary audio frames a client may send once the acknowledgement says so (little-endian)."""

import struct

import msgspec

from lingua_sdk.protocol.codec import UnreadableFrame

_AUDIO_CHUNK = 0x01
_FINAL = 0x02
_MAX_SESSION_ID_BYTES = 0xFF
_LOW_32_BITS = 0xFFFF_FFFF

# type, session id length, seq, timestamp; a chunk adds is_final and a reserved byte.
_FINAL_HEAD = struct.Struct("<BBII")
_CHUNK_HEAD = struct.Struct("<BBIIBB")
_CHUNK_HEAD_BYTES = _CHUNK_HEAD.size


class AudioChunkFrame(msgspec.Struct, frozen=True, gc=False):
    """`audio` is a copy, which keeps no frame alive; `timestamp` is the low 32 bits of epoch milliseconds."""

    session_id: str
    seq: int
    timestamp: int
    is_final: bool
    audio: bytes


class FinalFrame(msgspec.Struct, frozen=True, gc=False):
    session_id: str
    seq: int
    timestamp: int


def whole_timestamp(low_bits: int, now_ms: float) -> float:
    """The epoch milliseconds nearest to now whose low 32 bits these are."""
    behind = (int(now_ms) - low_bits) & _LOW_32_BITS
    return now_ms - (behind if behind < 2**31 else behind - 2**32)


def decode_binary(frame: bytes) -> AudioChunkFrame | FinalFrame:
    """Raises UnreadableFrame when the frame is short, of an unknown kind, or its session id is not UTF-8."""
    if not frame:
        raise UnreadableFrame("the binary frame is empty")
    if frame[0] == _AUDIO_CHUNK:
        return _decode_audio_chunk(frame)
    if frame[0] == _FINAL:
        return _decode_final(frame)
    raise UnreadableFrame(f"unknown binary frame type 0x{frame[0]:02x}")


def _decode_audio_chunk(frame: bytes) -> AudioChunkFrame:
    _require_bytes(frame, _CHUNK_HEAD_BYTES)
    _, sid_bytes, seq, timestamp, is_final, _ = _CHUNK_HEAD.unpack_from(frame)
    audio_at = _CHUNK_HEAD_BYTES + sid_bytes
    session_id = _session_id(frame, _CHUNK_HEAD_BYTES, audio_at)
    return AudioChunkFrame(session_id, seq, timestamp, is_final != 0, frame[audio_at:])


def _decode_final(frame: bytes) -> FinalFrame:
    _require_bytes(frame, _FINAL_HEAD.size)
    _, sid_bytes, seq, timestamp = _FINAL_HEAD.unpack_from(frame)
    return FinalFrame(_session_id(frame, _FINAL_HEAD.size, _FINAL_HEAD.size + sid_bytes), seq, timestamp)


def _session_id(frame: bytes, start: int, end: int) -> str:
    _require_bytes(frame, end)
    try:
        return frame[start:end].decode()
    except UnicodeDecodeError:
        raise UnreadableFrame("the session id of the binary frame is not UTF-8") from None


def _require_bytes(frame: bytes, needed_bytes: int) -> None:
    if len(frame) < needed_bytes:
        raise UnreadableFrame(f"the binary frame is truncated: {len(frame)} of at least {needed_bytes} bytes")


def encode_audio_chunk(
    session_id: str, seq: int, timestamp_ms: int, audio: bytes | memoryview, *, is_final: bool = False
) -> bytes:
    sid = _encoded_session_id(session_id)
    head = _CHUNK_HEAD.pack(_AUDIO_CHUNK, len(sid), seq, timestamp_ms & _LOW_32_BITS, is_final, 0)
    return b"".join((head, sid, audio))


def encode_final(session_id: str, seq: int, timestamp_ms: int) -> bytes:
    sid = _encoded_session_id(session_id)
    return _FINAL_HEAD.pack(_FINAL, len(sid), seq, timestamp_ms & _LOW_32_BITS) + sid


def _encoded_session_id(session_id: str) -> bytes:
    sid = session_id.encode()
    if len(sid) > _MAX_SESSION_ID_BYTES:
        raise ValueError(f"a session id of {len(sid)} bytes does not fit its length byte")
    return sid
