"""Frame tap: hands a frame to its handler as it is parsed, if it can be handled synchronously; others are queued.

It uses private parts of aiohttp; tests/gateway check that they behave as needed."""

import sys
from collections.abc import Callable
from typing import Any

from aiohttp import WSMsgType
from aiohttp._websocket.reader import WebSocketDataQueue

# Takes a frame and whether it is text; False when it has to wait in line.
AtOnce = Callable[[bytes, bool], bool]


class FrameTap(WebSocketDataQueue):
    """Keeps frames in order: while one is being handled, or some are queued, further ones are queued behind them."""

    at_once: AtOnce | None = None
    # What is longer waits in line, where it is answered.
    most_at_once = sys.maxsize
    # Frames are queued, or the last one taken from the queue is still being handled.
    is_busy = False
    # Anything came since this was last looked at: a sign of life.
    was_heard = False
    # Nothing is read just now, because the peer was too fast.
    is_held = False
    # Called once, when the queue was full and is not any more.
    on_room: Callable[[], None] | None = None
    # The socket is being closed: of further frames only the close frame counts.
    is_deaf = False
    # Callbacks for a ping with its payload, and for a pong. Neither waits for the frames before it.
    on_ping: Callable[[bytes], None] | None = None
    on_pong: Callable[[], None] | None = None

    def feed_data(self, data: Any, size: int) -> None:
        self.was_heard = True
        kind = data.type
        if kind is WSMsgType.TEXT or kind is WSMsgType.BINARY:
            if (
                not self.is_busy
                and self.at_once is not None
                and len(data.data) <= self.most_at_once
                and self.at_once(data.data, kind is WSMsgType.TEXT)
            ):
                return
            if self.is_deaf:
                return
        elif kind is WSMsgType.PING and self.on_ping is not None:
            self.on_ping(bytes(data.data))
            return
        elif kind is WSMsgType.PONG and self.on_pong is not None:
            self.on_pong()
            return
        self.is_busy = True
        super().feed_data(data, size)

    @property
    def is_unread(self) -> bool:
        """Nothing is read just now, because the peer was too fast or this queue is full: it cannot be heard."""
        return self.is_held or self._protocol._reading_paused

    async def read(self) -> Any:
        data = await super().read()
        if self.on_room is not None and not self._protocol._reading_paused:
            on_room, self.on_room = self.on_room, None
            on_room()
        return data

    def one_done(self) -> None:
        """The frame taken from the queue has been handled."""
        if not self._buffer:
            self.is_busy = False

    def turn_deaf(self) -> None:
        self.is_deaf = True
        self.at_once = None
