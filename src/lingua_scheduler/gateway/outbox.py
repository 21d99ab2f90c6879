"""Send buffer of a socket, with one write per event-loop iteration. The transport's own buffer is the queue, bounded
here, so no sender waits for a slow reader."""

import asyncio
import socket as sockets
from functools import cached_property
from socket import AF_INET, AF_INET6, IPPROTO_TCP
from struct import pack
from weakref import WeakSet

from aiohttp import web

from lingua_scheduler.domain.access.principals import ANONYMOUS
from lingua_scheduler.gateway.frame_tap import FrameTap
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.telemetry import metrics
from lingua_scheduler.telemetry.tasks import Nursery
from lingua_sdk.protocol import codec
from lingua_sdk.protocol.shapes import Message

_TEXT = 0x81  # a whole text frame
_PING = b"\x89\x00"
_PONG = b"\x8a"
# Maximum time for a peer to read what was sent and to answer the close frame.
CLOSE_TIMEOUT_S = 3.0
# TCP keep-alive for peers that are not pinged: three probes after a minute of silence, where the system supports it.
_KEEPALIVE = tuple(
    (getattr(sockets, option), value)
    for option, value in (
        ("TCP_KEEPIDLE", 60),
        ("TCP_KEEPINTVL", 20),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", 120_000),
    )
    if hasattr(sockets, option)
)
# Up to here joining frames is cheaper than handing over each for itself.
_JOIN_BELOW_BYTES = 8_192
# Progress messages wait this long to be batched: the steps of an utterance come close together.
PATIENCE_S = 0.02
# With this much unread a peer is slow: it can do without partials, and counts towards what all have not read.
_SLOW_BYTES = 65_536
_ROOM = 0.9
# A peer that has this much to read may wait for its pong; it takes any frame for a sign of life.
_PONG_BELOW_BYTES = 1_048_576
# With this much pending, waiting for more of the same tick saves nothing.
_FLUSH_BYTES = 65_536


class Flusher:
    """Batches writes: all messages of one event-loop iteration leave in one system call per socket."""

    def __init__(self) -> None:
        self._waiting: list[Outbox] = []
        self._patient: list[Outbox] = []

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        """Kept, because looking it up costs a system call each time."""
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


