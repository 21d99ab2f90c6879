"""How the body of a request is read: bounded in size, time and CPU, and all of them together in memory."""

import asyncio
import zlib
from collections.abc import Callable
from time import thread_time
from typing import TypeVar

from aiohttp import hdrs, web

from lingua_scheduler.console.answers import Problem
from lingua_scheduler.domain.errors import ErrorCode, HttpCode

B = TypeVar("B")

# Takes the CPU that reading a request has cost.
Charge = Callable[[web.Request, float], None]

BODY_TIMEOUT_S: web.AppKey[float] = web.AppKey("body_timeout_s", float)
BODIES: web.AppKey["Bodies"] = web.AppKey("bodies")
CHARGE: web.AppKey[Charge] = web.AppKey("charge")
_DEFAULT_BODY_TIMEOUT_S = 30.0
_DEFAULT_MAX_BYTES = 134_217_728
RETRY_AFTER_S = 5

# What is shorter cannot cost much, and is not worth two looks at the clock.
_WEIGHED_BYTES = 4_096
# Unpacked so much at a time: others have their turn in between.
_SLICE_BYTES = 262_144
# How zlib calls the formats; deflate comes with and without a header.
_GZIP, _ZLIB, _BARE_DEFLATE = 31, 15, -15
_NOT_ENCODED = "the body cannot be read: it is not encoded as its headers say"


class Bodies:
    """What all bodies that are being read hold together. When it is too much, those that hold most are given up."""

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
    try:
        raw = await _raw(request, most, account, held)
        cpu_s = 0.0
        if encoding:
            raw, cpu_s = await _unpacked(raw, encoding, most, account, held)
        if len(raw) <= _WEIGHED_BYTES:
            return decode(raw)
        began_s = thread_time()
        try:
            return decode(raw)
        finally:
            if CHARGE in request.app:
                request.app[CHARGE](request, cpu_s + thread_time() - began_s)
    finally:
        account.remove(held)


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
        raise Problem(408, HttpCode.REQUEST_TIMEOUT, "the body did not arrive in time; send it again") from None
    except web.RequestPayloadError:
        raise invalid(_NOT_ENCODED) from None
    except ConnectionError:
        # Nobody hears this; it is no failure of ours either.
        raise invalid("the caller left before the end of the body") from None
    finally:
        held.deadline = None
    raise _too_large(most)


def _encoding(request: web.Request) -> str:
    """How the body is packed: gzip, deflate, or nothing for one that is not."""
    named = ", ".join(request.headers.getall(hdrs.CONTENT_ENCODING, ())).strip().lower()
    if named in ("", "identity"):
        return ""
    if named not in ("gzip", "x-gzip", "deflate"):
        detail = f"the body is packed as {named[:64]}; send it as it is, or as gzip or deflate"
        raise Problem(415, HttpCode.UNSUPPORTED_MEDIA_TYPE, detail)
    return named.removeprefix("x-")


async def _unpacked(raw: bytes, encoding: str, most: int, account: Bodies, held: _Held) -> tuple[bytes, float]:
    """Never more than is allowed, however much there is in it; and the CPU that it cost."""
    is_bare = encoding == "deflate" and raw[:1] and raw[0] & 0x0F != zlib.DEFLATED
    unpacker = zlib.decompressobj(_GZIP if encoding == "gzip" else _BARE_DEFLATE if is_bare else _ZLIB)
    found, cpu_s = bytearray(), 0.0
    try:
        while not unpacker.eof and len(found) <= most:
            began_s = thread_time()
            part = unpacker.decompress(raw, min(_SLICE_BYTES, most + 1 - len(found)))
            raw = unpacker.unconsumed_tail
            cpu_s += thread_time() - began_s
            if not part and not raw:
                break
            found += part
            account.add(held, len(part))
            if len(part) == _SLICE_BYTES:
                await asyncio.sleep(0)
    except zlib.error:
        raise invalid(_NOT_ENCODED) from None
    if len(found) > most:
        raise _too_large(most)
    # Cut off, or with something behind its end.
    if not unpacker.eof or unpacker.unused_data:
        raise invalid(_NOT_ENCODED)
    return bytes(found), cpu_s


def _too_much_at_once() -> Problem:
    detail = "too much is being sent at once, and most of it by you; try again shortly"
    return Problem(503, HttpCode.SERVICE_UNAVAILABLE, detail, retry_after_s=RETRY_AFTER_S)


def _too_large(most: int) -> Problem:
    return Problem(413, HttpCode.BODY_TOO_LARGE, f"the body has more than the {most} bytes that are allowed")


def invalid(detail: str) -> Problem:
    return Problem(400, ErrorCode.INVALID_MESSAGE, detail)
