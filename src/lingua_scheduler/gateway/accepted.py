"""A WebSocket as we accept it: read through a valve and an inlet of ours, closed after all that was posted has left.

This leans on parts of aiohttp that it keeps to itself; tests/gateway holds it to what we need of them."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from aiohttp import WSCloseCode, web
from aiohttp._websocket.reader import WebSocketReader
from aiohttp._websocket.writer import WebSocketWriter
from aiohttp.web_request import BaseRequest

from lingua_scheduler.gateway.inlet import Inlet
from lingua_scheduler.gateway.valve import Rates, Unfinished, Valve

QUEUE_BYTES = 65_536


class Accepted(web.WebSocketResponse):
    """A WebSocket whose frames come through a valve and an inlet."""

    inlet: Inlet
    valve: Valve
    # What must leave before a goodbye does, whoever says it: we, or aiohttp because the peer did.
    before_close: Callable[[], None] | None = None

    def __init__(self, rates: Rates, unfinished: Unfinished, **options: Any) -> None:
        super().__init__(**options)
        self._rates = rates
        self._unfinished = unfinished

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
        self.inlet = Inlet(request._protocol, QUEUE_BYTES, loop=asyncio.get_running_loop())
        self._reader = self.inlet
        parser = WebSocketReader(self.inlet, self._max_msg_size, compress=False, decode_text=False)
        self.valve = Valve(parser, self.inlet, request.protocol, self._rates, self._unfinished)
        # All that aiohttp does with a parser is to feed it.
        self._parser = cast("WebSocketReader", self.valve)
        request.protocol.set_parser(self._parser)
        request.protocol.keep_alive(False)


def _strip(error: BaseException) -> BaseException:
    """Without where it came from."""
    error.__traceback__ = error.__context__ = error.__cause__ = None
    return error
