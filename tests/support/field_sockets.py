"""What the existing peers do below JSON: binary audio frames, and connections that end without a word."""

import struct
import time

import aiohttp

# AUDIO_CHUNK adds is_final and a reserved byte.
_CHUNK = struct.Struct("<BBIIBB")
_FINAL = struct.Struct("<BBII")
_LOW_32_BITS = 0xFFFF_FFFF


def url_of(port: int, path: str, credential: str = "", host: str = "127.0.0.1") -> str:
    """A URL is all that these peers can be given, so a credential is in its query."""
    return f"ws://{host}:{port}{path}" + (f"?access_token={credential}" if credential else "")


def abort(socket: aiohttp.ClientWebSocketResponse | None) -> None:
    """As if the network was gone: a reset, no close frame."""
    connection = socket._response.connection if socket is not None else None
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


def drop(socket: aiohttp.ClientWebSocketResponse) -> None:
    """The connection is closed below the WebSocket: no close frame."""
    socket._response.close()


def binary_audio(session_id: str, seq: int, audio: bytes, *, is_final: bool) -> bytes:
    """A final without audio has a shape of its own."""
    name, low_ms = session_id.encode(), now_ms() & _LOW_32_BITS
    if is_final and not audio:
        return _FINAL.pack(0x02, len(name), seq, low_ms) + name
    return _CHUNK.pack(0x01, len(name), seq, low_ms, is_final, 0) + name + audio


def now_ms() -> int:
    return int(time.time() * 1000)
