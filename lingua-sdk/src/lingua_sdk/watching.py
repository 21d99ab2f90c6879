"""Follows the server-sent events of a scheduler (GET /v1/watch); reconnects after interruptions."""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from typing import NamedTuple

from lingua_sdk.access import Access, Token
from lingua_sdk.address import page_url
from lingua_sdk.domain.backoff import Backoff
from lingua_sdk.http import Refused, Unreadable, accepted
from lingua_sdk.http_request import HttpRequest
from lingua_sdk.trouble import Failures, Trouble, retry_after_s, trouble_of

RETRIES = Backoff(1.0, 15.0, jitter=0.25)
MAX_MESSAGE_BYTES = 64 * 2**20


class BeginAgain(Exception):
    """What came does not follow what came before; a new stream begins with a whole picture."""


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
    trouble: Trouble | None = None


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


async def messages(
    address: str, hear: Callable[[StreamMessage], None], *, only_events: bool = False, token: Token = None
) -> AsyncGenerator[Connected | StreamMessage | Interrupted, None]:
    """For ever, or until AccessDenied. `hear` gets each message before it is yielded, and may raise BeginAgain or
    Unreadable. After each interruption the scheduler begins with a whole picture again."""
    access = Access(token)
    url = page_url(address, "/v1/watch") + ("?only=events" if only_events else "")
    request = HttpRequest("GET", url, {"Accept": "text/event-stream"})
    failures = 0
    first_s = RETRIES.first_s
    while True:
        reader = Reader()
        reason, is_refusal, asked_s = "it hung up", False, 0.0
        trouble: Trouble | None = None
        try:
            async with accepted(request, access) as response:
                yield Connected()
                async for chunk in response.chunks():
                    for message in reader.feed(chunk):
                        failures = 0
                        hear(message)
                        yield message
        except Refused as error:
            reason, is_refusal = str(error), True
        except BeginAgain as error:
            reason = str(error)
        except Failures as error:
            trouble = trouble_of(error)
            reason, asked_s = trouble.reason, retry_after_s(error)
        first_s = reader.retry_s or first_s
        failures += 1
        pause_s = asked_s + RETRIES._replace(first_s=first_s).pause_s(failures, random.random())
        yield Interrupted(reason, pause_s, is_refusal, trouble)
        await asyncio.sleep(pause_s)
