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
    """`take` gets the replies of one read; what it raises, and whatever else ends the connection, is in `ended`."""

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
        """What the server is too slow to read waits here; those who wait for replies are counted elsewhere."""
        if self._is_full:
            self._waiting += batch
        else:
            self._transport.write(b"".join(batch))

    def data_received(self, data: bytes) -> None:
        if self.ended.done():
            # Whoever waited has been told that nobody knows; others may wait by now.
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
            # Nobody asked for those.
            if type(reply) is not hiredis.PushNotification:
                yield reply
