"""The way out of a socket: one write for each tick. The transport's own buffer is the queue, bounded here, so nobody
waits for a reader."""

import asyncio
from functools import cached_property
from struct import pack

from aiohttp import web

from lingua_scheduler.gateway.inlet import Inlet
from lingua_scheduler.protocol import codec
from lingua_scheduler.protocol.shapes import Message
from lingua_scheduler.services.peers import CloseCode
from lingua_scheduler.telemetry import metrics
from lingua_scheduler.telemetry.tasks import Nursery

_TEXT = 0x81  # a whole text frame
_PING = b"\x89\x00"
# How long a peer may take to read what was sent and to answer the goodbye.
CLOSE_TIMEOUT_S = 3.0
# Up to here joining frames is cheaper than handing over each for itself.
_JOIN_BELOW_BYTES = 8_192
# What only tells how things go waits so long for company: the steps of an utterance come close together.
PATIENCE_S = 0.02
# With this much pending, waiting for more of the same tick saves nothing.
_FLUSH_BYTES = 65_536


class Flusher:
    """Writes at the end of a tick what was posted in it: a write is a call of the system, whatever it carries."""

    def __init__(self) -> None:
        self._waiting: list[Outbox] = []
        self._patient: list[Outbox] = []

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        """Kept, because looking it up costs a call of the system each time."""
        return asyncio.get_running_loop()

    def add(self, outbox: "Outbox") -> None:
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(outbox)

    def add_patient(self, outbox: "Outbox") -> None:
        """As `add`, for what may wait a moment for company."""
        if not self._patient:
            self._loop.call_later(PATIENCE_S, self._flush_patient)
        self._patient.append(outbox)

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        for outbox in waiting:
            outbox.flush()

    def _flush_patient(self) -> None:
        patient, self._patient = self._patient, []
        for outbox in patient:
            outbox.flush()


class Outbox:
    """A peer for services. aiohttp sends whole frames too, so its pongs and our frames never mix."""

    __slots__ = (
        "__weakref__",
        "_closers",
        "_flusher",
        "_inlet",
        "_is_closing",
        "_is_doubted",
        "_is_in_hurry",
        "_max_bytes",
        "_pending",
        "_pong",
        "_socket",
        "_transport",
        "pending_bytes",
    )

    def __init__(
        self,
        socket: web.WebSocketResponse,
        inlet: Inlet,
        transport: asyncio.Transport,
        max_bytes: int,
        flusher: Flusher,
        closers: Nursery,
    ) -> None:
        self._socket = socket
        self._inlet = inlet
        self._transport = transport
        self._max_bytes = max_bytes
        self._flusher = flusher
        self._closers = closers
        # Headers and payloads that leave at the end of this tick, or in a moment if none of them is in a hurry.
        self._pending: list[bytes] = []
        self._is_in_hurry = False
        self.pending_bytes = 0
        self._is_closing = False
        self._is_doubted = False
        self._pong: asyncio.Future[None] | None = None

    def post(self, message: Message) -> bool:
        return self.post_frame(codec.encode(message), message.may_wait)

    def post_frame(self, payload: bytes, may_wait: bool = False) -> bool:
        transport = self._transport
        if self._is_closing or transport.is_closing():
            return False
        length = len(payload)
        if transport.get_write_buffer_size() + self.pending_bytes + length > self._max_bytes:
            # Only what the system does not take at once says anything about the reader.
            self.flush()
            if transport.get_write_buffer_size() + length > self._max_bytes:
                metrics.OVERFLOWS.inc()
                self.close(CloseCode.TOO_SLOW, "messages are not being read; connect again")
                return False
        if not may_wait:
            if not self._is_in_hurry:
                self._is_in_hurry = True
                self._flusher.add(self)
        elif not self._pending:
            self._flusher.add_patient(self)
        self._pending += (text_header(length), payload)
        self.pending_bytes += length
        if self.pending_bytes >= _FLUSH_BYTES:
            self.flush()
        return True

    def flush(self) -> None:
        """Hand over what is pending; whoever closes the socket must have done so before. The dead get nothing."""
        pending, self._pending = self._pending, []
        pending_bytes, self.pending_bytes = self.pending_bytes, 0
        self._is_in_hurry = False
        if not pending or self._transport.is_closing():
            return
        if pending_bytes < _JOIN_BELOW_BYTES:
            self._transport.write(b"".join(pending))
        else:
            self._transport.writelines(pending)

    def close(self, code: CloseCode, reason: str) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._closers.start(self._say_goodbye(code, reason))

    async def _say_goodbye(self, code: CloseCode, reason: str) -> None:
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._socket.close(code=code, message=reason.encode())
        except TimeoutError:
            # A peer that does not read cannot be told, and would keep its socket and its buffer for ever.
            self._transport.abort()

    async def answers(self, within_s: float) -> bool:
        """Ping, and see whether a pong comes back; the socket's pump tells us of it."""
        if self._is_closing or self._transport.is_closing():
            return False
        pong = self._pong
        if pong is None:
            pong = self._pong = asyncio.get_running_loop().create_future()
            self._transport.write(_PING)
        await asyncio.wait((pong,), timeout=within_s)
        if self._pong is pong:
            self._pong = None
        return pong.done()

    def ping_if_silent(self) -> None:
        """Nothing came since the last look: ask. Nothing came then either: nobody is there."""
        if self._is_closing or self._transport.is_closing():
            return
        if self._inlet.was_heard:
            self._inlet.was_heard = self._is_doubted = False
        elif self._is_doubted:
            self._transport.abort()
        else:
            self._is_doubted = True
            self._transport.write(_PING)

    def pong_came(self) -> None:
        if self._pong is not None:
            self._pong.set_result(None)
            self._pong = None


def text_header(length: int) -> bytes:
    """The head of an unmasked text frame, as servers send it."""
    if length < 126:
        return bytes((_TEXT, length))
    if length < 65_536:
        return pack("!BBH", _TEXT, 126, length)
    return pack("!BBQ", _TEXT, 127, length)
