"""Shared by both WebSocket endpoints: accepting, the pump, bounded frames, the outbox."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from itertools import count
from time import monotonic
from typing import NamedTuple, TypeVar
from weakref import WeakSet

import msgspec
from aiohttp import WebSocketError, WSMsgType, web

from lingua_scheduler.domain.access.principals import ANONYMOUS, Denied, Principal
from lingua_scheduler.domain.guards.rates import Bucket
from lingua_scheduler.gateway.accepted import Accepted
from lingua_scheduler.gateway.fair_queue import FairQueue
from lingua_scheduler.gateway.frame_tap import AtOnce
from lingua_scheduler.gateway.outbox import CLOSE_TIMEOUT_S, Flusher, Outbox, Unread
from lingua_scheduler.gateway.presented import PROTOCOL
from lingua_scheduler.gateway.valve import RUN_FRAMES, WEIGHED_BYTES, Commons, SocketRates, Unfinished
from lingua_scheduler.services.access.live import LiveCallers
from lingua_scheduler.services.attempts.peers import CloseCode, code_for
from lingua_scheduler.setting_sections.server import ServerSettings
from lingua_scheduler.telemetry import logs, metrics
from lingua_scheduler.telemetry.tasks import Nursery
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.protocol.bulk import Bulk
from lingua_sdk.protocol.shapes import ErrorMessage

_log = logs.get()

M = TypeVar("M")

# Above the limit a frame is answered with an error; this many times above it the socket closes unread.
HARD_LIMIT_FACTOR = 4
# An unreadable frame counts once more for each this many bytes.
BAD_FRAME_BYTES = 262_144

_REFUSED = metrics.by(metrics.UNREADABLE, "node", "session")
_THROTTLED = metrics.by(metrics.THROTTLED, "node", "session")
_CUT_OFF = metrics.by(metrics.CUT_OFF, "unreadable", "strays")


class Frame(NamedTuple):
    data: bytes
    is_text: bool


class Sockets:
    """Accepts sockets and remembers them, so that a stop can wait for their ends."""

    def __init__(self, settings: ServerSettings, turns: FairQueue, live: LiveCallers) -> None:
        self._settings = settings
        self._live = live
        self._flusher = Flusher()
        self._closers = Nursery("closers")
        self._serials = count(1)
        self._outboxes: WeakSet[Outbox] = WeakSet()
        self._unread = Unread(settings.outboxes_max_bytes)
        unfinished = Unfinished(settings.max_unfinished_bytes, settings.message_timeout_ms / 1000)
        self._commons = Commons(unfinished, turns, backlogs=FairQueue(1.0))

    def link_id(self) -> str:
        return f"c{next(self._serials):x}"

    async def accept(
        self, request: web.Request, rates: SocketRates, principal: Principal = ANONYMOUS
    ) -> tuple[Accepted, Outbox]:
        socket = Accepted(
            rates._replace(cpu_share=self._settings.max_connection_cpu_percent / 100),
            self._commons,
            timeout=CLOSE_TIMEOUT_S,
            # What else a browser offers may be its credential, and is never answered.
            protocols=(PROTOCOL,),
            max_msg_size=self._settings.max_frame_bytes * HARD_LIMIT_FACTOR,
            compress=False,
            autoping=False,  # the outbox wants to hear of pongs
            decode_text=False,
        )
        await socket.prepare(request)
        transport = request.transport
        if transport is None:
            raise ConnectionResetError("the peer disconnected during the handshake")
        outbox = Outbox(
            socket, socket.tap, transport, self._settings.outbox_max_bytes, self._flusher, self._closers, self._unread
        )
        outbox.principal = principal
        socket.before_close = outbox.flush
        socket.valve.on_close = outbox.close
        socket.tap.on_ping, socket.tap.on_pong = outbox.pong, outbox.pong_came
        self._outboxes.add(outbox)
        return socket, outbox

    async def frames(
        self,
        socket: Accepted,
        outbox: Outbox,
        manners: "Manners",
        at_once: AtOnce | None = None,
        on_too_large: Callable[[], None] | None = None,
        on_too_fast: Callable[[], None] | None = None,
    ) -> AsyncIterator[Frame]:
        """Frames until the socket closes; one that is too large is answered and left out.

        What `at_once` takes, when it is its turn, does not come out here.
        """
        tap, most, taken = socket.tap, self._settings.max_frame_bytes, 0
        if at_once is not None:
            tap.at_once, tap.most_at_once = at_once, most
        socket.valve.on_empty = partial(_too_fast, manners.side, on_too_fast)
        outbox.ticket = self._live.enter(outbox.principal, partial(_end, outbox))
        try:
            async for frame in socket:
                taken += 1
                if not taken % RUN_FRAMES:
                    # While frames wait in the queue, taking one of them does not yield to other tasks.
                    await asyncio.sleep(0)
                if frame.type is WSMsgType.TEXT or frame.type is WSMsgType.BINARY:
                    if len(frame.data) <= most:
                        yield Frame(frame.data, frame.type is WSMsgType.TEXT)
                    else:
                        manners.refuse(f"the frame has {len(frame.data)} bytes; at most {most} are allowed")
                        if on_too_large is not None:
                            on_too_large()
                elif frame.type is WSMsgType.PING:
                    outbox.pong(bytes(frame.data))
                elif frame.type is WSMsgType.PONG:
                    outbox.pong_came()
                elif frame.type is WSMsgType.ERROR and not isinstance(frame.data, WebSocketError | OSError):
                    # Not the peer's fault: what was done at once with its frame failed, and the socket closes.
                    _log.error("frame.surprised", side=manners.side, exc_info=frame.data)
                tap.one_done()
        finally:
            self._live.leave(outbox.ticket)
            # Until the peer has sent its close frame too, further frames may arrive; they are dropped.
            tap.turn_deaf()
            tap.on_ping = tap.on_pong = socket.before_close = None
            socket.valve.close()

    def renew(self, outbox: Outbox, principal: Principal, *, is_refreshing: bool) -> None:
        """Its peer has shown a newer credential, or says that it will."""
        outbox.principal = msgspec.structs.replace(principal, is_refreshing=is_refreshing)
        self._live.renew(outbox.ticket, outbox.principal)

    def manners(self, socket: Accepted, outbox: Outbox, side: str) -> "Manners":
        return Manners(socket, outbox, side, self._settings.max_bad_frames_per_min)

    async def ping(self) -> None:
        """To be called twice in the time a socket may be silent."""
        for outbox in list(self._outboxes):
            outbox.ping_if_silent()
        self._commons.unfinished.look(monotonic())

    async def close(self) -> None:
        """Close the sockets that are still open, such as those that have only just connected."""
        for outbox in list(self._outboxes):
            outbox.close(CloseCode.COME_BACK, "the scheduler is restarting; connect again")
        await self._closers.settle(CLOSE_TIMEOUT_S + 1)
        await self._closers.close()


class Manners:
    """Frames of one socket that cannot be read: each gets an answer, and after too many the socket is closed."""

    __slots__ = ("_bad", "_outbox", "_socket", "side")

    def __init__(self, socket: Accepted, outbox: Outbox, side: str, bad_per_min: int) -> None:
        self._socket = socket
        self._outbox = outbox
        self.side = side
        self._bad = Bucket(bad_per_min / 60, bad_per_min)

    def refuse(self, complaint: str, size: int = 0) -> None:
        """Of a frame that was looked into, its size counts too."""
        refuse(self._outbox, self.side, complaint)
        if self._bad.take(1 + size / BAD_FRAME_BYTES, monotonic()):
            self.cut_off("unreadable", "too many unreadable frames")

    def cut_off(self, why: str, told: str) -> None:
        """Close the socket, and read nothing more of it."""
        if not self._socket.tap.is_deaf:
            _CUT_OFF[why].inc()
            self._socket.tap.turn_deaf()
            self._outbox.close(CloseCode.MISBEHAVED, told)

    def rest(self, wait_s: float) -> None:
        """Read nothing for so long."""
        self._socket.valve.rest(wait_s)

    def spend(self, spent_s: float) -> None:
        """What its frames cost behind the socket counts as what all throttled sockets share."""
        self._socket.valve.spend(spent_s)

    def weigh(self, frame: bytes, read: Callable[[bytes, Bulk], M], most: Bulk) -> M:
        """Read a frame, and let its socket rest when that cost much."""
        if len(frame) <= WEIGHED_BYTES or self._socket.valve.is_weighing:
            return read(frame, most)
        clock = self._socket.valve.clock
        began_s = clock()
        try:
            return read(frame, most)
        finally:
            self._socket.valve.charge(clock() - began_s)


def _end(outbox: Outbox, denied: Denied) -> None:
    """Its credential has ended."""
    outbox.close(code_for(denied), denied.detail)


def _too_fast(side: str, tell: Callable[[], None] | None) -> None:
    _THROTTLED[side].inc()
    if tell is not None:
        tell()


def refuse(outbox: Outbox, side: str, complaint: str, code: ErrorCode = ErrorCode.INVALID_MESSAGE) -> None:
    """Tell a peer what was wrong with its frame; the socket stays open."""
    _REFUSED[side].inc()
    outbox.post(ErrorMessage(code=code.value, message=complaint))