class Unread:
    """Limit of unread output of all sockets together: above it the sockets with the most are disconnected."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._slow: WeakSet[Outbox] = WeakSet()
        self.total = 0

    def note(self, outbox: "Outbox", unread: int) -> bool:
        """Whether the outbox is still there afterwards."""
        if not outbox.unread:
            self._slow.add(outbox)
        self.total += unread - outbox.unread
        outbox.unread = unread
        if not unread:
            self._slow.discard(outbox)
        elif self.total > self._max_bytes:
            return self._make_room(outbox)
        return True

    def _make_room(self, asking: "Outbox") -> bool:
        # Counted anew: they read on between our looks, and some have left.
        for outbox in list(self._slow):
            if not outbox.look():
                self._slow.discard(outbox)
        self.total = sum(outbox.unread for outbox in self._slow)
        is_there = True
        # A little more than is needed, so that the next frame does not make us count again.
        while self.total > self._max_bytes * _ROOM and self._slow:
            fullest = max(self._slow, key=lambda outbox: outbox.unread)
            self.total -= fullest.unread
            self._slow.discard(fullest)
            fullest.cut_off()
            is_there = is_there and fullest is not asking
        return is_there


class Outbox:
    """A peer for services. aiohttp sends whole frames too, so its pongs and our frames never mix."""

    __slots__ = (
        "__weakref__",
        "_answer",
        "_closers",
        "_flusher",
        "_is_closing",
        "_is_doubted",
        "_is_in_hurry",
        "_is_pinged",
        "_max_bytes",
        "_pending",
        "_pong",
        "_socket",
        "_tap",
        "_transport",
        "_unread",
        "address",
        "meter",
        "pending_bytes",
        "principal",
        "ticket",
        "unread",
    )

    def __init__(
        self,
        socket: web.WebSocketResponse,
        tap: FrameTap,
        transport: asyncio.Transport,
        max_bytes: int,
        flusher: Flusher,
        closers: Nursery,
        unread: "Unread",
    ) -> None:
        self._socket = socket
        self._tap = tap
        self._transport = transport
        self._max_bytes = max_bytes
        self._flusher = flusher
        self._closers = closers
        self._unread = unread
        # What its peer had not read when we last looked, if that was much.
        self.unread = 0
        # Headers and payloads to be written at the end of this iteration, or up to PATIENCE_S later if none is urgent.
        self._pending: list[bytes] = []
        self._is_in_hurry = False
        self.pending_bytes = 0
        # The pong that is due.
        self._answer: bytes | None = None
        self._is_closing = False
        self._is_doubted = False
        self._is_pinged = True
        self._pong: asyncio.Future[None] | None = None
        # Address of the peer, and the key under which its limits are counted; set where they are needed.
        self.address = self.meter = ""
        # Who the peer is, by its credential.
        self.principal = ANONYMOUS
        # Under which it is among the live callers.
        self.ticket = 0

    @property
    def is_open(self) -> bool:
        return not (self._is_closing or self._transport.is_closing())

    def post(self, message: Message) -> bool:
        if message.may_be_dropped and self._transport.get_write_buffer_size() > _SLOW_BYTES:
            metrics.PARTIALS_DROPPED.inc()
            return True
        return self.post_frame(codec.encode(message), message.may_wait)

    def post_encoded(self, message: Message, payload: bytes) -> bool:
        if message.may_be_dropped and self._transport.get_write_buffer_size() > _SLOW_BYTES:
            metrics.PARTIALS_DROPPED.inc()
            return True
        return self.post_frame(payload, message.may_wait)

    def post_frame(self, payload: bytes, may_wait: bool = False) -> bool:
        transport = self._transport
        if self._is_closing or transport.is_closing():
            return False
        length = len(payload)
        unread = transport.get_write_buffer_size()
        # Most have read all.
        if (unread or self.unread or self.pending_bytes + length > self._max_bytes) and not self._takes(length, unread):
            return False
        if not may_wait:
            if not self._is_in_hurry:
                self._is_in_hurry = True
                self._flusher.add(self)
        elif not self._pending:
            self._flusher.add_patient(self)
        # The header of most messages, without a call.
        header = pack("!BBH", _TEXT, 126, length) if 126 <= length < 65_536 else text_header(length)
        self._pending += (header, payload)
        self.pending_bytes += length
        if self.pending_bytes >= _FLUSH_BYTES:
            self.flush()
        return True

    def _takes(self, length: int, unread: int) -> bool:
        """Whether a peer that has not read everything may get so much more."""
        if (unread > _SLOW_BYTES or self.unread) and not self._unread.note(self, unread):
            return False
        if unread + self.pending_bytes + length > self._max_bytes:
            # Only what the system does not take at once says anything about the reader.
            self.flush()
            if self._transport.get_write_buffer_size() + length > self._max_bytes:
                metrics.OVERFLOWS.inc()
                self.close(CloseCode.TOO_SLOW, "the peer reads too slowly; connect again")
                return False
        return True

    def pong(self, payload: bytes) -> None:
        """Answer a ping. Of several that came in one tick only the last one is answered, as RFC 6455 (5.5.3) allows.

        One who does not even read what was sent before gets no answer.
        """
        if self._is_closing or self._transport.get_write_buffer_size() > _PONG_BELOW_BYTES:
            return
        self._answer = payload
        if not self._is_in_hurry:
            self._is_in_hurry = True
            self._flusher.add(self)

    def flush(self) -> None:
        """Write what is pending; must be called before the socket is closed. A closed transport is skipped."""
        if self._answer is not None:
            self._pending.append(_PONG + bytes((len(self._answer),)) + self._answer)
            self._answer = None
        pending, self._pending = self._pending, []
        pending_bytes, self.pending_bytes = self.pending_bytes, 0
        self._is_in_hurry = False
        if not pending or self._transport.is_closing():
            return
        if pending_bytes < _JOIN_BELOW_BYTES:
            self._transport.write(b"".join(pending))
        else:
            self._transport.writelines(pending)

    def look(self) -> int:
        """What its peer has not read."""
        self.unread = 0 if self._transport.is_closing() else self._transport.get_write_buffer_size()
        return self.unread

    def cut_off(self) -> None:
        """Abort at once and free the buffer: a close frame would only wait behind it."""
        metrics.OVERFLOWS.inc()
        self._is_closing = True
        self.unread = 0
        self._transport.abort()

    def close(self, code: CloseCode, reason: str) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._closers.start(self._say_goodbye(code, reason))

    async def _say_goodbye(self, code: CloseCode, reason: str) -> None:
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._socket.close(code=code, message=reason.encode())
        except TimeoutError:
            # A peer that does not read never gets the close frame, and would keep its socket and its buffer for ever.
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
        """Ping if nothing was received since the last check; abort if there was no answer to the previous ping."""
        if self._is_closing or self._transport.is_closing() or not self._is_pinged:
            return
        if self._tap.is_unread:
            # It talks too much rather than too little. It may have answered, so it is asked anew when it is read again.
            self._is_doubted = False
            return
        if self._tap.was_heard:
            self._tap.was_heard = self._is_doubted = False
        elif self._is_doubted:
            self._transport.abort()
        else:
            self._is_doubted = True
            self._transport.write(_PING)

    @property
    def is_heard(self) -> bool:
        """Whether anything was received since the last check of `ping_if_silent`, or no ping is unanswered."""
        return self._tap.was_heard or self._tap.is_unread or not self._is_doubted

    def ping(self, is_on: bool) -> None:
        self._is_pinged = is_on
        socket = None if is_on else self._transport.get_extra_info("socket")
        if socket is not None and socket.family in (AF_INET, AF_INET6):
            for option, value in _KEEPALIVE:
                socket.setsockopt(IPPROTO_TCP, option, value)

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
