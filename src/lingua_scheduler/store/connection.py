"""One connection shared by all callers: ordered replies, one write per event-loop tick, bounded."""

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import hiredis
from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError

Argument = str | bytes | int | float
Reply = Any

FIRST_RETRY_S = 0.02
LAST_RETRY_S = 1.0


class RedisAway(Exception):
    """Redis cannot be reached, does not answer in time, or has too much waiting: the one surprise we plan for."""


class Line:
    """A multiplexed connection that reconnects by itself.

    `call` only queues: all calls of one tick leave in one write, and replies come back in order. When the
    connection breaks every waiter fails, because nobody can know which commands were carried out.
    """

    def __init__(
        self,
        make_connection: Callable[[], AbstractConnection],
        *,
        timeout_ms: int,
        max_pending: int,
        prepare: Callable[["Line"], Awaitable[None]] | None = None,
    ) -> None:
        self._make_connection = make_connection
        self._timeout_s = timeout_ms / 1000
        self._max_pending = max_pending
        self._prepare = prepare
        self._outgoing: list[bytes] = []
        self._waiters: deque[asyncio.Future[Reply]] = deque()
        self._wake = asyncio.Event()
        self._oldest_since = math.inf
        self._failure = "not connected yet"
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop
        self.up = asyncio.Event()
        self.on_up: Callable[[], None] | None = None
        self.on_down: Callable[[str], None] | None = None

    async def open(self) -> None:
        """Connect once, raising RedisAway when that fails; from then on stay connected."""
        self._loop = asyncio.get_running_loop()
        connection = await self._connect()
        ready: asyncio.Future[None] = self._loop.create_future()
        self._task = asyncio.create_task(self._stay_connected(connection, ready), name="redis line")
        await ready

    async def close(self) -> None:
        self._failure = "closed"
        self.on_down = None
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def call(self, *command: Argument) -> asyncio.Future[Reply]:
        """Queue a command; the future holds its reply, or RedisAway, or the server's error."""
        if not self.up.is_set():
            raise RedisAway(self._failure)
        return self._send(command)

    def prepare_call(self, *command: Argument) -> asyncio.Future[Reply]:
        """As `call`, for what must happen on a new connection before anybody else may use it."""
        return self._send(command)

    def _send(self, command: tuple[Argument, ...]) -> asyncio.Future[Reply]:
        if len(self._waiters) >= self._max_pending:
            raise RedisAway(f"{self._max_pending} commands are waiting for an answer already")
        future: asyncio.Future[Reply] = self._loop.create_future()
        if not self._waiters:
            self._oldest_since = self._loop.time()
        self._outgoing.append(hiredis.pack_command(command))  # type: ignore[arg-type]  # its stub says one-tuple
        self._waiters.append(future)
        self._wake.set()
        return future

    async def _connect(self) -> AbstractConnection:
        connection = self._make_connection()
        try:
            async with asyncio.timeout(self._timeout_s):
                await connection.connect()  # type: ignore[no-untyped-call]
        except (RedisError, OSError, TimeoutError) as error:
            await connection.disconnect(nowait=True)
            raise RedisAway(str(error) or type(error).__name__) from error
        return connection

    async def _stay_connected(self, connection: AbstractConnection | None, ready: asyncio.Future[None]) -> None:
        retry_s = FIRST_RETRY_S
        while True:
            try:
                connection = connection or await self._connect()
                await self._serve(connection, ready)
            except Exception as error:
                self._failure = str(error) or type(error).__name__
                if not ready.done():
                    ready.set_exception(error)
                    return
            else:
                retry_s = FIRST_RETRY_S
            finally:
                await self._drop(connection)
            connection = None
            await asyncio.sleep(retry_s)
            retry_s = min(retry_s * 2, LAST_RETRY_S)

    async def _serve(self, connection: AbstractConnection, ready: asyncio.Future[None]) -> None:
        """Pump until the connection breaks; the failure is kept for those who call meanwhile."""
        pumps = [
            asyncio.create_task(self._write(connection)),
            asyncio.create_task(self._read(connection)),
            asyncio.create_task(self._watch()),
        ]
        try:
            if self._prepare is not None:
                preparing = asyncio.ensure_future(self._prepare(self))
                await asyncio.wait([preparing, *pumps], return_when=asyncio.FIRST_COMPLETED)
                if not preparing.done():
                    preparing.cancel()
                    raise RedisAway("the connection broke while it was being set up")
                await preparing
            self.up.set()
            if self.on_up is not None:
                self.on_up()
            if not ready.done():
                ready.set_result(None)
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            self._failure = next(str(pump.exception()) for pump in pumps if pump.done())
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _drop(self, connection: AbstractConnection | None) -> None:
        was_up = self.up.is_set()
        self.up.clear()
        self._outgoing.clear()
        waiters, self._waiters = self._waiters, deque()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(RedisAway(self._failure))
        if connection is not None:
            await connection.disconnect(nowait=True)
        if was_up and self.on_down is not None:
            self.on_down(self._failure)

    async def _write(self, connection: AbstractConnection) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            batch, self._outgoing = self._outgoing, []
            await connection.send_packed_command(b"".join(batch), check_health=False)

    async def _read(self, connection: AbstractConnection) -> None:
        waiters = self._waiters
        while True:
            reply: Reply
            failure: ResponseError | None = None
            try:
                reply = await connection.read_response(timeout=math.inf, disconnect_on_error=False)
            except ResponseError as error:
                failure = error
            waiter = waiters.popleft()
            self._oldest_since = self._loop.time()
            if waiter.done():
                continue
            if failure is not None:
                waiter.set_exception(failure)
            else:
                waiter.set_result(reply)

    async def _watch(self) -> None:
        """A server that hangs keeps its socket open: the oldest unanswered command tells."""
        while True:
            await asyncio.sleep(self._timeout_s / 4)
            if self._waiters and self._loop.time() - self._oldest_since > self._timeout_s:
                raise RedisAway(f"no answer for {self._timeout_s:g} s")


def connection_maker(url: str) -> Callable[[], AbstractConnection]:
    """How to make one connection to `url`, with redis-py's own reading of it (TLS, ACL user, database)."""
    # RESP2, so that every server we support answers in the same shapes.
    pool = Redis.from_url(url, decode_responses=True, protocol=2, retry=Retry(NoBackoff(), 0)).connection_pool
    return pool.make_connection
