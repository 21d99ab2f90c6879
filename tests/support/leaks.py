"""The credentials of the running test, and a search for them in all that its schedulers wrote.

Credentials are noted where they are made, where a client shows one, and from files that exist to hold one."""

import re
import secrets
import stat
from base64 import b64decode
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import aiohttp
import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from lingua_scheduler.domain.access import logins
from lingua_scheduler.services.sessions import sessions
from lingua_sdk import identity
from lingua_sdk.domain import key_texts
from tests.support.planted import Secret

# Shorter ones, and those of few characters, are words of tests rather than credentials.
FEWEST_CHARS, FEWEST_DIFFERENT = 20, 8
# Of a test that makes thousands, these stand for the others.
MAX_SECRETS = 256
# What was written is searched when there is so much of it, and at the end.
MAX_HELD_BYTES = 32_000_000
MAX_FILE_BYTES = 64_000_000
# Files that exist to hold a secret.
VAULTS = re.compile(r"(cluster|audit|app)\.key|(client|turn)\.secret|credentials\.toml")
# Whole credentials are recognised by their shape too, because processes make some that no client shows.
SHAPES = {
    "a key": re.compile(rb"lk_[a-z]{2}_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}"),
    "a token": re.compile(rb"eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{20,}"),
}
_SHOWN = re.compile(r"(?:Bearer |access_token=|lingua\.auth\.|__Host-lingua[\w-]*=|lingua_\w+=)([^\s,;&\"]+)")
_LONG_WORD = re.compile(r"[0-9A-Za-z+/=_-]{20,}")
_PEM = re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----\n(.+?)-----END \1-----", re.DOTALL)


class Leaks:
    """Of the running test. `is_watching`: outside of tests that ask for it nothing is kept."""

    def __init__(self) -> None:
        self.is_watching = False
        self._secrets: dict[str, Secret] = {}
        self._held: list[tuple[str, bytes]] = []
        self._held_bytes = 0
        self._found: set[tuple[str, str]] = set()

    @property
    def is_any_noted(self) -> bool:
        return bool(self._secrets)

    def note(self, name: str, text: str) -> None:
        if not self.is_watching or text in self._secrets or len(self._secrets) >= MAX_SECRETS:
            return
        if len(text) >= FEWEST_CHARS and len(set(text)) >= FEWEST_DIFFERENT:
            self._secrets[text] = Secret(name, text)

    def note_shown(self, words: str) -> None:
        """What a client puts into a header or a URL."""
        for found in _SHOWN.findall(words):
            self.note("what a client showed", _secret_part(found))

    def wrote(self, where: str, body: str | bytes) -> None:
        if not self.is_watching:
            return
        raw = body.encode("utf-8", "surrogateescape") if isinstance(body, str) else body
        self._held.append((where, raw))
        self._held_bytes += len(raw)
        if self._held_bytes > MAX_HELD_BYTES:
            self._search()

    def wrote_files(self, folder: Path, where: str = "file") -> None:
        """All that lies there. What vaults hold is noted, and must be nowhere else."""
        files = [path for path in sorted(folder.rglob("*")) if _is_plain(path)]
        for path in files:
            if VAULTS.fullmatch(path.name):
                for word in _secret_words(path.read_text("utf-8", "replace")):
                    self.note(f"what {path.name} holds", word)
        for path in files:
            if not VAULTS.fullmatch(path.name):
                self.wrote(f"{where} {path.relative_to(folder)}", path.read_bytes())

    def take(self) -> list[tuple[str, str]]:
        """Where secrets were found, and which."""
        self._search()
        found, self._found = sorted(self._found), set()
        return found

    def _search(self) -> None:
        needles = [(secret.name, secret.needles) for secret in self._secrets.values()]
        # Lines of a log are searched together: most of the time nothing is found.
        for where, body in _joined(self._held):
            for name, some in needles:
                if any(needle in body for needle in some):
                    self._found.add((where, name))
            self._found |= {(where, name) for name, shape in SHAPES.items() if shape.search(body)}
        self._held, self._held_bytes = [], 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        self.__init__()  # type: ignore[misc]
        self.is_watching = True
        try:
            with _noting(self):
                yield
        finally:
            self.is_watching = False


LEAKS = Leaks()


class _Noted:
    """The module `secrets` as another module sees it: what this function returns is noted."""

    def __init__(self, name: str, function: str) -> None:
        self._name = name
        self._function = function

    def __getattr__(self, function: str) -> Any:
        real = getattr(secrets, function)
        if function != self._function:
            return real

        def noted(*arguments: Any) -> Any:
            made = real(*arguments)
            LEAKS.note(self._name, made.hex() if isinstance(made, bytes) else made)
            return made

        return noted


