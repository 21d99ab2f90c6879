"""Connections with deadlines: aiohttp has none for the first headers, nor for an answer that is not read.

This leans on parts of aiohttp that it keeps to itself; tests/gateway holds it to what we need of them."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic, thread_time
from typing import Any

from aiohttp import web
from aiohttp.web_request import BaseRequest

from lingua_scheduler.domain.guards.addresses import NOBODY, AddressBook
from lingua_scheduler.domain.guards.rates import Bucket
from lingua_scheduler.gateway.scales import CPU_BURST_S, LEAST_WAIT_S
from lingua_scheduler.settings import ServerSettings
from lingua_scheduler.telemetry import metrics

# Up to so many times its limit an address is told why it is refused; beyond that its connections are cut unheard.
_HARD_FACTOR = 2
# So much of a request is parsed in one go: a chunk of one byte costs as much as a long one.
PIECE_BYTES = 8_192
# To take the chunks of a body out of aiohttp's buffer costs as much again as to put them in.
TAKEN_OUT = 2
# A request costs its connection no more than this: while it waited, the CPU went to others.
MAX_REQUEST_CPU_S = 0.005

_CUT = metrics.by(metrics.CONNECTIONS_CUT, "headers", "answer", "sockets")


class Connection(web.RequestHandler):
    """One TCP connection, for HTTP or a WebSocket; of a WebSocket it only passes every read on to the valve."""

    __slots__ = (
        "_addresses",
        "_answer_timeout_s",
        "_backlog",
        "_cpu",
        "_header_timeout_s",
        "_headers_due",
        "_meter",
        "_resting",
        "caller",
        "is_one_too_many",
        "local_address",
    )

    def __init__(self, addresses: AddressBook, settings: ServerSettings, *arguments: Any, **options: Any) -> None:
        # What is packed is unpacked by those who know how much they want of it, see console/bodies.py.
        options["auto_decompress"] = False
        super().__init__(*arguments, keepalive_timeout=settings.keepalive_ms / 1000, **options)
        self._addresses = addresses
        self._answer_timeout_s = settings.body_timeout_ms / 1000
        self._header_timeout_s = settings.header_timeout_ms / 1000
        self._headers_due: asyncio.TimerHandle | None = None
        self._meter = ""
        self._cpu = Bucket(settings.max_connection_cpu_percent / 100, CPU_BURST_S)
        # What was read and is not parsed yet; nothing is read on top of it.
        self._backlog = b""
        self._resting: asyncio.Handle | None = None
        self.caller = NOBODY
        self.local_address = ""
        # Its requests are answered with 429.
        self.is_one_too_many = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._headers_due = self._loop.call_later(self._header_timeout_s, self._look_for_headers)
        peer, here = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        if not isinstance(peer, tuple) or not isinstance(here, tuple):
            return
        self.caller, self.local_address = self._addresses.caller(str(peer[0])), str(here[0])
        self._meter = self.caller.meter
        place = self._addresses.enter(self._meter)
        self.is_one_too_many = place > self._addresses.max_sockets
        if place > _HARD_FACTOR * self._addresses.max_sockets:
            self._cut("sockets")

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._headers_due is not None:
            self._headers_due.cancel()
        if self._resting is not None:
            self._resting.cancel()
        self._backlog = b""
        meter, self._meter = self._meter, ""
        self._addresses.leave(meter)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        valve = self._payload_parser
        if valve is not None and not self._backlog:
            # A WebSocket. As aiohttp does it, without its questions.
            if data and not (self._force_close or self._close) and valve.feed_data(data)[0]:
                self.close()
        elif data and (self._backlog or self._resting is not None):
            self._backlog += data
        else:
            self._parse(data)

    def _parse(self, data: bytes) -> None:
        """In pieces, as long as their cost allows it and somebody takes what they bring; the rest waits."""
        while True:
            piece, data = data[:PIECE_BYTES], data[PIECE_BYTES:]
            began_s = thread_time()
            super().data_received(piece)
            wait_s = self._cpu.take(TAKEN_OUT * (thread_time() - began_s), monotonic())
            if wait_s:
                self._rest(max(wait_s, LEAST_WAIT_S))
            if not data or wait_s or self._reading_paused or self._buffer_paused:
                break
        if data:
            self._backlog = data

    def charge(self, cpu_s: float) -> None:
        """What a request of this connection cost beside being parsed."""
        if wait_s := self._cpu.take(cpu_s, monotonic()):
            self._rest(max(wait_s, LEAST_WAIT_S))

    def _rest(self, wait_s: float) -> None:
        if self._resting is not None:
            self._resting.cancel()
        self._pause_transport_reading()
        self._resting = self._loop.call_later(wait_s, self._go_on)

    def _go_on(self) -> None:
        self._resting = None
        if self._reading_paused or self._buffer_paused or self.transport is None:
            # Whoever paused it lets it go on.
            return
        data, self._backlog = self._backlog, b""
        if data:
            self._parse(data)
        if not self._is_held:
            self._resume_transport_reading()

    @property
    def _is_held(self) -> bool:
        """By aiohttp, which waits until somebody takes what came."""
        return self._reading_paused or self._buffer_paused

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Only if it is paused: aiohttp asks for it with every chunk that is taken out of a body."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def _resume_transport_reading(self) -> None:
        """All that aiohttp does to read on ends here. It knows nothing of a rest."""
        if self._resting is not None:
            return
        if self._backlog:
            self._resting = self._loop.call_soon(self._go_on)
        else:
            super()._resume_transport_reading()

    async def _handle_request(
        self, request: BaseRequest, start_time: float | None, request_handler: Callable[..., Awaitable[Any]]
    ) -> tuple[web.StreamResponse, bool]:
        """Whoever asks without waiting for answers is charged for these too; all others wait for each anyway."""
        began_s = thread_time()
        answered = await super()._handle_request(request, start_time, request_handler)
        if self._messages:
            cpu_s = min(thread_time() - began_s, MAX_REQUEST_CPU_S)
            if wait_s := self._cpu.take(cpu_s, monotonic()):
                # To pause reading would not do: up to 32 requests wait here already.
                await asyncio.sleep(max(wait_s, LEAST_WAIT_S))
        return answered

    async def finish_response(
        self, request: BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        try:
            async with asyncio.timeout(self._answer_timeout_s):
                return await super().finish_response(request, resp, start_time)
        except TimeoutError:
            self._cut("answer")
            return resp, True

    def _look_for_headers(self) -> None:
        if not self._request_count:
            self._cut("headers")

    def _cut(self, reason: str) -> None:
        _CUT[reason].inc()
        if self.transport is not None:
            self.transport.abort()


def charge(request: web.BaseRequest, cpu_s: float) -> None:
    """Let the connection of a request rest when reading that cost much."""
    if isinstance(request.protocol, Connection):
        request.protocol.charge(cpu_s)


class _Server(web.Server):
    def __init__(self, addresses: AddressBook, settings: ServerSettings, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._addresses = addresses
        self._settings = settings

    def __call__(self) -> web.RequestHandler:
        return Connection(self._addresses, self._settings, self, loop=self._loop, **self._kwargs)


class Runner(web.AppRunner):
    """An AppRunner whose connections have deadlines, and places for each address."""

    __slots__ = ("_addresses", "_settings")

    def __init__(self, app: web.Application, addresses: AddressBook, settings: ServerSettings, **options: Any) -> None:
        super().__init__(app, **options)
        self._addresses = addresses
        self._settings = settings

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        return _Server(
            self._addresses,
            self._settings,
            made.request_handler,
            request_factory=made.request_factory,
            handler_cancellation=made.handler_cancellation,
            loop=made._loop,
            **made._kwargs,
        )
