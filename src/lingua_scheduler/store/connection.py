"""One connection to one server, shared by all callers: ordered replies, one write per event-loop tick, bounded."""

import asyncio
import hashlib
import math
import re
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Iterator
from typing import Any, Protocol, TypeVar

import hiredis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    NoPermissionError,
    NoScriptError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.store.wire import Wire
from lingua_scheduler.telemetry import metrics, ticks
from lingua_scheduler.telemetry.tasks import Nursery
from lingua_sdk.domain.backoff import Backoff

T = TypeVar("T")
Argument = str | bytes | int | float
Command = tuple[Argument, ...]
Reply = Any
Waiter = asyncio.Future[Reply]

RECONNECTS = Backoff(0.02, 1.0)
# Redis answers but takes no writes: out of memory, a full disk, too few replicas. For us it is away.
# (redis-py takes the code off the first; 6.2 wraps all of them in the script's own error.)
CANNOT_WRITE = re.compile(r"\b(OOM|MISCONF|NOREPLICAS)\b|used memory > 'maxmemory'")
# What we may not do: either one command, or all that we live by. The next write of our own tells.
NOT_ALLOWED = re.compile(r"\bNOPERM\b|ACL failure in script|user executing the script can't (?:run|access)")
# Codes that say nothing about the server as a whole: a mistake of the caller, a matter of one key, or of where a
# Cluster keeps it, which is looked after elsewhere. Any other code, such as BUSY, means: not now.
ABOUT_ONE_COMMAND = re.compile(
    "ERR|WRONGTYPE|NOSCRIPT|NOGROUP|NOPROTO|NOTBUSY|BUSYGROUP|BUSYKEY|UNKILLABLE|EXECABORT|INPROG"
    "|READONLY|MOVED|ASK|TRYAGAIN|CLUSTERDOWN|CROSSSLOT"
)
_CODE = re.compile(r"([A-Z]{3,}) ")
_CODE_INSIDE = re.compile(r": -([A-Z]{3,}) ")
# Changes nothing, and needs the rights that all scripts need.
PROBE_SOURCE = "return redis.call('ZADD', KEYS[1], 'XX', 0, '-')"
PROBE_SHA = hashlib.sha1(PROBE_SOURCE.encode(), usedforsecurity=False).hexdigest()
# Between two writes that are made to see whether it takes them: while it does, and while it does not. So many that
# follow each other must succeed before it counts as there again.
PROBE_S = 1.0
PROBE_AGAIN_S = 0.25
PROBES_TO_RETURN = 2
# Round trips are measured no more often than this, however much there is to do.
SAMPLE_EVERY_S = 0.01
# Redis 6.2 wraps the errors of scripts, so it may stand anywhere.
WRONG_TYPE = "WRONGTYPE"


class RedisAway(Exception):
    """Redis is unavailable: unreachable, too slow, or with too many pending commands. The one exception we plan for."""


class NotDone(RedisAway):
    """Redis is unavailable, and the command was certainly not executed."""


class WritesRefused(NotDone):
    """Redis answers, but accepts no writes. That may last, so callers fail immediately instead of waiting."""


class RedisLine(Protocol):
    """The way to Redis that all callers share, whether one server is behind it or a Cluster."""

    up: asyncio.Event
    on_up: Callable[[], None] | None
    on_down: Callable[[str], None] | None

    async def open(self) -> None:
        """Connect once, raising RedisAway when that fails; from then on stay connected."""

    async def close(self) -> None: ...

    def call(self, *command: Argument) -> Waiter:
        """Queue a command; the future holds its reply, or RedisAway, or the server's error."""

    def watch_writes(self, key_prefix: str) -> None:
        """From now on a server that refuses writes is away, until it takes them again."""

    async def another_connection(self) -> AbstractConnection:
        """Not connected yet, for what cannot share the line, such as listening."""

    def servers(self) -> "list[ServerLine]":
        """A line to each server that holds a part of the data, for what each must be asked for itself."""


def give_error(waiter: Waiter, _command: Command, error: RedisError) -> None:
    """The caller gets the error; but a server that may not write now is as good as away, and is left."""
    if isinstance(error, BusyLoadingError):
        away = RedisAway("the server is loading its data")
    elif isinstance(error, MasterDownError):
        away = RedisAway("the server is a replica that has lost its master")
    elif isinstance(error, ReadOnlyError) or "-READONLY " in str(error):  # Redis 6.2 wraps the errors of scripts
        away = RedisAway("the server has become a replica")
    else:
        waiter.set_exception(error)
        return
    waiter.set_exception(away)
    raise away


# Looks after a command that met a key of another type than we keep there.
Mend = Callable[["ServerLine", Waiter, Command, RedisError], None]


