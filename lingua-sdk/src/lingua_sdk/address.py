"""Addresses people type: ws or http, with or without a path."""

from collections.abc import Sequence
from urllib.parse import urlsplit, urlunsplit

_SOCKET_SCHEMES = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}
_PAGE_SCHEMES = {"ws": "http", "wss": "https", "http": "http", "https": "https"}

_DEFAULT_PORTS = {"http": 80, "https": 443}


class BadAddress(ValueError):
    """The address cannot be used; the message says what would do."""


def socket_url(address: str, path: str) -> str:
    """`localhost:5010`, `http://host:5010` or `ws://host:5010/ws/node` → the WebSocket address for `path`."""
    return _with(address, _SOCKET_SCHEMES, path)


class Addresses:
    """One address, or those of several instances of one scheduler: stay with the one that works, else try the next."""

    def __init__(self, given: str | Sequence[str], path: str) -> None:
        self._urls = [socket_url(address, path) for address in ([given] if isinstance(given, str) else given)]
        if not self._urls:
            raise BadAddress("the address is empty; try ws://127.0.0.1:5010")
        self._at = 0

    def __len__(self) -> int:
        return len(self._urls)

    @property
    def url(self) -> str:
        return self._urls[self._at]

    @property
    def place(self) -> str:
        """Host and port, for logs: a URL may contain a password."""
        return urlsplit(self.url).netloc.rpartition("@")[2]

    def turn(self) -> None:
        self._at = (self._at + 1) % len(self._urls)


def page_url(address: str, path: str) -> str:
    return _with(address, _PAGE_SCHEMES, path)


def origin_of(address: str) -> str:
    """Scheme, host, port and folder: under which what belongs to a scheduler is kept. Raises BadAddress."""
    parts = urlsplit(page_url(address, ""))
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}:{parts.port or _DEFAULT_PORTS[parts.scheme]}{parts.path}"


def _with(address: str, schemes: dict[str, str], path: str) -> str:
    try:
        parts = urlsplit(address if "://" in address else f"ws://{address}")
        usable = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that do not close, a port that is none
        usable = False
    if not usable:
        # Commands take both kinds of address, each with an option of its own.
        redis = " of a scheduler: that is an address of Redis, for --redis-url" if address.startswith("redis") else ""
        raise BadAddress(f"{address!r} is not an address{redis}; try ws://127.0.0.1:5010 or http://127.0.0.1:5010")
    base = parts.path.rstrip("/")
    for known in ("/ws/node", "/ws/session"):
        base = base.removesuffix(known)
    return urlunsplit((schemes[parts.scheme], parts.netloc, base + path, "", ""))
