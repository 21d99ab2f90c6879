"""How a node or a client shows who it is: a key or a token, asked for before each connect. And how it is refused."""

import os
import re
from collections.abc import Awaitable, Callable
from enum import IntEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec
from multidict import CIMultiDict, CIMultiDictProxy

from lingua_scheduler.domain.errors import HttpCode
from lingua_scheduler.sdk.address import BadAddress

# A key or a token, or an async function that fetches one. None: as the environment says; empty: none at all.
Token = str | Callable[[], Awaitable[str]] | None

KEY_VARIABLE, KEY_FILE_VARIABLE = "LINGUA_KEY", "LINGUA_KEY_FILE"
# A server that asks for a longer pause is asked again all the same.
MAX_RETRY_AFTER_S = 60.0
MAX_KEY_BYTES = 8192
PROXY_ASKS = "its proxy asks for a password"
_MAX_BODY_BYTES = 65_536
_SENDABLE = re.compile(r"[\x21-\x7e]+")
_REFUSED = frozenset({401, 403})


class Dismissal(IntEnum):
    """Close codes after which the scheduler does not want to see the same credential again (docs/errors.md)."""

    UNAUTHENTICATED = 4003
    REVOKED = 4004
    GUESSING = 4007


_DISMISSED = {
    Dismissal.UNAUTHENTICATED: "the scheduler did not accept the new token",
    Dismissal.REVOKED: "the key or token was revoked",
    Dismissal.GUESSING: "the scheduler closed the connection, because it named sessions of other connections",
}


class AccessDenied(Exception):
    """The scheduler does not let the caller in, or no longer; trying again with the same credential does not help."""

    def __init__(self, code: str, detail: str, advice: str = "", *, status: int = 0) -> None:
        super().__init__(f"{code}: {detail}" + (f"; {advice}" if advice else ""))
        self.code = code
        self.detail = detail
        # What the caller can do about it; empty if nothing.
        self.advice = advice
        # Of HTTP, or the close code of a WebSocket; 0 if the scheduler was not asked.
        self.status = status


class Access:
    """What one caller shows. It is fetched again before each connect, and nothing here prints it."""

    def __init__(self, token: Token = None) -> None:
        self._token = token

    def session(self, **options: Any) -> aiohttp.ClientSession:
        """Its requests raise AccessDenied."""
        return aiohttp.ClientSession(raise_for_status=self._must_be_let_in, **options)

    async def headers(self, url: str) -> dict[str, str]:
        """What to send to this address. Raises AccessDenied if there is nothing that can be sent."""
        text = await self._fetched()
        if not text:
            return {}
        if urlsplit(url).username is not None:
            raise BadAddress(
                "the address has a name and a password, and there is a key: only one of them can be sent; leave the "
                f"password out, or unset {KEY_VARIABLE}"
            )
        if not _SENDABLE.fullmatch(text):
            raise _unusable("the key or token has a space, a line break or a letter that none has", "copy it again")
        return {"Authorization": f"Bearer {text}"}

    async def connect(self, http: aiohttp.ClientSession, url: str, **options: Any) -> aiohttp.ClientWebSocketResponse:
        """A WebSocket. Raises AccessDenied, or what aiohttp raises."""
        try:
            return await self._connect(http, url, options)
        except AccessDenied as denied:
            # A function may have kept its last token for a moment too long; it is asked for another, once.
            if denied.code != HttpCode.TOKEN_EXPIRED or not callable(self._token):
                raise
        return await self._connect(http, url, options)

    def must_not_be_dismissed(self, close_code: int | None) -> None:
        """Raises AccessDenied if the scheduler closed a connection for good."""
        if close_code in set(Dismissal):
            code = Dismissal(close_code)
            advice = "" if code is Dismissal.GUESSING else self._advice(401)
            raise AccessDenied(code.name, _DISMISSED[code], advice, status=code)

    async def _connect(
        self, http: aiohttp.ClientSession, url: str, options: dict[str, Any]
    ) -> aiohttp.ClientWebSocketResponse:
        headers = await self.headers(url)
        try:
            socket: aiohttp.ClientWebSocketResponse = await http.ws_connect(url, headers=headers, **options)
        except aiohttp.ClientResponseError as error:
            forget_headers(error)
            raise
        return socket

    async def _fetched(self) -> str:
        if self._token is None:
            return _of_environment()
        if isinstance(self._token, str):
            return self._token.strip()
        text = await self._token()
        if not isinstance(text, str):
            raise TypeError(f"the function given as token returned a {type(text).__name__}, not a str")
        return text.strip()

    async def _must_be_let_in(self, response: aiohttp.ClientResponse) -> None:
        if response.status not in _REFUSED:
            return
        body = await response.content.read(_MAX_BODY_BYTES)
        response.close()
        if response.headers.get("WWW-Authenticate", "").lower().startswith("basic"):
            advice = "write it in the URL: http://NAME:PASSWORD@HOST, or https://"
            raise AccessDenied(HttpCode.UNAUTHENTICATED, PROXY_ASKS, advice, status=401)
        said = _said(body, response.status)
        raise AccessDenied(said.error, said.detail, self._advice(response.status, said.error), status=response.status)

    def _advice(self, status: int, code: str = "") -> str:
        if status == 403:
            return "use a credential with more rights" if self._is_given else "send a key that may"
        if not self._is_given:
            return f"a key is needed: set {KEY_VARIABLE} or {KEY_FILE_VARIABLE}, or pass token=…"
        if callable(self._token):
            return "the function given as token must fetch another"
        if code == HttpCode.TOKEN_EXPIRED:
            return "pass an async function that fetches a new token as token=…"
        return "use another key; lingua keys check finds typing errors in one"

    @property
    def _is_given(self) -> bool:
        return bool(self._token) if self._token is not None else _is_in_environment()


