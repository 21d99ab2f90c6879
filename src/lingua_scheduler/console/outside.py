"""Outgoing connections to untrusted addresses, checked when connecting (SSRF protection)."""

import socket
from functools import partial
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver

from lingua_scheduler.domain.guards.destinations import SETTING, Destinations
from lingua_scheduler.telemetry import metrics

REFUSED = metrics.by(metrics.OUTGOING_REFUSED, "callback", "catalogue", "jwks")
# Of an answer's head; bodies have limits of their own.
_MAX_HEAD_BYTES = 8_190
_READ_AHEAD_BYTES = 16_384
_PIECE_BYTES = 65_536
# An answer that is compressed could be far larger than it looks.
_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity"}


class NotFetched(Exception):
    """There is no answer, or not the one that was expected: one sentence."""


def client_session(destinations: Destinations, resolver: AbstractResolver | None = None) -> aiohttp.ClientSession:
    """A client that connects to permitted addresses alone. It keeps no cookies and knows no proxies.

    The check is where the socket is made: a resolver is not asked about literal addresses, and what it answered for a
    name a moment ago says nothing about the next answer.
    """
    connector = aiohttp.TCPConnector(limit=0, resolver=resolver, socket_factory=partial(_open, destinations))
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=_READ_AHEAD_BYTES,
        max_line_size=_MAX_HEAD_BYTES,
        max_field_size=_MAX_HEAD_BYTES,
        auto_decompress=False,
        trust_env=False,
    )


async def fetched(purpose: str, destinations: Destinations, url: str, max_bytes: int) -> bytes:
    """The body of a 200. More than `max_bytes` are not read and redirects not followed. The caller sets the time limit.

    Raises NotFetched.
    """
    if complaint := destinations.complaint(url):
        raise NotFetched(complaint)
    try:
        async with (
            client_session(destinations) as http,
            http.get(url, allow_redirects=False, headers=_HEADERS) as response,
        ):
            if response.status != 200:
                raise NotFetched(f"the answer has status {response.status}")
            body = bytearray()
            async for piece in response.content.iter_chunked(_PIECE_BYTES):
                body += piece
                if len(body) > max_bytes:
                    raise NotFetched(f"the answer is larger than {max_bytes} bytes")
            return bytes(body)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        if reason := refusal_in(error):
            REFUSED[purpose].inc()
            raise NotFetched(reason) from error
        raise NotFetched(f"{type(error).__name__}: {error}") from error


def refusal_in(error: BaseException) -> str:
    """Why the address of a failed call is not permitted; empty when it failed for another reason."""
    cause = str(error.os_error) if isinstance(error, aiohttp.ClientConnectorError) else str(error)
    return cause if SETTING in cause else ""


def _open(destinations: Destinations, addr_info: tuple[Any, ...]) -> socket.socket:
    family, kind, proto, _, address = addr_info
    if not destinations.permits(address[0]):
        raise OSError(destinations.refusal(address[0]))
    return socket.socket(family, kind, proto)
