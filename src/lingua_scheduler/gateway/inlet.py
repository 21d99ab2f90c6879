"""The way into a socket. What can be done at once is done when it is parsed; all else waits in aiohttp's queue.

This leans on parts of aiohttp that it keeps to itself; tests/gateway holds it to what we need of them."""

import asyncio
from collections.abc import Callable
from typing import Any

from aiohttp import WSCloseCode, WSMsgType, web
from aiohttp._websocket.reader import WebSocketDataQueue, WebSocketReader
from aiohttp._websocket.writer import WebSocketWriter
from aiohttp.web_request import BaseRequest

QUEUE_BYTES = 65_536

# Takes a frame and whether it is text; False when it has to wait in line.
AtOnce = Callable[[bytes, bool], bool]


class Inlet(WebSocketDataQueue):
    """Frames keep their order: while one is being worked on, or some wait, the next ones wait behind them."""

    at_once: AtOnce | None = None
    # Somebody works on a frame that was taken out of the queue.
    is_busy = False
    # Anything came since this was last looked at: a sign of life.
    was_heard = False

    def feed_data(self, data: Any, size: int) -> None:
        self.was_heard = True
        kind = data.type
        is_next = not self.is_busy and not self._buffer and (kind is WSMsgType.TEXT or kind is WSMsgType.BINARY)
        if is_next and self.at_once is not None and self.at_once(data.data, kind is WSMsgType.TEXT):
            return
        super().feed_data(data, size)


class Accepted(web.WebSocketResponse):
    """A WebSocket whose frames come through an inlet."""

    inlet: Inlet
    # What must leave before a goodbye does, whoever says it: we, or aiohttp because the peer did.
    before_close: Callable[[], None] | None = None

    async def close(self, *, code: int = WSCloseCode.OK, message: bytes = b"", drain: bool = True) -> bool:
        if self.before_close is not None:
            self.before_close()
        return await super().close(code=code, message=message, drain=drain)

    def _post_start(self, request: BaseRequest, protocol: str | None, writer: WebSocketWriter) -> None:
        self._ws_protocol = protocol
        self._writer = writer
        self.inlet = Inlet(request._protocol, QUEUE_BYTES, loop=asyncio.get_running_loop())
        self._reader = self.inlet
        self._parser = WebSocketReader(self.inlet, self._max_msg_size, compress=False, decode_text=False)
        request.protocol.set_parser(self._parser)
        request.protocol.keep_alive(False)
