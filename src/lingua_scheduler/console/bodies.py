"""Reads request bodies: each bounded in size, time and CPU, and all together in memory."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from time import thread_time
from typing import TypeVar

from aiohttp import hdrs, web

from lingua_scheduler.console.answers import Problem
from lingua_sdk.domain.errors import ErrorCode, HttpCode

B = TypeVar("B")

# Takes the CPU that reading a request has cost.
Charge = Callable[[web.Request, float], None]

BODY_TIMEOUT_S: web.AppKey[float] = web.AppKey("body_timeout_s", float)
BODIES: web.AppKey["Bodies"] = web.AppKey("bodies")
CHARGE: web.AppKey[Charge] = web.AppKey("charge")
# Comes back when it is the turn of this request among all that cost much.
COME: web.AppKey[Callable[[], Awaitable[None]]] = web.AppKey("come")
_DEFAULT_BODY_TIMEOUT_S = 30.0
_DEFAULT_MAX_BYTES = 134_217_728
RETRY_AFTER_S = 5

# What is shorter cannot cost much, and is not worth two looks at the clock.
_WEIGHED_BYTES = 4_096
# Decompressed in slices of this size, so that other requests get their turn in between: of what comes out, and of what
# goes in, since that may be compressed to nothing.
_SLICE_BYTES = 262_144
_INPUT_BYTES = 8_192
# And after so much CPU.
_TOGETHER_S = 0.001
# What is longer waits for a turn before it is decoded: that is done in one go.
_LONG_BYTES = 65_536
# How zlib calls the formats; deflate comes with and without a header.
_GZIP, _ZLIB, _BARE_DEFLATE = 31, 15, -15
_NOT_ENCODED = "invalid body: it does not match its Content-Encoding or Transfer-Encoding header"


class Bodies:
    """The memory of all bodies being read. Load shedding: above the limit the largest are rejected."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held: set[_Held] = set()
        self.total = 0

    def add(self, held: "_Held", size: int) -> None:
        """Raises the answer to a request that is given up itself."""
        if not held.is_given_up:
            self._held.add(held)
            held.size += size
            self.total += size
            while self.total > self._max_bytes:
                largest = max(self._held, key=lambda one: one.size)
                self.remove(largest)
                largest.give_up()
        if held.is_given_up:
            raise _too_much_at_once()

    def remove(self, held: "_Held") -> None:
        if held in self._held:
            self._held.remove(held)
            self.total -= held.size


class _Held:
    """What is held of one body."""

    __slots__ = ("deadline", "is_given_up", "size")

    def __init__(self) -> None:
        self.size = 0
        self.is_given_up = False
        self.deadline: asyncio.Timeout | None = None

    def give_up(self) -> None:
        self.is_given_up = True
        if self.deadline is not None:
            self.deadline.reschedule(asyncio.get_running_loop().time())


async def read_body(request: web.Request, most: int, decode: Callable[[bytes], B]) -> B:
    encoding = _encoding(request)
    account, held = request.app[BODIES] if BODIES in request.app else Bodies(_DEFAULT_MAX_BYTES), _Held()
    cpu_s = 0.0
    try:
        raw = await _raw(request, most, account, held)
        come = request.app.get(COME, _at_once)
        if encoding:
            unpacking = _Unpacking(encoding, raw, come)
            try:
                raw = await unpacking.run(most, account, held)
            finally:
                cpu_s = unpacking.cpu_s
        if len(raw) <= _WEIGHED_BYTES:
            return decode(raw)
        if len(raw) > _LONG_BYTES:
            await come()
        began_s = thread_time()
        try:
            return decode(raw)
        finally:
            cpu_s += thread_time() - began_s
    finally:
        account.remove(held)
        if cpu_s and CHARGE in request.app:
            request.app[CHARGE](request, cpu_s)


