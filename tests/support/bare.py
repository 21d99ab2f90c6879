"""A WebSocket peer that decides about every byte: what comes in one segment, what in pieces."""

import asyncio
import json
import struct
from typing import Any


def handshake(path: str) -> bytes:
    return (
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    ).encode()


def frame(message: dict[str, Any] | bytes, opcode: int = 1) -> bytes:
    """As a client sends it, masked with zeros."""
    payload = message if isinstance(message, bytes) else json.dumps(message).encode()
    if len(payload) < 126:
        length = bytes([0x80 | len(payload)])
    elif len(payload) < 65_536:
        length = b"\xfe" + struct.pack("!H", len(payload))
    else:
        length = b"\xff" + struct.pack("!Q", len(payload))
    return bytes([0x80 | opcode]) + length + bytes(4) + payload


class Bare:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def next(self) -> tuple[int, bytes]:
        first, length = await self._reader.readexactly(2)
        if length == 126:
            (length,) = struct.unpack("!H", await self._reader.readexactly(2))
        return first & 15, await self._reader.readexactly(length)

    async def message(self) -> dict[str, Any]:
        opcode, payload = await self.next()
        assert opcode == 1
        return self.read(payload)

    @staticmethod
    def read(payload: bytes) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(payload)
        return message

    async def head(self) -> bytes:
        return await self._reader.readuntil(b"\r\n\r\n")

    async def until_hung_up(self) -> None:
        """Whatever comes meanwhile is left unanswered."""
        try:
            while await self._reader.read(1024):
                pass
        except ConnectionResetError:
            pass
