"""A client's connection: to the first address that responds, reconnected on demand."""

import asyncio
import contextlib
from collections.abc import Sequence

import aiohttp

from lingua_scheduler.domain.errors import ErrorCode
from lingua_scheduler.protocol import codec
from lingua_scheduler.protocol.session import SessionInit, SessionInitAck, SessionOutgoing
from lingua_scheduler.protocol.shapes import ErrorMessage, Message
from lingua_scheduler.sdk.access import Access, Token
from lingua_scheduler.sdk.address import Addresses

# A frozen process accepts connections but sends nothing.
ACK_WITHIN_S = 10.0
# A connection that does not answer a ping within half of this again leads nowhere.
PING_EVERY_S = 6.0
# Maximum wait for the close frame of the peer.
_CLOSING = aiohttp.ClientWSTimeout(ws_close=2.0)

_TRY_LATER = frozenset({ErrorCode.SCHEDULER_DEPENDENCY_DOWN, ErrorCode.NODE_OVERLOADED})


class SessionFailed(Exception):
    """The scheduler refused the session, forgot it, or hung up for good; the message says why."""


class _NotNow(ConnectionError):
    """The session was not acknowledged, and may be if one asks again."""


class SessionLine:
    def __init__(self, address: str | Sequence[str], token: Token = None) -> None:
        self._access = Access(token)
        self.addresses = Addresses(address, "/ws/session")
        self._http: aiohttp.ClientSession | None = None
        self.socket: aiohttp.ClientWebSocketResponse | None = None

    async def open(self, init: SessionInit) -> SessionInitAck:
        """Connect to the first address that answers; raises the last failure, or AccessDenied."""
        self._http = self._access.session()
        try:
            for _ in range(len(self.addresses) - 1):
                with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
                    return await self.connect(init)
            return await self.connect(init)
        except BaseException as error:
            await self.close()
            if isinstance(error, _NotNow):
                raise SessionFailed(f"the scheduler did not open a session: {error}") from error
            raise

    async def connect(self, init: SessionInit) -> SessionInitAck:
        """At the present address; when that fails, the next one is present."""
        try:
            return await self._introduce(init)
        except (aiohttp.ClientError, OSError, TimeoutError):
            self.addresses.turn()
            raise

    async def post(self, message: Message) -> None:
        """Into a broken connection nothing is sent; what matters is sent again after the resume."""
        if self.socket is not None:
            with contextlib.suppress(ConnectionError):
                await self.socket.send_str(codec.encode(message).decode())

    async def post_binary(self, frame: bytes) -> None:
        if self.socket is not None:
            with contextlib.suppress(ConnectionError):
                await self.socket.send_bytes(frame)

    async def next(self) -> SessionOutgoing | None:
        """The next message we understand; None when the connection ends, and may be made again. Raises AccessDenied."""
        if self.socket is None:
            return None
        # aiohttp answers pings while it reads, and the connection may break under that.
        with contextlib.suppress(aiohttp.ClientError, ConnectionError):
            async for frame in self.socket:
                if frame.type is not aiohttp.WSMsgType.TEXT:
                    continue
                with contextlib.suppress(codec.UnreadableFrame):  # of a newer scheduler, perhaps
                    message = codec.decode_for_client(frame.data)
                    if message is not None:
                        return message
        self._access.must_not_be_dismissed(self.socket.close_code)
        return None

    async def close(self) -> None:
        await self._hang_up()
        if self._http is not None:
            await self._http.close()

    async def _introduce(self, init: SessionInit) -> SessionInitAck:
        await self._hang_up()
        assert self._http is not None
        async with asyncio.timeout(ACK_WITHIN_S):
            url = self.addresses.url
            self.socket = await self._access.connect(
                self._http, url, max_msg_size=0, heartbeat=PING_EVERY_S, timeout=_CLOSING
            )
            await self.post(init)
            ack = await self.next()
        match ack:
            case SessionInitAck():
                return ack
            case None:
                raise _NotNow("it closed the connection")
            case ErrorMessage(code=code) if code in _TRY_LATER:
                raise _NotNow(f"{code}: {ack.message}")
            case ErrorMessage():
                raise SessionFailed(f"the scheduler did not open a session: {ack.code}: {ack.message}")
        raise SessionFailed("the scheduler did not open a session: it sent an unexpected message")

    async def _hang_up(self) -> None:
        socket, self.socket = self.socket, None
        if socket is not None:
            await socket.close()
