"""Follows a scheduler over GET /v1/watch: one picture, then changes; reconnects after interruptions."""

import asyncio
import os
import random
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import NamedTuple

import aiohttp
import msgspec

from lingua_scheduler.domain.guards.backoff import Backoff
from lingua_scheduler.domain.watching.following import Change, OutOfStep, Seen, Whole
from lingua_scheduler.domain.watching.picture import Event
from lingua_scheduler.sdk.access import Access, Token, forget_headers, retry_after_s
from lingua_scheduler.sdk.address import page_url

CONNECT_WITHIN_S = 5.0
# The scheduler gives a sign of life every 15 s.
SILENT_S = 40.0
RETRIES = Backoff(1.0, 15.0, jitter=0.25)
MAX_MESSAGE_BYTES = 64 * 2**20

Failures = (aiohttp.ClientError, OSError, TimeoutError)


class Refused(Exception):
    """The scheduler answered, and not with what was asked for; the message is its own."""


class Unreadable(Refused):
    """Not what a scheduler sends."""


class StreamMessage(NamedTuple):
    """One message of a stream of server-sent events."""

    event: str
    body: bytes


class Connected(NamedTuple):
    """From now on nothing is missed."""


class Interrupted(NamedTuple):
    """The stream broke, or could not be had; the next attempt follows after the pause."""

    reason: str
    pause_s: float
    is_refusal: bool
    trouble: "Trouble | None" = None


class SomeEvents(msgspec.Struct, frozen=True):
    """The message to a watcher of events only."""

    events: list[Event]


class Reader:
    """Server-sent events from bytes as they come in. `retry_s` is the pause the server wishes for."""

    def __init__(self) -> None:
        self.retry_s: float | None = None
        # A line that has not ended yet.
        self._parts: list[bytes] = []
        self._event = ""
        self._body: list[bytes] = []
        self._bytes = 0

    def feed(self, chunk: bytes) -> list[StreamMessage]:
        messages = []
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            line = b"".join((*self._parts, end)).removesuffix(b"\r")
            self._parts.clear()
            self._bytes += len(end)
            if (message := self._line(line)) is not None:
                messages.append(message)
        self._parts.append(rest)
        self._bytes += len(rest)
        if self._bytes > MAX_MESSAGE_BYTES:
            raise Unreadable(f"a message is larger than {MAX_MESSAGE_BYTES} bytes")
        return messages

    def _line(self, line: bytes) -> StreamMessage | None:
        if not line:
            message = StreamMessage(self._event or "message", b"\n".join(self._body)) if self._body else None
            self._event, self._body, self._bytes = "", [], 0
            return message
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._body.append(value)
            case b"event":
                self._event = value.decode(errors="replace")
            case b"retry" if value.isdigit():
                self.retry_s = int(value) / 1000
        return None


def understood(message: StreamMessage) -> Whole | Change | SomeEvents | None:
    """None: of a kind that a newer scheduler may send."""
    kinds: dict[str, type[Whole | Change | SomeEvents]] = {"picture": Whole, "change": Change, "events": SomeEvents}
    kind = kinds.get(message.event)
    try:
        return None if kind is None else msgspec.json.decode(message.body, type=kind)
    except msgspec.DecodeError as error:
        raise Unreadable(f"unreadable {message.event}: {error}") from None


class Trouble(NamedTuple):
    """Why there is no connection, and what to do about it."""

    reason: str
    advice: str
    # No server is there; otherwise one is, or the name is wrong.
    is_absent: bool = False


def trouble_of(error: Exception) -> Trouble:
    match error:
        case aiohttp.ClientConnectorDNSError():
            return Trouble(f"the host name {error.host} is unknown", "correct it")
        case aiohttp.ClientConnectorCertificateError():
            why = getattr(error.certificate_error, "verify_message", "") or str(error.certificate_error)
            advice = "name the file of its authority in SSL_CERT_FILE, or use the name that stands in the certificate"
            return Trouble(f"its certificate is not trusted ({why})", advice)
        case aiohttp.ClientConnectorSSLError() | aiohttp.ServerDisconnectedError() | aiohttp.ClientResponseError():
            return Trouble(
                "it does not speak the protocol of the URL", "check the port, and http against https, ws against wss"
            )
    return Trouble(reason_of(error), "start one with: lingua serve", is_absent=True)


