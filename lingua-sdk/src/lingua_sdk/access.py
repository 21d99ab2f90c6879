"""How a node or a client shows who it is: a key or a token, asked for before each connect. And how it is refused."""

import asyncio
import os
import random
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping
from enum import IntEnum
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from lingua_sdk.address import BadAddress
from lingua_sdk.domain.backoff import Backoff
from lingua_sdk.domain.errors import HttpCode
from lingua_sdk.domain.key_texts import looks_like_a_key
from lingua_sdk.tls import ClientTls, system_context
from lingua_sdk.trouble import UnwantedStatus
from lingua_sdk.websocket import HandshakeRefused, WebSocket

# A key or a token, or an async function that fetches one. None: as the environment says; empty: none at all.
Token = str | Callable[[], Awaitable[str]] | None

KEY_VARIABLE, KEY_FILE_VARIABLE = "LINGUA_KEY", "LINGUA_KEY_FILE"
# How often a function is asked for a token before that counts as a failure, and how long it may take each time.
FETCH_TRIES = 4
FETCH_WITHIN_S = 10.0
FETCH_PAUSES = Backoff(0.5, 4.0, jitter=0.5)
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


class TokenNotFetched(AccessDenied):
    """The function given as token failed, each time it was asked; its last failure is the `__cause__`."""

    def __init__(self, error: Exception) -> None:
        said = f": {error}" if str(error) else ""
        detail = f"the function given as token failed {FETCH_TRIES} times, last with {type(error).__name__}{said}"
        super().__init__("TOKEN_NOT_FETCHED", detail)


class Access:
    """What one caller shows. It is fetched again before each connect, and nothing here prints it."""

    def __init__(self, token: Token = None, tls: ClientTls | None = None) -> None:
        self._token = token
        self._tls = tls
        # What the scheduler was shown last.
        self._shown = ""

    def tls(self, url: str) -> ssl.SSLContext | None:
        """None for an address without TLS. Raises ClientTlsError."""
        if urlsplit(url).scheme not in ("https", "wss"):
            return None
        return system_context() if self._tls is None else self._tls.context()

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
        self._shown = text
        return {"Authorization": f"Bearer {text}"}

    @property
    def can_refresh(self) -> bool:
        """Whether there may be a newer token before the present one expires."""
        return callable(self._token)

    async def newer(self) -> str:
        """A token for an open connection; empty if there is none that is newer, or if it is a key, which cannot be
        renewed. Raises AccessDenied, or TypeError."""
        before = self._shown
        text = await self._fetched()
        if text == before or looks_like_a_key(text) or not _SENDABLE.fullmatch(text):
            return ""
        self._shown = text
        return text

    async def connect(self, url: str, within_s: float) -> WebSocket:
        """To fetch a token is not part of the time limit. Raises AccessDenied, or one of Failures."""
        try:
            return await self._connect(url, within_s)
        except AccessDenied as denied:
            # A function may have kept its last token for a moment too long; it is asked for another, once.
            if denied.code != HttpCode.TOKEN_EXPIRED or not callable(self._token):
                raise
        return await self._connect(url, within_s)

    def must_be_let_in(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Raises AccessDenied if this is how an HTTP request was answered. Names of headers are in lower case."""
        if status not in _REFUSED:
            return
        if headers.get("www-authenticate", "").lower().startswith("basic"):
            advice = "write it in the URL: http://NAME:PASSWORD@HOST, or https://"
            raise AccessDenied(HttpCode.UNAUTHENTICATED, PROXY_ASKS, advice, status=401)
        said = _said(body[:_MAX_BODY_BYTES], status)
        raise AccessDenied(said.error, said.detail, self._advice(status, said.error), status=status)

    def must_not_be_dismissed(self, close_code: int | None) -> None:
        """Raises AccessDenied if the scheduler closed a connection for good."""
        if close_code in set(Dismissal):
            code = Dismissal(close_code)
            advice = "" if code is Dismissal.GUESSING else self._advice(401)
            raise AccessDenied(code.name, _DISMISSED[code], advice, status=code)

    async def _connect(self, url: str, within_s: float) -> WebSocket:
        headers = await self.headers(url)
        try:
            async with asyncio.timeout(within_s):
                return await WebSocket.open(url, headers, self.tls(url))
        except HandshakeRefused as error:
            self.must_be_let_in(error.status, error.headers, error.body)
            raise UnwantedStatus(error.status, error.headers.get("retry-after", "")) from None

    async def _fetched(self) -> str:
        if self._token is None:
            return _of_environment()
        if isinstance(self._token, str):
            return self._token.strip()
        text = await _patiently(self._token)
        if not isinstance(text, str):
            raise TypeError(f"the function given as token returned a {type(text).__name__}, not a str")
        return text.strip()

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


async def _patiently(fetch: Callable[[], Awaitable[str]]) -> str:
    """What the function returns. It may fail for a moment, as the backend does that it asks. Raises TokenNotFetched,
    or AccessDenied if the function does: then the scheduler itself refused to make a token."""
    for failures in range(1, FETCH_TRIES + 1):
        try:
            async with asyncio.timeout(FETCH_WITHIN_S):
                return await fetch()
        except AccessDenied:
            raise
        except Exception as error:
            if failures == FETCH_TRIES:
                raise TokenNotFetched(error) from error
        await asyncio.sleep(FETCH_PAUSES.pause_s(failures, random.random()))
    raise AssertionError  # the last failure was raised


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
