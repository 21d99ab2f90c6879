"""A WebSocket to a scheduler: text and binary frames, and an end when the other side is silent for too long.

The protocol is that of `websockets` without its I/O, which costs a node less CPU time than its asyncio connections.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Mapping
from ssl import SSLContext
from types import TracebackType
from typing import Any, Self, cast
from urllib.parse import urljoin, urlsplit

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus, InvalidURI
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.uri import parse_uri

from lingua_sdk.trouble import NotTheProtocol, dialling_options, naming_the_host

# A connection that does not answer a ping within half of this again leads nowhere.
PING_EVERY_S = 6.0
# Maximum wait for the close frame of the peer, and for the end of the connection after it.
CLOSE_WITHIN_S = 2.0
MAX_REDIRECTS = 5
# More than any job or result of a scheduler; a larger one closes the connection with code 1009.
MAX_MESSAGE_BYTES = 64 * 2**20
# Frames that wait to be read; with more of them reading from the network pauses.
_MAX_UNREAD, _FEW_UNREAD = 16, 4
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# On its level DEBUG the library writes the headers of the request, which have the credential.
_LOGGER = logging.getLogger("lingua.websocket")
_LOGGER.setLevel(logging.INFO)


class HandshakeRefused(ConnectionError):
    """The server answered with an HTTP response instead of a WebSocket."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status
        self.headers = headers
        self.body = body


class _Wire(asyncio.Protocol):
    """Carries bytes between the state of a connection and its socket, with flow control in both directions."""

    def __init__(self, url: str) -> None:
        self._loop = asyncio.get_running_loop()
        self.state = ClientProtocol(parse_uri(url), max_size=MAX_MESSAGE_BYTES, logger=_LOGGER)
        self.transport: asyncio.Transport | None = None
        self.heard_at_s = 0.0
        self.opened: asyncio.Future[None] = self._loop.create_future()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self._unread: deque[str | bytes] = deque()
        self._is_reading_paused = False
        self._reader: asyncio.Future[None] | None = None
        # Of a message in several frames, those that came.
        self._parts: list[Frame] = []
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._deadline: asyncio.TimerHandle | None = None

    # Called by WebSocket

    def request(self, headers: dict[str, str]) -> None:
        request = self.state.connect()
        request.headers.update(headers)
        self.state.send_request(request)
        self._flush()

    async def send(self, frame: bytes, *, is_text: bool) -> None:
        if self.state.state is State.OPEN:
            (self.state.send_text if is_text else self.state.send_binary)(frame)
            self._flush()
            if not self._may_write.is_set():
                await self._may_write.wait()
        if self.state.state is not State.OPEN:
            raise ConnectionResetError(f"the connection has ended ({self.state.close_code or 'closing'})")

    def ping(self) -> None:
        if self.state.state is State.OPEN:
            self.state.send_ping(b"")
            self._flush()

    async def next(self) -> str | bytes | None:
        """None when nothing more comes."""
        while not self._unread:
            if self.closed.done():
                return None
            self._reader = self._loop.create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        if self._is_reading_paused and len(self._unread) <= _FEW_UNREAD and self.transport is not None:
            self._is_reading_paused = False
            self.transport.resume_reading()
        return self._unread.popleft()

    async def close(self) -> None:
        if self.state.state is State.OPEN:
            self.state.send_close(1000)
            self._flush()
        if self._is_reading_paused and self.transport is not None and not self.closed.done():
            self.transport.resume_reading()  # or the close frame of the peer would never come
        try:
            async with asyncio.timeout(CLOSE_WITHIN_S):
                await asyncio.shield(self.closed)
        except TimeoutError:
            self.abort()
            await self.closed

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    # Called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Those of uvloop are of a type of their own.
        self.transport = cast("asyncio.Transport", transport)
        self.heard_at_s = self._loop.time()

    def data_received(self, data: bytes) -> None:
        # Any data is a sign of life.
        self.heard_at_s = self._loop.time()
        self.state.receive_data(data)
        self._advance()

    def eof_received(self) -> None:
        self.state.receive_eof()
        self._advance()

    def connection_lost(self, exc: Exception | None) -> None:
        self.state.receive_eof()
        self._advance()
        if not self.opened.done():
            self.opened.set_exception(exc or NotTheProtocol("no WebSocket was opened: it closed the connection"))
        if self._deadline is not None:
            self._deadline.cancel()
        self.closed.set_result(None)
        self._may_write.set()
        self._wake_reader()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    # What came

    def _advance(self) -> None:
        for event in self.state.events_received():
            if isinstance(event, Frame):
                self._take(event)
            elif isinstance(event, Response) and self.state.handshake_exc is None and not self.opened.done():
                self.opened.set_result(None)
        self._flush()
        if self.state.handshake_exc is not None and not self.opened.done():
            self.opened.set_exception(self.state.handshake_exc)
        if self._deadline is None and self.state.close_expected():
            self._deadline = self._loop.call_later(CLOSE_WITHIN_S, self.abort)

    def _take(self, frame: Frame) -> None:
        if frame.opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            return  # the state has answered it
        self._parts.append(frame)
        if not frame.fin:
            return
        parts, self._parts = self._parts, []
        body = parts[0].data if len(parts) == 1 else b"".join(part.data for part in parts)
        # Text that is no UTF-8 is refused where the message is decoded.
        self._unread.append(str(body, "utf-8", "replace") if parts[0].opcode is Opcode.TEXT else bytes(body))
        if not self._is_reading_paused and len(self._unread) > _MAX_UNREAD and self.transport is not None:
            self._is_reading_paused = True
            self.transport.pause_reading()
        self._wake_reader()

    def _wake_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _flush(self) -> None:
        transport = self.transport
        for data in self.state.data_to_send():
            if transport is None or transport.is_closing():
                continue
            if data:
                transport.write(data)
            elif transport.can_write_eof():
                transport.write_eof()
            else:
                transport.close()  # TLS cannot be closed in one direction


