"""The listening side of a scripted scheduler: connections and their frames, refusals, cuts and close codes."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec
from aiohttp import WSMsgType, web

from lingua_sdk.protocol import codec
from lingua_sdk.protocol.shapes import Message

# Frames that wait to be read; when it is full, the connection is not read.
MAX_UNREAD = 1_000
MAX_FRAME_BYTES = 64 << 20
# Connections that wait to be taken; further ones are refused.
MAX_WAITING = 16
# The last tries whose times are known.
MAX_TRIES = 1_000


class PeerFrame(NamedTuple):
    """A frame of the peer, and when it came."""

    data: str | bytes
    at_s: float


class Line:
    """One connection of the peer."""

    def __init__(self, socket: web.WebSocketResponse, transport: asyncio.Transport | None) -> None:
        self._socket = socket
        self._transport = transport
        self._unread: asyncio.Queue[PeerFrame | None] = asyncio.Queue(MAX_UNREAD)
        self._pongs: asyncio.Queue[bytes] = asyncio.Queue(MAX_UNREAD)
        self.is_over = False
        self._reading: asyncio.Task[None] | None = None
        self._is_closing = False
        self._closed = asyncio.Event()

    async def next(self, within_s: float) -> PeerFrame | None:
        """None when the connection has ended. Raises TimeoutError."""
        if self.is_over and self._unread.empty():
            return None
        async with asyncio.timeout(within_s):
            return await self._unread.get()

    async def send(self, message: Message) -> None:
        await self.send_text(codec.encode(message).decode())

    async def send_fields(self, message: Message, **fields: Any) -> None:
        """With fields that no struct declares."""
        known = msgspec.json.decode(codec.encode(message), type=dict)
        await self.send_text(msgspec.json.encode(known | fields).decode())

    async def send_text(self, text: str) -> None:
        """Into a broken connection nothing is sent; that it broke is found when it is read."""
        with contextlib.suppress(ConnectionError):
            await self._socket.send_str(text)

    async def send_binary(self, data: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            await self._socket.send_bytes(data)

    async def ping(self, within_s: float) -> bool:
        """Whether the peer answered."""
        mark = str(time.monotonic_ns()).encode()
        with contextlib.suppress(ConnectionError, TimeoutError):
            await self._socket.ping(mark)
            async with asyncio.timeout(within_s):
                while await self._pongs.get() != mark:
                    pass
                return True
        return False

    def cut(self) -> None:
        """As if the network was gone: no close frame."""
        if self._transport is not None:
            self._transport.abort()

    async def close(self, code: int, reason: str = "") -> None:
        """What the peer sends until it has answered the close frame is dropped."""
        self._is_closing = True
        try:
            if self._reading is not None:
                # While another task reads, aiohttp does not wait for the peer's answer. The connection would be reset
                # if speech is on its way, and a reset hides the close code from the peer.
                self._reading.cancel()
                await asyncio.wait((self._reading,))
            with contextlib.suppress(ConnectionError):
                await self._socket.close(code=code, message=reason.encode())
        finally:
            self._closed.set()

    async def listen(self) -> None:
        """Until the connection has ended."""
        async with asyncio.TaskGroup() as group:
            self._reading = group.create_task(self._read())
        if self._is_closing:
            # The connection ends with the handler that calls this.
            await self._closed.wait()

    async def _read(self) -> None:
        try:
            while True:
                frame = await self._socket.receive()
                match frame.type:
                    case WSMsgType.TEXT | WSMsgType.BINARY:
                        await self._unread.put(PeerFrame(frame.data, time.monotonic()))
                    case WSMsgType.PING:
                        with contextlib.suppress(ConnectionError):
                            await self._socket.pong(frame.data)
                    case WSMsgType.PONG:
                        # A peer may send pongs that were not asked for.
                        with contextlib.suppress(asyncio.QueueFull):
                            self._pongs.put_nowait(bytes(frame.data))
                    case _:
                        return
        finally:
            self.is_over = True
            with contextlib.suppress(asyncio.QueueFull):
                self._unread.put_nowait(None)


class Entrance:
    """Where peers connect. While `refusals` are left, each connection is answered with 503."""

    def __init__(self) -> None:
        self.port = 0
        self.refusals = 0
        self.tried_s: deque[float] = deque(maxlen=MAX_TRIES)
        self._waiting: asyncio.Queue[Line] = asyncio.Queue(MAX_WAITING)
        self._lines: list[Line] = []

    async def line(self, within_s: float) -> Line | None:
        """The next connection; None if there is none in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while True:
                    line = await self._waiting.get()
                    if not line.is_over:
                        return line
        return None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.tried_s.append(time.monotonic())
        if self.refusals > 0 or self._waiting.full():
            self.refusals = max(0, self.refusals - 1)
            return web.Response(status=503, text="conformance: refused on purpose\n")
        socket = web.WebSocketResponse(max_msg_size=MAX_FRAME_BYTES, autoping=False)
        await socket.prepare(request)
        line = Line(socket, request.transport)
        self._lines.append(line)
        self._waiting.put_nowait(line)
        try:
            await line.listen()
        finally:
            self._lines.remove(line)
        return socket

    def cut_all(self) -> None:
        for line in list(self._lines):
            line.cut()


@asynccontextmanager
async def listening(host: str, port: int, path: str) -> AsyncIterator[Entrance]:
    """Raises OSError if the port is taken."""
    door = Entrance()
    app = web.Application()
    app.router.add_get(path, door.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        door.port = runner.addresses[0][1]
        yield door
    finally:
        door.cut_all()
        await runner.cleanup()