class ServerLine:
    """A multiplexed connection that reconnects by itself.

    `call` only queues: all calls of one tick leave in one write, and replies come back in order. When the
    connection breaks every waiter fails, because it is unknown which commands were executed.
    """

    def __init__(
        self,
        make_connection: Callable[[], Awaitable[AbstractConnection]],
        *,
        timeout_ms: int,
        max_pending: int,
        prepare: Callable[["ServerLine"], Awaitable[None]],
        on_error: Callable[[Waiter, Command, RedisError], None] = give_error,
        mend: Mend | None = None,
        is_raw: bool = False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._mend = mend
        self._make_connection = make_connection
        self._timeout_s = timeout_ms / 1000
        self._max_pending = max_pending
        self._prepare = prepare
        self._on_error = on_error
        # Replies as bytes, for what is no text.
        self._is_raw = is_raw
        self._outgoing: list[bytes] = []
        self._waiters: deque[tuple[Waiter, Command]] = deque()
        self._wire: Wire | None = None
        self._oldest_since = math.inf
        # The one command under way whose round trip is measured, and since when; blocking commands are not measured.
        self._sampled: Waiter | None = None
        self._sampled_at = 0.0
        self.failure = "not connected yet"
        # A write that changes nothing, to check that writes are accepted; None: no check.
        self.probe: Callable[[], Command | None] | None = None
        self._probing: Waiter | None = None
        # Those who were not allowed what they asked for, until it is known whether anything is.
        self._doubted: list[tuple[Waiter, RedisError]] = []
        self._in_doubt = asyncio.Event()
        # Why the server takes no writes, though it is there.
        self.refusal = ""
        self._life = Nursery("redis_line")
        self._loop: asyncio.AbstractEventLoop
        self.up = asyncio.Event()
        self.on_up: Callable[[], None] | None = None
        self.on_down: Callable[[str], None] | None = None

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        connection = await self._connect()
        ready: asyncio.Future[None] = self._loop.create_future()
        self._life.start(self._stay_connected(connection, ready))
        await ready

    def start(self) -> None:
        """As `open`, but without waiting: keep trying until the server is there."""
        self._loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = self._loop.create_future()
        ready.set_result(None)
        self._life.start(self._stay_connected(None, ready))

    async def close(self) -> None:
        self.failure = "closed"
        self.on_down = None
        await self._life.close()

    def call(self, *command: Argument) -> Waiter:
        if not self.up.is_set():
            raise WritesRefused(self.refusal) if self.refusal else NotDone(self.failure)
        return self.send(command)

    def watch_writes(self, key_prefix: str) -> None:
        command = probe_of(f"{key_prefix}:{{probe}}")
        self.probe = lambda: command

    def servers(self) -> "list[ServerLine]":
        return [self]

    def prepare_call(self, *command: Argument) -> Waiter:
        """As `call`, for the set-up of a new connection before callers may use it."""
        return self.send(command)

    def send(self, command: Command, waiter: Waiter | None = None) -> Waiter:
        """Queue a command, perhaps for a caller that waits since another server refused it."""
        if len(self._waiters) >= self._max_pending:
            raise RedisAway(f"{self._max_pending} commands are already waiting for a reply (redis.max_pending)")
        if waiter is None:
            waiter = self._loop.create_future()
        if not self._waiters:
            self._oldest_since = self._clock()
        if not self._outgoing:
            self._loop.call_soon(self._flush)
        self._outgoing.append(_packed(command))
        self._waiters.append((waiter, command))
        return waiter

    async def another_connection(self) -> AbstractConnection:
        return await self._make_connection()

    @property
    def pending(self) -> int:
        return len(self._waiters)

    async def _connect(self) -> AbstractConnection:
        connection: AbstractConnection | None = None
        try:
            async with asyncio.timeout(self._timeout_s):
                connection = await self._make_connection()
                await connection.connect()  # type: ignore[no-untyped-call]
        except BaseException as error:
            if connection is not None:
                await hang_up(connection)
            if isinstance(error, TimeoutError):
                raise RedisAway(f"no connection within {self._timeout_s:g} s") from error
            if isinstance(error, RedisError | OSError):
                raise RedisAway(str(error) or type(error).__name__) from error
            raise
        return connection

    async def _stay_connected(self, connection: AbstractConnection | None, ready: asyncio.Future[None]) -> None:
        failures = 0
        while True:
            try:
                connection = connection or await self._connect()
                await self._serve(connection, ready)
            except Exception as error:
                self.failure = str(error) or type(error).__name__
                if not ready.done():
                    ready.set_exception(error)
                    return
            else:
                failures = 0
            finally:
                await self._drop(connection)
            connection = None
            failures += 1
            await asyncio.sleep(RECONNECTS.pause_s(failures))

    async def _serve(self, connection: AbstractConnection, ready: asyncio.Future[None]) -> None:
        """Serve callers until the connection breaks; the failure is kept for calls made meanwhile."""
        self._wire = Wire(connection, self._settle, is_raw=self._is_raw)
        ends = [self._wire.ended, *(asyncio.create_task(watch) for watch in self._watches())]
        preparing = asyncio.ensure_future(self._set_up())
        try:
            await asyncio.wait([preparing, *ends], return_when=asyncio.FIRST_COMPLETED)
            if not preparing.done():
                error = _ended(ends)
                # A missing password is found by whichever question comes first, and is as final as a wrong one.
                cause = error if isinstance(error, AuthenticationError) else None
                raise RedisAway(f"the connection broke while it was being set up: {_told(error)}") from cause
            await preparing
            if not self.refusal:
                self._come_up()
            if not ready.done():
                ready.set_result(None)
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            self.failure = _told(_ended(ends))
        finally:
            self._wire = None
            for task in (preparing, *ends):
                task.cancel()
            await asyncio.gather(preparing, *ends, return_exceptions=True)

    async def _set_up(self) -> None:
        await self._prepare(self)
        self.refusal = await self._try_to_write()

    def _come_up(self) -> None:
        self.up.set()
        if self.on_up is not None:
            self.on_up()

    def _watches(self) -> list[Coroutine[Any, Any, None]]:
        """What runs while a connection is good; the first to end says why it no longer is."""
        return [self._watch(), self._watch_writes()]

    async def _watch_writes(self) -> None:
        taken = 0
        while True:
            await self._wait_for_doubt(PROBE_AGAIN_S if self.refusal else PROBE_S)
            refusal = await self._try_to_write()
            self._settle_doubts(refusal)
            if refusal:
                taken = 0
                self._refuse_all(refusal)
            elif self.refusal:
                taken += 1
                if taken >= PROBES_TO_RETURN:
                    self.refusal = ""
                    self._come_up()

    async def _try_to_write(self) -> str:
        """Why writes are refused; empty if they are accepted, or if that is unknown."""
        command = None if self.probe is None else self.probe()
        if command is None:
            return ""
        try:
            try:
                await self._probe_with(command)
            except NoScriptError:
                await self._probe_with(("EVAL", PROBE_SOURCE, *command[2:]))
        except ReadOnlyError as error:
            raise RedisAway("the server has become a replica") from error
        except (ClusterDownError, BusyLoadingError, NoPermissionError) as error:
            return str(error)
        except ResponseError as error:
            return str(error) if is_refusal(error) or NOT_ALLOWED.search(str(error)) else ""
        return ""

    def _probe_with(self, command: Command) -> Waiter:
        self._probing = self.send(command)
        return self._probing

    async def _wait_for_doubt(self, at_most_s: float) -> None:
        try:
            async with asyncio.timeout(at_most_s):
                await self._in_doubt.wait()
        except TimeoutError:
            return
        self._in_doubt.clear()

    def _settle_doubts(self, refusal: str) -> None:
        """A caller without permission gets RedisAway if Redis permits nothing at all, else the server's error."""
        doubted, self._doubted = self._doubted, []
        for waiter, error in doubted:
            if not waiter.done():
                waiter.set_exception(WritesRefused(refusal) if refusal else error)

    def _refuse_all(self, refusal: str) -> None:
        """Fail all callers until writes are accepted again; the connection stays open to find that out."""
        self.refusal = self.failure = refusal
        if self.up.is_set():
            self.up.clear()
            if self.on_down is not None:
                self.on_down(refusal)

    async def _drop(self, connection: AbstractConnection | None) -> None:
        was_up = self.up.is_set()
        self.up.clear()
        self.refusal = ""
        self._outgoing.clear()
        self._sampled = None
        waiters, self._waiters = self._waiters, deque()
        doubted, self._doubted = self._doubted, []
        for waiter, _ in (*waiters, *doubted):
            if not waiter.done():
                waiter.set_exception(RedisAway(self.failure))
        if connection is not None:
            await hang_up(connection)
        if was_up and self.on_down is not None:
            self.on_down(self.failure)

    def _flush(self) -> None:
        """Write all commands of one event-loop tick as one batch."""
        batch, self._outgoing = self._outgoing, []
        if self._wire is not None and batch:
            if self._sampled is None and not self._is_raw:
                now = self._clock()
                if now - self._sampled_at >= SAMPLE_EVERY_S:
                    self._sampled, self._sampled_at = self._waiters[-1][0], now
            self._wire.write(batch)

    def _settle(self, replies: Iterator[Reply]) -> None:
        waiters = self._waiters
        for reply in replies:
            waiter, command = waiters.popleft()
            if waiter is self._sampled:
                self._sampled = None
                metrics.REDIS_SECONDS.observe(self._clock() - self._sampled_at)
            if not isinstance(reply, RedisError):
                if not waiter.done():
                    waiter.set_result(reply)
            elif isinstance(reply, ResponseError | BusyLoadingError):
                self._refused(waiter, command, reply)
            else:
                # It is about the connection, not about the command; the waiter fails with all others.
                waiters.appendleft((waiter, command))
                raise reply
        self._oldest_since = self._clock()

    def _refused(self, waiter: Waiter, command: Command, error: RedisError) -> None:
        if waiter.done():
            return
        if waiter is self._probing:
            waiter.set_exception(error)
        elif self.probe is not None and self.up.is_set() and is_not_allowed(error):
            self._doubted.append((waiter, error))
            self._in_doubt.set()
        elif is_refusal(error):
            waiter.set_exception(WritesRefused(str(error)))
            if self.probe is not None:
                self._refuse_all(str(error))
        elif self._mend is not None and self.up.is_set() and WRONG_TYPE in str(error):
            self._mend(self, waiter, command, error)
        elif self.up.is_set() or self.refusal:
            # Also of a caller whose command was under way when writes were found to be refused.
            self._on_error(waiter, command, error)
        else:
            give_error(waiter, command, error)

    async def _watch(self) -> None:
        """A server that hangs keeps its socket open: the oldest unanswered command tells."""
        grid = ticks.grid()
        while True:
            await grid.sleep(self._timeout_s / 4)
            if self._waiters and self._clock() - self._oldest_since > self._timeout_s:
                raise RedisAway(f"no answer for {self._timeout_s:g} s")


def probe_of(key: str) -> Command:
    """A write that finds nothing to change, and leaves nothing behind; by a script, as nearly all of ours are."""
    return ("EVALSHA", PROBE_SHA, 1, key)


def is_refusal(error: RedisError) -> bool:
    """The server as a whole takes nothing, or no writes; what a Cluster looks elsewhere for is none."""
    if CANNOT_WRITE.search(str(error)):
        return True
    if type(error) is not ResponseError or is_not_allowed(error):
        return False
    # redis-py has taken off the codes it knows.
    code = _CODE_INSIDE.search(str(error)) if error.status_code else _CODE.match(str(error))
    return code is not None and ABOUT_ONE_COMMAND.fullmatch(code[1]) is None


def is_not_allowed(error: RedisError) -> bool:
    return isinstance(error, NoPermissionError) or NOT_ALLOWED.search(str(error)) is not None


def _packed(command: Command) -> bytes:
    packed: bytes
    try:
        packed = hiredis.pack_command(command)  # type: ignore[arg-type]  # its stub says one-tuple
    except UnicodeEncodeError:
        # Bytes that are no text came as surrogates, and go back as they were.
        packed = hiredis.pack_command(tuple(_raw(word) for word in command))  # type: ignore[arg-type]
    return packed


def _raw(word: Argument) -> Argument:
    return word.encode("utf-8", "surrogateescape") if isinstance(word, str) else word


def _ended(ends: Iterable[asyncio.Future[None]]) -> BaseException | None:
    return next(end.exception() for end in ends if end.done())


def _told(error: BaseException | None) -> str:
    return str(error) or type(error).__name__


async def hang_up(connection: AbstractConnection) -> None:
    """At once: over TLS a farewell waits for the other side's, which may never come."""
    writer = connection._writer
    if writer is not None and writer.get_extra_info("ssl_object") is not None:
        writer.transport.abort()
    await connection.disconnect(nowait=True)


async def ask(connection: AbstractConnection, *command: Argument) -> Reply:
    """One question, over a connection that is used for nothing else."""
    try:
        await connection.connect()  # type: ignore[no-untyped-call]
        await connection.send_packed_command(hiredis.pack_command(command), check_health=False)  # type: ignore[arg-type]
        return await connection.read_response()
    finally:
        await hang_up(connection)


async def answers(questions: Iterable[Coroutine[Any, Any, T]]) -> AsyncGenerator[T | Exception, None]:
    """Ask at once, hear what comes back as it comes; questions still open when the listener leaves are called off."""
    asked = [asyncio.create_task(question) for question in questions]
    try:
        for answer in asyncio.as_completed(asked):
            try:
                yield await answer
            except (RedisAway, RedisError, OSError, TimeoutError) as error:
                yield error
    finally:
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
