"""What both kinds of WebSocket share: accept, pump, bounded frames, an outbox."""

from collections.abc import AsyncIterator
from itertools import count
from typing import NamedTuple
from weakref import WeakSet

from aiohttp import WebSocketError, WSMsgType, web

from lingua_scheduler.domain.errors import ErrorCode
from lingua_scheduler.gateway.inlet import Accepted, AtOnce
from lingua_scheduler.gateway.outbox import CLOSE_TIMEOUT_S, Flusher, Outbox
from lingua_scheduler.protocol.shapes import ErrorMessage
from lingua_scheduler.services.peers import CloseCode
from lingua_scheduler.settings import ServerSettings
from lingua_scheduler.telemetry import logs, metrics
from lingua_scheduler.telemetry.tasks import Nursery

_log = logs.get()

# Above the limit a frame is answered with an error; this many times above it the socket closes unread.
HARD_LIMIT_FACTOR = 4

_REFUSED = metrics.by(metrics.UNREADABLE, "node", "session")


class Frame(NamedTuple):
    data: bytes
    is_text: bool


class Sockets:
    """Accepts sockets and remembers them, so that a stop can wait for their ends."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._flusher = Flusher()
        self._closers = Nursery("closers")
        self._serials = count(1)
        self._outboxes: WeakSet[Outbox] = WeakSet()

    def link_id(self) -> str:
        return f"c{next(self._serials):x}"

    async def accept(self, request: web.Request) -> tuple[Accepted, Outbox]:
        socket = Accepted(
            timeout=CLOSE_TIMEOUT_S,
            max_msg_size=self._settings.max_frame_bytes * HARD_LIMIT_FACTOR,
            compress=False,
            autoping=False,  # the outbox wants to hear of pongs
            decode_text=False,
        )
        await socket.prepare(request)
        transport = request.transport
        if transport is None:
            raise ConnectionResetError("the peer left during the handshake")
        outbox = Outbox(socket, socket.inlet, transport, self._settings.outbox_max_bytes, self._flusher, self._closers)
        socket.before_close = outbox.flush
        self._outboxes.add(outbox)
        return socket, outbox

    async def frames(
        self, socket: Accepted, outbox: Outbox, side: str, at_once: AtOnce | None = None
    ) -> AsyncIterator[Frame]:
        """Frames until the socket closes; one that is too large is answered and left out.

        What `at_once` takes, when it is its turn, does not come out here.
        """
        inlet, most = socket.inlet, self._settings.max_frame_bytes
        if at_once is not None:
            inlet.at_once = lambda data, is_text: len(data) <= most and at_once(data, is_text)
        async for frame in socket:
            if frame.type is WSMsgType.PING:
                await socket.pong(frame.data)
            elif frame.type is WSMsgType.PONG:
                outbox.pong_came()
            elif frame.type is WSMsgType.ERROR and not isinstance(frame.data, WebSocketError | OSError):
                # Not the peer's fault: what was done at once with its frame failed, and the socket closes.
                _log.error("frame.surprised", side=side, exc_info=frame.data)
            if frame.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
                continue
            if len(frame.data) > most:
                refuse(outbox, side, f"the frame has {len(frame.data)} bytes, {most} are allowed")
                continue
            inlet.is_busy = True
            yield Frame(frame.data, frame.type is WSMsgType.TEXT)
            inlet.is_busy = False
        # Until the peer has said goodbye too, frames may come; they are nobody's any more.
        inlet.at_once = socket.before_close = None

    async def ping(self) -> None:
        """To be called twice in the time a socket may be silent."""
        for outbox in list(self._outboxes):
            outbox.ping_if_silent()

    async def close(self) -> None:
        """Say goodbye to whoever has not heard it yet, such as those who have only just come."""
        for outbox in list(self._outboxes):
            outbox.close(CloseCode.COME_BACK, "the scheduler restarts; connect again")
        await self._closers.settle(CLOSE_TIMEOUT_S + 1)
        await self._closers.close()


def refuse(outbox: Outbox, side: str, complaint: str, code: ErrorCode = ErrorCode.INVALID_MESSAGE) -> None:
    """Tell a peer what was wrong with its frame; the socket stays open."""
    _REFUSED[side].inc()
    outbox.post(ErrorMessage(code=code.value, message=complaint))
