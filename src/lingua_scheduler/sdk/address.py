"""Addresses people type: ws or http, with or without a path."""

from urllib.parse import urlsplit, urlunsplit

_SOCKET_SCHEMES = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}
_PAGE_SCHEMES = {"ws": "http", "wss": "https", "http": "http", "https": "https"}


class BadAddress(ValueError):
    """The address cannot be used; the message says what would do."""


def socket_url(address: str, path: str) -> str:
    """`localhost:5010`, `http://host:5010` or `ws://host:5010/ws/node` → the WebSocket address for `path`."""
    return _with(address, _SOCKET_SCHEMES, path)


def page_url(address: str, path: str) -> str:
    return _with(address, _PAGE_SCHEMES, path)


def _with(address: str, schemes: dict[str, str], path: str) -> str:
    try:
        parts = urlsplit(address if "://" in address else f"ws://{address}")
        usable = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that do not close, a port that is none
        usable = False
    if not usable:
        raise BadAddress(f"{address!r} is not an address; try ws://127.0.0.1:5010 or http://127.0.0.1:5010")
    base = parts.path.rstrip("/")
    for known in ("/ws/node", "/ws/session"):
        base = base.removesuffix(known)
    return urlunsplit((schemes[parts.scheme], parts.netloc, base + path, "", ""))