@contextmanager
def _noting(leaks: Leaks) -> Iterator[None]:
    word, encode, request = key_texts._word, jwt.encode, aiohttp.ClientSession._request

    def noted_word(length: int, choose: Any) -> str:
        made = word(length, choose)
        if length == key_texts.SECRET_CHARS:
            leaks.note("a key", made)
        return made

    def noted_token(*arguments: Any, **more: Any) -> str:
        made = encode(*arguments, **more)
        leaks.note("a token", _secret_part(made))
        return made

    async def noted_request(self: Any, method: str, url: Any, **more: Any) -> aiohttp.ClientResponse:
        for name, value in [*self._default_headers.items(), *dict(more.get("headers") or {}).items()]:
            leaks.note_shown(f"{name}: {value}")
        leaks.note_shown(f"{url}&" + "&".join(f"{name}={value}" for name, value in _pairs(more.get("params"))))
        answer = await request(self, method, url, **more)
        await _look_at(leaks, answer)
        return answer

    with (
        mock.patch.object(key_texts, "_word", noted_word),
        mock.patch.object(jwt, "encode", noted_token),
        mock.patch.object(logins, "secrets", _Noted("a login code or cookie", "token_urlsafe")),
        mock.patch.object(sessions, "secrets", _Noted("a resume token", "token_urlsafe")),
        mock.patch.object(identity, "secrets", _Noted("the key of a node", "token_bytes")),
        mock.patch.object(aiohttp.ClientSession, "_request", noted_request),
    ):
        yield


async def _look_at(leaks: Leaks, answer: aiohttp.ClientResponse) -> None:
    """Answers may give a caller its own credential; errors and metrics may not."""
    for cookie in answer.headers.getall("Set-Cookie", ()):
        leaks.note("a cookie", cookie.partition(";")[0].partition("=")[2])
    is_metrics = answer.url.path == "/metrics"
    if (answer.status >= 400 or is_metrics) and "Content-Length" in answer.headers:
        with suppress(aiohttp.ClientError, TimeoutError):
            kept = {name: value for name, value in answer.headers.items() if name != "Set-Cookie"}
            leaks.wrote(f"answer {answer.status} {answer.url.path}", f"{kept} {await answer.text(errors='replace')}")


def _secret_part(text: str) -> str:
    """Of a key without its kind and id, of a token its signature."""
    if key_texts.looks_like_a_key(text):
        return text.rpartition("_")[2][: key_texts.SECRET_CHARS]
    return text.rpartition(".")[2]


def _secret_words(held: str) -> Iterator[str]:
    """Of what a vault holds. Most of a key in PEM is no secret: it is the same in all keys of its kind, or it is the
    public key, which certificates have too."""
    for pem in _PEM.finditer(held):
        yield from _private_words(pem[0], pem[2].split())
    yield from _LONG_WORD.findall(_PEM.sub("", held))


def _private_words(pem: str, lines: list[str]) -> Iterator[str]:
    """Of each line the letters that depend on nothing but the private numbers."""
    der = b64decode("".join(lines))
    for number in _private_numbers(pem):
        begins = der.index(number)
        first, last = -(-begins * 8 // 6), (begins + len(number)) * 8 // 6
        for line in lines:
            yield line[max(first, 0) : max(last, 0)]
            first, last = first - len(line), last - len(line)


def _private_numbers(pem: str) -> list[bytes]:
    match load_pem_private_key(pem.encode(), None):
        case ec.EllipticCurvePrivateKey() as key:
            return [key.private_numbers().private_value.to_bytes((key.key_size + 7) // 8)]
        case rsa.RSAPrivateKey() as key:
            numbers = key.private_numbers()
            return [one.to_bytes((one.bit_length() + 7) // 8) for one in (numbers.d, numbers.p, numbers.q)]
        case ed25519.Ed25519PrivateKey() as key:
            return [key.private_bytes_raw()]
        case other:
            raise AssertionError(f"what is secret in a {type(other).__name__}?")


def _pairs(params: Any) -> Iterable[tuple[str, Any]]:
    return params.items() if hasattr(params, "items") else ()


def _joined(held: list[tuple[str, bytes]]) -> Iterable[tuple[str, bytes]]:
    bodies: dict[str, list[bytes]] = {}
    for where, body in held:
        bodies.setdefault(where, []).append(body)
    return ((where, b"\n".join(some)) for where, some in bodies.items())


def _is_plain(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size <= MAX_FILE_BYTES