def reason_of(error: Exception) -> str:
    """A short reason why the connection failed."""
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
        number = error.os_error.errno or 0
        # An unknown host name has an error number of another kind.
        return os.strerror(number) if number > 0 else error.os_error.strerror or str(error)
    return "it is silent" if isinstance(error, TimeoutError) else str(error) or type(error).__name__


async def get(address: str, path: str, token: Token = None) -> bytes:
    """The body of a page. Raises Refused, AccessDenied, or one of Failures."""
    return await _whole("GET", page_url(address, path), Access(token))


async def post(address: str, path: str, body: bytes, token: Token = None) -> bytes:
    """What is answered to a JSON body. Raises Refused, AccessDenied, or one of Failures."""
    return await _whole("POST", page_url(address, path), Access(token), body)


async def watch(
    address: str, seen: Seen | None = None, *, only_events: bool = False, token: Token = None
) -> AsyncGenerator[Connected | StreamMessage | Interrupted, None]:
    """For ever, or until AccessDenied; `seen` is kept up to date.

    After each interruption the scheduler begins with a whole picture again.
    """
    access = Access(token)
    failures = 0
    first_s = RETRIES.first_s
    while True:
        reader = Reader()
        reason, is_refusal, asked_s = "it hung up", False, 0.0
        trouble: Trouble | None = None
        try:
            async with _opened(address, only_events, access) as response:
                yield Connected()
                async for chunk in response.content.iter_any():
                    for message in reader.feed(chunk):
                        failures = 0
                        _remember(message, seen)
                        yield message
        except Refused as error:
            reason, is_refusal = str(error), True
        except OutOfStep as error:
            reason = str(error)
        except Failures as error:
            trouble = trouble_of(error)
            reason, asked_s = trouble.reason, retry_after_s(error)
        first_s = reader.retry_s or first_s
        failures += 1
        pause_s = asked_s + RETRIES._replace(first_s=first_s).pause_s(failures, random.random())
        yield Interrupted(reason, pause_s, is_refusal, trouble)
        await asyncio.sleep(pause_s)


def _remember(message: StreamMessage, seen: Seen | None) -> None:
    told = understood(message)
    if seen is not None and isinstance(told, Whole | Change):
        seen.hear(told)


@asynccontextmanager
async def _opened(address: str, only_events: bool, access: Access) -> AsyncIterator[aiohttp.ClientResponse]:
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_WITHIN_S, sock_read=SILENT_S)
    url = page_url(address, "/v1/watch") + ("?only=events" if only_events else "")
    headers = await access.headers(url) | {"Accept": "text/event-stream"}
    async with access.session(timeout=timeout) as http, _answered(http.get(url, headers=headers)) as response:
        yield response


async def _whole(method: str, url: str, access: Access, body: bytes | None = None) -> bytes:
    timeout = aiohttp.ClientTimeout(total=SILENT_S, sock_connect=CONNECT_WITHIN_S)
    headers = await access.headers(url) | ({} if body is None else {"Content-Type": "application/json"})
    async with (
        access.session(timeout=timeout) as http,
        _answered(http.request(method, url, data=body, headers=headers)) as response,
    ):
        return await response.read()


@asynccontextmanager
async def _answered(
    request: AbstractAsyncContextManager[aiohttp.ClientResponse],
) -> AsyncIterator[aiohttp.ClientResponse]:
    try:
        async with request as response:
            await _accept(response)
            yield response
    except aiohttp.ClientResponseError as error:
        forget_headers(error)
        raise


async def _accept(response: aiohttp.ClientResponse) -> None:
    if response.status == 200:
        return
    try:
        said = msgspec.json.decode(await response.read(), type=_Said)
    except msgspec.DecodeError:
        said = _Said(error=f"HTTP {response.status}", detail=response.reason or "")
    if response.status == 404 and said.error in ("NOT_FOUND", "HTTP 404"):
        raise Refused(
            "it cannot be watched: it is older than this command, not a scheduler, or the public port of a proxy; use"
            " the operators' port or the address of an instance"
        )
    raise Refused(f"{said.error}: {said.detail}")


class _Said(msgspec.Struct):
    error: str
    detail: str
