"""Calls of a scheduler's HTTP API: `get` and `post` with a credential, and refusals in its own words."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from lingua_sdk.access import Access, Token
from lingua_sdk.address import page_url
from lingua_sdk.http_request import SILENT_S, HttpRequest, HttpResponse, answered
from lingua_sdk.tls import ClientTls

MAX_BODY_BYTES = 256 * 2**20
_MAX_REFUSAL_BYTES = 65_536


class Refused(Exception):
    """The scheduler answered, and not with what was asked for; the message is its own."""


class Absent(Refused):
    """There is nothing with that name."""


class Unreadable(Refused):
    """Not what a scheduler sends."""


async def get(address: str, path: str, token: Token = None, tls: ClientTls | None = None) -> bytes:
    """The body of a page. Raises Refused, AccessDenied, or one of Failures."""
    return await _whole(HttpRequest("GET", page_url(address, path), {}), Access(token, tls))


async def post(address: str, path: str, body: bytes, token: Token = None, tls: ClientTls | None = None) -> bytes:
    """What is answered to a JSON body. Raises Refused, AccessDenied, or one of Failures."""
    headers = {"Content-Type": "application/json"}
    return await _whole(HttpRequest("POST", page_url(address, path), headers, body), Access(token, tls))


@asynccontextmanager
async def accepted(request: HttpRequest, access: Access) -> AsyncIterator[HttpResponse]:
    """An answer with status 200. Raises Refused, AccessDenied, or one of Failures."""
    shown = await access.headers(request.url)
    async with answered(request._replace(headers=shown | request.headers), access.tls(request.url)) as response:
        await _accept(response, access)
        yield response


async def _whole(request: HttpRequest, access: Access) -> bytes:
    shown = await access.headers(request.url)
    request = request._replace(headers=shown | request.headers)
    # To fetch a token is not part of the time limit.
    async with asyncio.timeout(SILENT_S), answered(request, access.tls(request.url)) as response:
        await _accept(response, access)
        body = await response.read(MAX_BODY_BYTES + 1)
    if len(body) > MAX_BODY_BYTES:
        raise Unreadable(f"the answer is larger than {MAX_BODY_BYTES} bytes")
    return body


async def _accept(response: HttpResponse, access: Access) -> None:
    if response.status == 200:
        return
    body = await response.read(_MAX_REFUSAL_BYTES)
    access.must_be_let_in(response.status, response.headers, body)
    try:
        said = msgspec.json.decode(body, type=_Said)
    except msgspec.DecodeError:
        said = _Said(error=f"HTTP {response.status}", detail=response.reason)
    if response.status == 404 and said.error in ("NOT_FOUND", "HTTP 404"):
        raise Refused(
            "it cannot be watched: it is older than this command, not a scheduler, or the public port of a proxy; use"
            " the operators' port or the address of an instance"
        )
    raise (Absent if response.status == 404 else Refused)(f"{said.error}: {said.detail}")


class _Said(msgspec.Struct):
    error: str
    detail: str
