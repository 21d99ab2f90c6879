"""A client's connection: to the first address that responds, reconnected on demand."""

import asyncio
import contextlib
from collections.abc import Sequence

import msgspec

from lingua_sdk.access import Access, Token
from lingua_sdk.address import Addresses
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.protocol import codec
from lingua_sdk.protocol.session import (
    ClientHeartbeat,
    ServerHeartbeat,
    SessionInit,
    SessionInitAck,
    SessionOutgoing,
    TokenRefreshed,
)
from lingua_sdk.protocol.shapes import ErrorMessage, Message
from lingua_sdk.refreshing import Refresher
from lingua_sdk.tls import ClientTls
from lingua_sdk.trouble import Failures
from lingua_sdk.websocket import WebSocket

# A frozen process accepts connections but sends nothing.
ACK_WITHIN_S = 10.0

_TRY_LATER = frozenset({ErrorCode.SCHEDULER_DEPENDENCY_DOWN, ErrorCode.NODE_OVERLOADED})


class SessionFailed(Exception):
    """The scheduler refused the session, forgot it, or hung up for good; the message says why."""


class _NotNow(ConnectionError):
    """The session was not acknowledged, and may be if one asks again."""


class SessionLine:
    def __init__(self, address: str | Sequence[str], token: Token = None, tls: ClientTls | None = None) -> None:
        self._access = Access(token, tls)
        self._refresher = Refresher(self._access, self.post)
        self.addresses = Addresses(address, "/ws/session")
        self.socket: WebSocket | None = None
        self._ending: asyncio.Task[None] | None = None

    async def open(self, init: SessionInit) -> SessionInitAck:
        """Connect to the first address that answers; raises the last failure, or AccessDenied."""
        try:
            for _ in range(len(self.addresses) - 1):
                with contextlib.suppress(*Failures):
                    return await self.connect(init)
            return await self.connect(init)
        except BaseException as error:
            await self.close()
            if isinstance(error, _NotNow):
                raise SessionFailed(f"the scheduler did not open a session: {error}") from error
            raise

    async def connect(self, init: SessionInit) -> SessionInitAck:
        """At the present address; when that fails, the next one is present."""
        url = self.addresses.url
        try:
            return await self._introduce(init)
        except TimeoutError as error:
            self.addresses.turn()
            # That of asyncio says nothing.
            raise (error if error.args else TimeoutError(f"no answer of {url} within {ACK_WITHIN_S:g} s")) from None
        except Failures:
            self.addresses.turn()
            raise

    async def post(self, message: Message) -> None:
        """Into a broken connection nothing is sent; what matters is sent again after the resume."""
        if self.socket is not None:
            with contextlib.suppress(ConnectionError):
                await self.socket.send(codec.encode(message))

    async def post_binary(self, frame: bytes) -> None:
        if self.socket is not None:
            with contextlib.suppress(ConnectionError):
                await self.socket.send(frame, is_text=False)

    async def next(self) -> SessionOutgoing | None:
        """The next message we understand; None when the connection ends, and may be made again. Raises AccessDenied."""
        if self.socket is None:
            return None
        with contextlib.suppress(ConnectionError):
            async for frame in self.socket:
                if isinstance(frame, bytes):
                    continue
                with contextlib.suppress(codec.UnreadableFrame):  # of a newer scheduler, perhaps
                    message = codec.decode_for_client(frame)
                    if isinstance(message, TokenRefreshed):
                        self._refresher.expires(message.expires_at_ms)
                    elif message is not None:
                        return message
        self._access.must_not_be_dismissed(self.socket.close_code)
        return None

    def end_in(self, pause_s: float) -> None:
        """Close the connection then. What comes until the scheduler has closed it too can still be read."""
        if self._ending is None and self.socket is not None:
            self._ending = asyncio.create_task(_end(self.socket, pause_s))

    async def close(self) -> None:
        await self._hang_up()

    async def _introduce(self, init: SessionInit) -> SessionInitAck:
        await self._hang_up()
        self.socket = await self._access.connect(self.addresses.url, ACK_WITHIN_S)
        async with asyncio.timeout(ACK_WITHIN_S):
            await self.post(msgspec.structs.replace(init, refreshes_token=self._access.can_refresh or None))
            ack = await self.next()
            if isinstance(ack, SessionInitAck) and init.pairing_code:
                await self._must_be_paired(ack.session_id)
        match ack:
            case SessionInitAck():
                self._refresher.expires(ack.expires_at_ms)
                return ack
            case None:
                raise _NotNow("it closed the connection")
            case ErrorMessage(code=code) if code in _TRY_LATER:
                raise _NotNow(f"{code}: {ack.message}")
            case ErrorMessage():
                raise SessionFailed(f"the scheduler did not open a session: {ack.code}: {ack.message}")
        raise SessionFailed("the scheduler did not open a session: it sent an unexpected message")

    async def _must_be_paired(self, session_id: str) -> None:
        """Wrong codes are told after the acknowledgement, and other nodes would hear what is said until then. What the
        scheduler answers to a heartbeat comes after that. Raises SessionFailed."""
        await self.post(ClientHeartbeat(session_id=session_id))
        while not isinstance(message := await self.next(), ServerHeartbeat):
            if message is None:
                raise _NotNow("it closed the connection")
            if isinstance(message, ErrorMessage):
                raise SessionFailed(f"the session is not paired: {message.code}: {message.message}")

    async def _hang_up(self) -> None:
        self._refresher.stop()
        ending, self._ending = self._ending, None
        if ending is not None:
            ending.cancel()
        socket, self.socket = self.socket, None
        if socket is not None:
            await socket.close()


async def _end(socket: WebSocket, pause_s: float) -> None:
    await asyncio.sleep(pause_s)
    await socket.close()