async def _raw(request: web.Request, most: int, account: Bodies, held: _Held) -> bytes:
    is_too_large = request.content_length is not None and request.content_length > most
    try:
        if not is_too_large:
            async with asyncio.timeout(request.app.get(BODY_TIMEOUT_S, _DEFAULT_BODY_TIMEOUT_S)) as held.deadline:
                read = bytearray()
                while len(read) <= most:
                    part = await request.content.readany()
                    if not part:
                        return bytes(read)
                    read += part
                    account.add(held, len(part))
    except TimeoutError:
        if held.is_given_up:
            raise _too_much_at_once() from None
        raise Problem(
            408, HttpCode.REQUEST_TIMEOUT, "the body did not arrive in time; send the request again"
        ) from None
    except web.RequestPayloadError:
        raise invalid(_NOT_ENCODED) from None
    except ConnectionError:
        # The caller is gone, so it does not get this; it is not an error of ours either.
        raise invalid("the caller disconnected before the end of the body") from None
    finally:
        held.deadline = None
    raise _too_large(most)


def _encoding(request: web.Request) -> str:
    """How the body is packed: gzip, deflate, or nothing for one that is not."""
    named = ", ".join(request.headers.getall(hdrs.CONTENT_ENCODING, ())).strip().lower()
    if named in ("", "identity"):
        return ""
    if named not in ("gzip", "x-gzip", "deflate"):
        detail = f"unsupported Content-Encoding {named[:64]}; send the body uncompressed, or as gzip or deflate"
        raise Problem(415, HttpCode.UNSUPPORTED_MEDIA_TYPE, detail)
    return named.removeprefix("x-")


async def _at_once() -> None:
    await asyncio.sleep(0)


class _Unpacking:
    """Decompresses one body, and counts the CPU that it costs: also of one that is refused."""

    def __init__(self, encoding: str, raw: bytes, come: Callable[[], Awaitable[None]]) -> None:
        is_bare = encoding == "deflate" and raw[:1] and raw[0] & 0x0F != zlib.DEFLATED
        self._unpacker = zlib.decompressobj(_GZIP if encoding == "gzip" else _BARE_DEFLATE if is_bare else _ZLIB)
        self._raw = raw
        self._come = come
        self._rested_at_s = 0.0
        self.cpu_s = 0.0

    async def run(self, most: int, account: Bodies, held: _Held) -> bytes:
        """Never more than is allowed, however much there is in it."""
        found = bytearray()
        try:
            async for part in self._parts(most):
                found += part
                account.add(held, len(part))
                if len(found) > most:
                    raise _too_large(most)
        except zlib.error:
            raise invalid(_NOT_ENCODED) from None
        return bytes(found)

    async def _parts(self, most: int) -> AsyncIterator[bytes]:
        """A little of the input at a time: what gives no output, such as empty blocks, costs as much to read."""
        unpacker, left = self._unpacker, memoryview(self._raw)
        while len(left) and not unpacker.eof:
            some: bytes | memoryview = left[:_INPUT_BYTES]
            left = left[_INPUT_BYTES:]
            is_full = True
            while some or is_full:
                began_s = thread_time()
                part = unpacker.decompress(some, min(_SLICE_BYTES, most + 1))
                self.cpu_s += thread_time() - began_s
                is_full = len(part) == min(_SLICE_BYTES, most + 1)
                some = unpacker.unconsumed_tail
                yield part
                if is_full or self.cpu_s - self._rested_at_s > _TOGETHER_S:
                    self._rested_at_s = self.cpu_s
                    await self._come()
        # Cut off, or with something behind its end.
        if not unpacker.eof or unpacker.unused_data or len(left):
            raise invalid(_NOT_ENCODED)


def _too_much_at_once() -> Problem:
    detail = "too many request bodies are arriving at once, and this one is the largest; try again shortly"
    return Problem(503, HttpCode.SERVICE_UNAVAILABLE, detail, retry_after_s=RETRY_AFTER_S)


def _too_large(most: int) -> Problem:
    return Problem(413, HttpCode.BODY_TOO_LARGE, f"the body is larger than the allowed {most} bytes")


def invalid(detail: str) -> Problem:
    return Problem(400, ErrorCode.INVALID_MESSAGE, detail)
