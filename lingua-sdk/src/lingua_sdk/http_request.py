"""One HTTP/1.1 request over a connection of its own, whose answer may be a stream."""

import asyncio
import contextlib
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple, NoReturn
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

import h11

from lingua_sdk.trouble import NotTheProtocol, dialling_options, naming_the_host

CONNECT_WITHIN_S = 5.0
# The scheduler's streams give a sign of life every 15 s.
SILENT_S = 40.0
MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_KEEPS_METHOD = frozenset({307, 308})
_READ_BYTES = 65_536


class HttpRequest(NamedTuple):
    method: str
    url: str
    headers: dict[str, str]
    body: bytes = b""

    def redirected(self, status: int, location: str) -> "HttpRequest | None":
        """None if it is not followed: what changes something is not sent as something else."""
        if status not in _REDIRECTS or not location or (self.method != "GET" and status not in _KEEPS_METHOD):
            return None
        url = urljoin(self.url, location)
        before, after = urlsplit(self.url), urlsplit(url)
        if after.scheme not in ("http", "https") or (before.scheme, after.scheme) == ("https", "http"):
            return None
        is_same = (before.scheme, before.netloc) == (after.scheme, after.netloc)
        is_upgraded = before.scheme != after.scheme and before.hostname == after.hostname
        kept = (
            self.headers if is_same or is_upgraded else {k: v for k, v in self.headers.items() if k != "Authorization"}
        )
        return self._replace(url=url, headers=kept)


class HttpResponse:
    """`headers` have names in lower case. What is not read is dropped with the connection."""

    def __init__(self, head: h11.Response, wire: "_Wire") -> None:
        self.status = head.status_code
        self.reason = head.reason.decode("latin-1")
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
        self._wire = wire

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes. Raises one of Failures."""
        while isinstance(event := await self._wire.next_event(), h11.Data):
            yield bytes(event.data)

    async def read(self, max_bytes: int) -> bytes:
        """The whole body, of a longer one the beginning."""
        parts, size = [], 0
        async for chunk in self.chunks():
            parts.append(chunk)
            size += len(chunk)
            if size >= max_bytes:
                break
        return b"".join(parts)[:max_bytes]


@asynccontextmanager
async def answered(request: HttpRequest, tls: ssl.SSLContext | None = None) -> AsyncIterator[HttpResponse]:
    """Redirects are followed, a credential only to the same host. Raises one of Failures."""
    async with contextlib.AsyncExitStack() as connections:
        for _ in range(MAX_REDIRECTS):
            response = await connections.enter_async_context(_answered_once(request, tls))
            following = request.redirected(response.status, response.headers.get("location", ""))
            if following is None:
                break
            request = following
        yield response


@asynccontextmanager
async def _answered_once(request: HttpRequest, tls: ssl.SSLContext | None) -> AsyncIterator[HttpResponse]:
    parts = urlsplit(request.url)
    is_secure = parts.scheme == "https"
    host, port = parts.hostname or "", parts.port or (443 if is_secure else 80)
    with naming_the_host(host):
        async with asyncio.timeout(CONNECT_WITHIN_S):
            reader, writer = await asyncio.open_connection(
                host,
                port,
                ssl=(tls or ssl.create_default_context()) if is_secure else None,
                **dialling_options(),
            )
    wire = _Wire(reader, writer)
    try:
        await wire.send(request, parts)
        head = await wire.next_event()
        while isinstance(head, h11.InformationalResponse):
            head = await wire.next_event()
        if not isinstance(head, h11.Response):
            raise NotTheProtocol("it closed the connection instead of answering")
        yield HttpResponse(head, wire)
    finally:
        await wire.close()


class _Wire:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._state = h11.Connection(h11.CLIENT)
        self._has_answered = False

    async def send(self, request: HttpRequest, parts: SplitResult) -> None:
        headers = {
            "Host": parts.netloc.rpartition("@")[2],
            "Connection": "close",
            "Accept": "*/*",
            **({"Content-Length": str(len(request.body))} if request.method != "GET" else {}),
            **({"Authorization": _basic(parts)} if parts.username is not None else {}),
            **request.headers,
        }
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        events: list[h11.Event] = [h11.Request(method=request.method, target=target, headers=list(headers.items()))]
        if request.body:
            events.append(h11.Data(data=request.body))
        for event in (*events, h11.EndOfMessage()):
            self._writer.write(self._state.send(event) or b"")
        async with asyncio.timeout(SILENT_S):
            await self._writer.drain()

    async def next_event(self) -> h11.Event:
        while True:
            try:
                event = self._state.next_event()
            except h11.RemoteProtocolError as error:
                self._is_cut(error)
            if event is h11.NEED_DATA:
                async with asyncio.timeout(SILENT_S):
                    read = await self._reader.read(_READ_BYTES)
                self._state.receive_data(read)
            elif isinstance(event, h11.Event):
                self._has_answered |= isinstance(event, h11.Response)
                return event
            else:
                raise NotTheProtocol("it closed the connection instead of answering")

    def _is_cut(self, error: h11.RemoteProtocolError) -> NoReturn:
        if self._has_answered:
            raise ConnectionResetError(f"the answer is cut off: {error}") from None
        raise NotTheProtocol(f"no answer in HTTP: {error}") from None

    async def close(self) -> None:
        """At once: everything was read, or is of no interest."""
        self._writer.transport.abort()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


def _basic(parts: SplitResult) -> str:
    """Of a name and a password in the URL."""
    words = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    return f"Basic {b64encode(words.encode()).decode()}"
