"""Outgoing connections to untrusted addresses, checked when connecting (SSRF protection)."""

import socket
from functools import partial
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver

from lingua_scheduler.domain.guards.destinations import SETTING, Destinations, refusal
from lingua_scheduler.telemetry import metrics

REFUSED = metrics.by(metrics.OUTGOING_REFUSED, "callback", "catalogue")
# Of an answer's head; bodies have limits of their own.
_MAX_HEAD_BYTES = 8_190
_READ_AHEAD_BYTES = 16_384


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


def refusal_in(error: BaseException) -> str:
    """Why the address of a failed call is not permitted; empty when it failed for another reason."""
    cause = str(error.os_error) if isinstance(error, aiohttp.ClientConnectorError) else str(error)
    return cause if SETTING in cause else ""


def _open(destinations: Destinations, addr_info: tuple[Any, ...]) -> socket.socket:
    family, kind, proto, _, address = addr_info
    if not destinations.permits(address[0]):
        raise OSError(refusal(address[0]))
    return socket.socket(family, kind, proto)
