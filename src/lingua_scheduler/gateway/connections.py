"""Connections with deadlines: aiohttp has none for the first headers, nor for an answer that is not read.

This leans on parts of aiohttp that it keeps to itself; tests/gateway holds it to what we need of them."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from time import monotonic, perf_counter, thread_time
from types import coroutine
from typing import Any, TypeVar, cast

from aiohttp import web
from aiohttp.web_request import BaseRequest

from lingua_scheduler.domain.guards.addresses import NOBODY, AddressBook
from lingua_scheduler.domain.guards.rates import Bucket
from lingua_scheduler.gateway.fair_queue import SLICE_S, FairQueue, Turn
from lingua_scheduler.gateway.malformed import DiscreetHandler, forget_frames, forget_missing_route
from lingua_scheduler.gateway.paced_transport import PacedTransport
from lingua_scheduler.gateway.scales import CPU_BURST_S, LEAST_WAIT_S
from lingua_scheduler.setting_sections.server import ServerSettings
from lingua_scheduler.telemetry import metrics

# Up to this many times its limit an address gets a 429; beyond that its connections are closed without an answer.
_HARD_FACTOR = 2
# Maximum bytes of a request parsed in one go: a chunk of one byte costs as much as a long one.
PIECE_BYTES = 4_096
# With more than this waiting for its turn, nothing is read on top of it.
BACKLOG_BYTES = 65_536
# To take the chunks of a body out of aiohttp's buffer costs as much again as to put them in.
TAKEN_OUT = 2

T = TypeVar("T")

_CUT = metrics.by(metrics.CONNECTIONS_CUT, "headers", "answer", "sockets")


class Connection(DiscreetHandler):
    """One TCP connection, for HTTP or a WebSocket; of a WebSocket it only passes every read on to the valve."""

    __slots__ = (
        "_addresses",
        "_answer_s",
        "_answer_timeout_s",
        "_backlog",
        "_cpu",
        "_header_timeout_s",
        "_headers_due",
        "_meter",
        "_next",
        "_paced",
        "_stopping",
        "_turns",
        "caller",
        "is_internal",
        "is_one_too_many",
        "local_address",
    )

    def __init__(
        self, addresses: AddressBook, turns: FairQueue, settings: ServerSettings, *arguments: Any, **options: Any
    ) -> None:
        self._stopping: asyncio.Future[None] | None = None
        # Bodies are decompressed by console/bodies.py, which knows the limit of the operation.
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
        self._turns = turns
        # CPU time of answering the last request, without waiting.
        self._answer_s = 0.0
        # The end of its rest, or its place in the queue.
        self._next: asyncio.Handle | Turn | None = None
        # With TLS, its transport.
        self._paced: PacedTransport | None = None
        self.caller = NOBODY
        self.is_internal = False  # of the listener for operators
        self.local_address = ""
        # Its requests are answered with 429.
        self.is_one_too_many = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if transport.get_extra_info("sslcontext") is not None:
            transport = self._paced = PacedTransport(cast("asyncio.Transport", transport))
        super().connection_made(transport)
        self._headers_due = self._loop.call_later(self._header_timeout_s, self._look_for_headers)
        if self.local_address:
            return  # it arrived before its TLS handshake
        peer, here = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        if isinstance(peer, tuple) and isinstance(here, tuple) and not self.arrive(str(peer[0]), str(here[0])):
            self._cut("sockets")

    def arrive(self, peer: str, here: str) -> bool:
        """Take a place of the peer's address; False if it has far too many, and must be closed without an answer."""
        self.caller, self.local_address = self._addresses.caller(peer), here
        self._meter = self.caller.meter
        place = self._addresses.enter(self._meter)
        self.is_one_too_many = place > self._addresses.max_sockets
        return place <= _HARD_FACTOR * self._addresses.max_sockets

    def give_back_place(self) -> None:
        meter, self._meter = self._meter, ""
        self._addresses.leave(meter)

    def never_made(self) -> None:
        """Instead of `connection_lost` where a TLS handshake failed; the parser would hold the connection in a ring."""
        self.give_back_place()
        self._parser = None

    def connection_lost(self, exc: BaseException | None) -> None:  # noqa: ARG002 - the shape asyncio asks for
        if self._headers_due is not None:
            self._headers_due.cancel()
        if self._next is not None:
            self._next.cancel()
        self._backlog = b""
        if self._paced is not None:
            self._paced.forget()
        self.give_back_place()
        waiter, task = self._waiter, self._task_handler
        # Not with the error: a writer that waits would raise it, and it would hold all frames of the writer in a cycle.
        super().connection_lost(None)
        # A request that was read and not begun: aiohttp would begin it without what it has just thrown away.
        if task is not None and waiter is not None and waiter.done():
            task.cancel()
        self._messages.clear()  # their bodies hold the connection

    def pause_writing(self) -> None:
        if self._paced is not None:
            self._paced.pause()
        # What waited may have filled it again before aiohttp learned that there was room.
        if not self._paused:
            super().pause_writing()

    def resume_writing(self) -> None:
        if self._paced is None or self._paced.resume():
            super().resume_writing()

    def data_received(self, data: bytes) -> None:
        valve = self._payload_parser
        if valve is not None and not self._backlog:
            # A WebSocket. As aiohttp does it, without its questions.
            if data and not (self._force_close or self._close) and valve.feed_data(data)[0]:
                self.close()
        elif not data:
            # aiohttp continues with the data kept in its parser.
            super().data_received(data)
        else:
            self._backlog += data
            if not self._is_resting and not self._is_held:
                self._next = self._turns.wait(self._go_on)
            if len(self._backlog) > BACKLOG_BYTES:
                self._pause_transport_reading()

    def _go_on(self) -> None:
        """Parse in pieces while the CPU budget lasts and aiohttp is not paused; the rest waits."""
        self._next = None
        if self._is_held or self.transport is None:
            # The code that paused it resumes it.
            return
        data, self._backlog, at, cpu_s = self._backlog, b"", 0, 0.0
        while at < len(data) and cpu_s < SLICE_S and not self._is_resting and not self._is_held:
            began_s = thread_time()
            super().data_received(data[at : at + PIECE_BYTES])
            spent_s = TAKEN_OUT * (thread_time() - began_s)
            at, cpu_s = at + PIECE_BYTES, cpu_s + spent_s
            self.charge(spent_s)
        self._backlog = data[at:]
        if not self._is_held:
            self._resume_transport_reading()

    def charge(self, cpu_s: float) -> None:
        """Charge the CPU time of reading a request."""
        if wait_s := self._cpu.take(cpu_s, monotonic()):
            if self._next is not None:
                self._next.cancel()
            self._pause_transport_reading()
            self._next = self._loop.call_later(max(wait_s, LEAST_WAIT_S), self._rested)

    def _rested(self) -> None:
        self._next = self._turns.wait(self._go_on)

    @property
    def _is_resting(self) -> bool:
        """It rests, or waits for its turn."""
        return self._next is not None

    @property
    def _is_held(self) -> bool:
        """Paused by aiohttp, until its buffered data is read."""
        return self._reading_paused or self._buffer_paused

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Only if it is paused: aiohttp asks for it with every chunk that is taken out of a body."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def _resume_transport_reading(self) -> None:
        """aiohttp resumes reading only through this method. It does not know our delays and turns."""
        if self._is_resting:
            return
        if self._backlog:
            self._next = self._turns.wait(self._go_on)
        else:
            super()._resume_transport_reading()

    @property
    def _handler_waiter(self) -> asyncio.Future[None] | None:
        """Set while a shutdown waits for the request that runs.

        A future that is done is not returned: if the shutdown times out in the tick in which the request ends, aiohttp
        would set the result of a cancelled future.
        """
        stopping = self._stopping
        return None if stopping is None or stopping.done() else stopping

    @_handler_waiter.setter
    def _handler_waiter(self, stopping: asyncio.Future[None] | None) -> None:
        self._stopping = stopping

    async def _handle_request(
        self, request: BaseRequest, start_time: float | None, request_handler: Callable[..., Awaitable[Any]]
    ) -> tuple[web.StreamResponse, bool]:
        """Pipelined requests are also charged for their responses; other callers wait for each response anyway."""
        if self.transport is None:
            # Lost in the tick before, when aiohttp could not tell this request: it would wait for its body.
            return web.Response(), True
        self._answer_s = 0.0
        try:
            answered: tuple[web.StreamResponse, bool] = await self._weighed(
                super()._handle_request(request, start_time, request_handler)
            )
        except ConnectionError as error:
            # aiohttp would keep it, with the frame that has the task that it is of.
            forget_frames(error)
            return web.Response(), True
        finally:
            # Kept by the body with which it ended, and by a route that is none.
            forget_frames(request.content.exception())
            forget_missing_route(request)
        if self._messages and (wait_s := self._cpu.take(self._answer_s, monotonic())):
            # To pause reading would not do: up to 32 requests wait here already.
            await asyncio.sleep(max(wait_s, LEAST_WAIT_S))
        return answered

    @coroutine
    def _weighed(self, handling: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Run it step by step, and take the time of each step from the budget of all; a WebSocket is not weighed."""
        resume: Callable[[Any], Any] = handling.send
        sent: BaseException | None = None
        while True:
            began_s = perf_counter()
            try:
                awaited = resume(sent)
            except StopIteration as end:
                answer: T = end.value
                return answer
            finally:
                # An exception that was passed on must not hold the frame that holds it.
                sent = None
                spent_s = perf_counter() - began_s
                self._answer_s += spent_s
                self._turns.spend(spent_s)
            try:
                yield awaited
                resume = handling.send
            except BaseException as error:
                resume, sent = handling.throw, error
            else:
                if self._payload_parser is not None:
                    return (yield from handling.__await__())

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