class WebSocket:
    """Iterating over it yields text frames as `str` and binary ones as `bytes`, and ends with the connection."""

    def __init__(self, wire: _Wire) -> None:
        self._wire = wire
        self._watching = asyncio.create_task(self._must_be_alive())

    @classmethod
    async def open(cls, url: str, headers: dict[str, str], tls: SSLContext | None = None) -> Self:
        """Redirects are followed, a credential only to the same host. Raises HandshakeRefused, or one of Failures."""
        for _ in range(MAX_REDIRECTS):
            try:
                return cls(await _opened(url, headers, tls))
            except HandshakeRefused as refused:
                following = urljoin(url, refused.headers.get("location", ""))
                if refused.status not in _REDIRECTS or following == url or not _may_follow(url, following):
                    raise
                if urlsplit(url).netloc != urlsplit(following).netloc:
                    headers = {}
                url = following
        raise NotTheProtocol(f"no WebSocket was opened: more than {MAX_REDIRECTS} redirects")

    @property
    def close_code(self) -> int | None:
        """None while it is open; 1006 if no close frame came."""
        return self._wire.state.close_code

    @property
    def is_closed(self) -> bool:
        return self._wire.state.state is not State.OPEN

    async def send(self, frame: bytes, *, is_text: bool = True) -> None:
        """Waits while the peer reads too slowly. Raises ConnectionError when the connection has ended."""
        await self._wire.send(frame, is_text=is_text)

    async def __aiter__(self) -> AsyncIterator[str | bytes]:
        while (frame := await self._wire.next()) is not None:
            yield frame

    def abort(self) -> None:
        """End the connection without a close frame."""
        self._wire.abort()

    async def close(self) -> None:
        self._watching.cancel()
        await self._wire.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _must_be_alive(self) -> None:
        wire, loop = self._wire, asyncio.get_running_loop()
        while not wire.closed.done():
            await asyncio.sleep(wire.heard_at_s + PING_EVERY_S - loop.time())
            if wire.heard_at_s + PING_EVERY_S > loop.time():
                continue
            asked_at_s = loop.time()
            wire.ping()
            await asyncio.sleep(PING_EVERY_S / 2)
            if wire.heard_at_s < asked_at_s:
                wire.abort()
                return


async def _opened(url: str, headers: dict[str, str], tls: SSLContext | None) -> _Wire:
    parts = urlsplit(url)
    host, is_secure = parts.hostname or "", parts.scheme == "wss"
    options: dict[str, Any] = dialling_options() | ({"ssl": tls or True} if is_secure else {})
    try:
        with naming_the_host(host):
            _, wire = await asyncio.get_running_loop().create_connection(
                lambda: _Wire(url), host, parts.port or (443 if is_secure else 80), **options
            )
    except InvalidURI as error:
        raise NotTheProtocol(str(error)) from None
    try:
        wire.request(headers)
        await wire.opened
    except BaseException as error:
        wire.abort()
        if isinstance(error, InvalidStatus):
            response = error.response
            said = {name.lower(): value for name, value in response.headers.raw_items()}
            raise HandshakeRefused(response.status_code, said, bytes(response.body or b"")) from None
        if isinstance(error, Exception) and not isinstance(error, OSError):
            raise NotTheProtocol(f"no WebSocket was opened: {error}") from None
        raise
    return wire


def _may_follow(url: str, following: str) -> bool:
    before, after = urlsplit(url).scheme, urlsplit(following).scheme
    return after in ("ws", "wss") and not (before == "wss" and after == "ws")
