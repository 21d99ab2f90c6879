"""An accepted WebSocket: read through our valve and tap, and closed only after everything posted has been sent.

It uses private parts of aiohttp; tests/gateway check that they behave as needed."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from aiohttp import WSCloseCode, web
from aiohttp._websocket.reader import WebSocketReader
from aiohttp._websocket.writer import WebSocketWriter
from aiohttp.web_request import BaseRequest

from lingua_scheduler.gateway.frame_tap import FrameTap
from lingua_scheduler.gateway.valve import Commons, SocketRates, Valve

QUEUE_BYTES = 65_536


class Accepted(web.WebSocketResponse):
    """A WebSocket whose frames pass a valve (rate limit) and an tap (frame tap)."""

    tap: FrameTap
    valve: Valve
    # What must be sent before the close frame, whether we close or aiohttp answers the peer's close.
    before_close: Callable[[], None] | None = None

    def __init__(self, rates: SocketRates, commons: Commons, **options: Any) -> None:
        super().__init__(**options)
        self._rates = rates
        self._commons = commons

    async def close(self, *, code: int = WSCloseCode.OK, message: bytes = b"", drain: bool = True) -> bool:
        if self.before_close is not None:
            self.before_close()
        try:
            return await super().close(code=code, message=message, drain=drain)
        finally:
            if self._exception is not None:
                # What it was raised through holds this socket: a cycle that only a full collection would find.
                self._exception = _strip(self._exception)

    def _post_start(self, request: BaseRequest, protocol: str | None, writer: WebSocketWriter) -> None:
        self._ws_protocol = protocol
        self._writer = writer
        self.tap = FrameTap(request._protocol, QUEUE_BYTES, loop=asyncio.get_running_loop())
        self._reader = self.tap
        parser = WebSocketReader(self.tap, self._max_msg_size, compress=False, decode_text=False)
        self.valve = Valve(parser, self.tap, request.protocol, self._rates, self._commons)
        # All that aiohttp does with a parser is to feed it.
        self._parser = cast("WebSocketReader", self.valve)
        request.protocol.set_parser(self._parser)
        request.protocol.keep_alive(False)


def _strip(error: BaseException) -> BaseException:
    """Without where it came from."""
    error.__traceback__ = error.__context__ = error.__cause__ = None
    return error