def forget_headers(error: aiohttp.ClientResponseError) -> None:
    """The headers of the request are in the repr of such an error, and our credential is in them."""
    url, method, _, real_url = error.request_info
    error.request_info = aiohttp.RequestInfo(url, method, CIMultiDictProxy(CIMultiDict()), real_url)
    error.args = (error.request_info, error.history)


def retry_after_s(error: Exception) -> float:
    """How long the server wants to be left alone; 0 if it does not say."""
    if not isinstance(error, aiohttp.ClientResponseError) or error.headers is None:
        return 0.0
    text = error.headers.get("Retry-After", "")
    return min(float(text), MAX_RETRY_AFTER_S) if text.isascii() and text.isdigit() else 0.0


def read_key_file(path: Path) -> str:
    """Raises AccessDenied."""
    try:
        with path.expanduser().open("rb") as file:
            return file.read(MAX_KEY_BYTES).decode().strip()
    except (OSError, RuntimeError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not a text file"
        raise _unusable(f"the key file {path} cannot be read: {why}", f"correct {KEY_FILE_VARIABLE}") from None


def _of_environment() -> str:
    if (text := os.environ.get(KEY_VARIABLE)) is not None:
        return text.strip()
    path = os.environ.get(KEY_FILE_VARIABLE)
    return read_key_file(Path(path)) if path else ""


def _is_in_environment() -> bool:
    if (text := os.environ.get(KEY_VARIABLE)) is not None:
        return bool(text.strip())
    return bool(os.environ.get(KEY_FILE_VARIABLE))


def _unusable(detail: str, advice: str) -> AccessDenied:
    return AccessDenied(HttpCode.UNAUTHENTICATED, detail, advice)


class _Said(msgspec.Struct):
    error: str
    detail: str


def _said(body: bytes, status: int) -> _Said:
    """The scheduler's words; a proxy has others, which are not shown."""
    try:
        return msgspec.json.decode(body, type=_Said)
    except msgspec.DecodeError:
        code = HttpCode.UNAUTHENTICATED if status == 401 else HttpCode.PERMISSION_DENIED
        return _Said(code, f"the server answered HTTP {status}")
