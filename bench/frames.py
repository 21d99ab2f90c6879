"""A WebSocket client with next to no cost of its own, so that a benchmark measures the other end."""

import asyncio
from struct import pack

_TEXT = 0x81
_BINARY = 0x82
_PONG = 0x8A
_IS_MASKED = 0x80
# Clients must mask; with a key of zeros the bytes stay as they are, and the server works as hard as with any other.
_KEY = b"\0\0\0\0"

_OPCODE_TEXT = 1
_OPCODE_CLOSE = 8
_OPCODE_PING = 9


def head_of(first: int, length: int) -> bytes:
    """The head of a masked frame."""
    if length < 126:
        return bytes((first, _IS_MASKED | length)) + _KEY
    if length < 65_536:
        return pack("!BBH", first, _IS_MASKED | 126, length) + _KEY
    return pack("!BBQ", first, _IS_MASKED | 127, length) + _KEY


class SocketClosed(Exception):
    """The other end closed, or refused, the connection."""


class FramePeer(asyncio.Protocol):
    """One connection; subclasses take whole text frames in `on_text`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._rest = b""
        self._is_open = False
        # A key, where one is needed.
        self.credential = ""
        self._transport: asyncio.Transport
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def is_open(self) -> bool:
        return self._is_open

    def on_text(self, payload: bytes) -> None:
        raise NotImplementedError

    def on_closed(self, reason: str) -> None:
        """The connection is gone, without our asking."""

    def send(self, *parts: bytes) -> None:
        self._transport.write(b"".join((head_of(_TEXT, sum(map(len, parts))), *parts)))

    def send_binary(self, payload: bytes) -> None:
        self._transport.write(head_of(_BINARY, len(payload)) + payload)

    def close(self) -> None:
        self._is_open = False
        self._transport.close()

    def cut(self) -> None:
        """Vanish without a word."""
        self._is_open = False
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's are none of asyncio's classes
        shows = f"Authorization: Bearer {self.credential}\r\n" if self.credential else ""
        self._transport.write(
            f"GET {self._path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{shows}"
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed(str(exc or "the connection was closed"))

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        if self.opened.done():
            self._rest = data[self._take_frames(data, 0) :]
            return
        end = data.find(b"\r\n\r\n")
        if end < 0:
            self._rest = data
        elif not data.startswith(b"HTTP/1.1 101"):
            self._closed(data.splitlines()[0].decode(errors="replace"))
        else:
            self._is_open = True
            self.opened.set_result(None)
            self._rest = data[self._take_frames(data, end + 4) :]

    def _take_frames(self, data: bytes, at: int) -> int:
        """Hand out whole frames; where the first incomplete one begins."""
        end = len(data)
        while end - at >= 2:
            start, length = at + 2, data[at + 1]
            if length == 126:
                start, length = at + 4, int.from_bytes(data[at + 2 : at + 4])
            elif length == 127:
                start, length = at + 10, int.from_bytes(data[at + 2 : at + 10])
            if start + length > end:
                break
            opcode = data[at] & 0x0F
            if opcode == _OPCODE_TEXT:
                self.on_text(data[start : start + length])
            elif opcode == _OPCODE_PING:
                self._transport.write(head_of(_PONG, length) + data[start : start + length])
            elif opcode == _OPCODE_CLOSE:
                self._closed(data[start + 2 : start + length].decode(errors="replace") or "the socket was closed")
            at = start + length
        return at

    def _closed(self, reason: str) -> None:
        was_open, self._is_open = self._is_open, False
        if not self.opened.done():
            self.opened.set_exception(SocketClosed(reason))
        elif was_open:
            self.on_closed(reason)
