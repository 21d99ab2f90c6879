"""Output of a TLS connection, encrypted only when there is room below.

The event loop's TLS layer takes all that it is given. When a slow peer reads a little, it passes all that waits to its
socket, where it is not counted, and it keeps the memory of the most that ever waited. So it gets little at a time, and
the rest waits here, where it is counted and freed."""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any

# As much as the TLS layer and its socket each take before they pause: they hold two or three of these.
PIECE_BYTES = 65_536

Piece = bytes | bytearray | memoryview


class PacedTransport(asyncio.Transport):
    """Has what aiohttp and the outbox need of a transport. Its protocol says when the one below pauses and resumes."""

    def __init__(self, below: asyncio.Transport) -> None:
        super().__init__()
        self._below = below
        self._waiting: deque[Piece] = deque()
        self._waiting_bytes = 0
        self._is_paused = False

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> bool:
        """Whether all that waited is below, and there is room for more."""
        self._is_paused = False
        while self._waiting and not self._is_paused:
            piece = self._waiting.popleft()
            self._waiting_bytes -= len(piece)
            self._write(piece)
        return not self._is_paused

    def forget(self) -> None:
        """What waits will not be sent."""
        self._waiting.clear()
        self._waiting_bytes = 0

    def write(self, data: Piece) -> None:
        if self._is_paused:
            self._waiting.append(data)
            self._waiting_bytes += len(data)
        else:
            self._write(data)

    def writelines(self, pieces: Iterable[Any]) -> None:
        for piece in pieces:
            self.write(piece)

    def _write(self, data: Piece) -> None:
        """Writing may pause at each piece; then the rest comes before all else that waits."""
        if len(data) <= PIECE_BYTES:
            self._below.write(data)
            return
        rest = memoryview(data)
        while rest and not self._is_paused:
            self._below.write(rest[:PIECE_BYTES])
            rest = rest[PIECE_BYTES:]
        if rest:
            self._waiting.appendleft(rest)
            self._waiting_bytes += len(rest)

    def get_write_buffer_size(self) -> int:
        return self._waiting_bytes + self._below.get_write_buffer_size()

    def close(self) -> None:
        """All that waits goes below, which sends it until the deadline of its own end."""
        while self._waiting:
            self._below.write(self._waiting.popleft())
        self._waiting_bytes = 0
        self._below.close()

    def abort(self) -> None:
        self.forget()
        self._below.abort()

    def is_closing(self) -> bool:
        return self._below.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._below.get_extra_info(name, default)

    def pause_reading(self) -> None:
        self._below.pause_reading()

    def resume_reading(self) -> None:
        self._below.resume_reading()
