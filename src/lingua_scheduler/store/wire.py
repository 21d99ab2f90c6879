"""The bare transport of a connection that redis-py has opened: what comes in is parsed and handed over at once.

redis-py connects, encrypts and authenticates; its coroutine for each reply would cost more than all else together."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import hiredis
from redis.asyncio.connection import AbstractConnection, DefaultParser
from redis.exceptions import ConnectionError as HungUp

_INCOMPLETE = object()


class Wire(asyncio.Protocol):
    """`take` gets the replies of one read; its exception, or any other end of the connection, is in `ended`."""

    def __init__(self, connection: AbstractConnection, take: Callable[[Iterator[Any]], None], *, is_raw: bool) -> None:
        reader, writer = connection._reader, connection._writer
        if reader is None or writer is None or writer.transport.is_closing() or reader.at_eof():
            raise HungUp("Connection closed by server.")
        self._take = take
        self._parser = hiredis.Reader(
            replyError=DefaultParser.parse_error,
            encoding=None if is_raw else connection.encoder.encoding,
            errors=connection.encoder.encoding_errors,
            notEnoughData=_INCOMPLETE,
        )
        self._transport = writer.transport
        self._is_full = False
        self._waiting: list[bytes] = []
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport.set_protocol(self)

    def write(self, batch: list[bytes]) -> None:
        """Bytes that the server has not read yet; calls that wait for replies are counted elsewhere."""
        if self._is_full:
            self._waiting += batch
        elif not self._transport.is_closing():
            # Else the connection just broke: waiting callers fail when that is noticed.
            self._transport.write(b"".join(batch))

    def data_received(self, data: bytes) -> None:
        if self.ended.done():
            # The waiters have failed already, because the outcome is unknown; others may be waiting now.
            return
        try:
            self._parser.feed(data)
            self._take(self._replies())
        except Exception as error:
            self._end(error)

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        if self._waiting:
            batch, self._waiting = self._waiting, []
            self._transport.write(b"".join(batch))

    def connection_lost(self, error: Exception | None) -> None:
        self._end(error or HungUp("Connection closed by server."))

    def _end(self, error: Exception) -> None:
        if not self.ended.done():
            self.ended.set_exception(error)

    def _replies(self) -> Iterator[Any]:
        gets = self._parser.gets
        while (reply := gets()) is not _INCOMPLETE:
            # Unsolicited replies.
            if type(reply) is not hiredis.PushNotification:
                yield reply
