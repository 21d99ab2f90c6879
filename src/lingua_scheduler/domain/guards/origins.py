"""Which host names and web pages may use the scheduler: rules for the headers Host, Origin and Sec-Fetch-Site.

Browsers let any page send WebSocket handshakes and simple POSTs to any address, so the server must check them."""

import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import ip_address
from typing import NamedTuple

ANY = "*"
# Size of the cache of parsed headers: every request of a peer has the same ones.
_REMEMBERED = 256
_DEFAULT_PORTS = {"http": 80, "https": 443}
_AUTHORITY = r"(?P<host>\[[0-9a-f:.]+\]|[^\s:/?#@\[\]]*)(?::(?P<port>\d{1,5}))?"
_HOST = re.compile(_AUTHORITY)
_ORIGIN = re.compile(rf"(?P<scheme>[a-z][a-z0-9+.-]*)://{_AUTHORITY}/?")


class Authority(NamedTuple):
    """A host in lower case, without brackets and trailing dot, and the port if there is one."""

    host: str
    port: int | None


class Origin(NamedTuple):
    """The origin of a page. Default ports are omitted, so that both spellings are equal."""

    scheme: str
    host: str
    port: int | None


@lru_cache(_REMEMBERED)
def read_host(header: str) -> Authority | None:
    """None if it is not a host."""
    found = _HOST.fullmatch(header.strip().lower())
    if found is None or not found["host"]:
        return None
    return Authority(_bare(found["host"]), int(found["port"]) if found["port"] else None)


@lru_cache(_REMEMBERED)
def read_origin(header: str) -> Origin | None:
    """None for `null`, and if it is not an origin."""
    found = _ORIGIN.fullmatch(header.strip().lower())
    if found is None:
        return None
    port = int(found["port"]) if found["port"] else None
    scheme = found["scheme"]
    return Origin(scheme, _bare(found["host"]), None if port == _DEFAULT_PORTS.get(scheme) else port)


@lru_cache(_REMEMBERED)
def is_loopback(host: str) -> bool:
    """Whether a name or address can only mean the machine it is used on."""
    if host == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


class HostRule:
    """Protection against DNS rebinding: whether a Host header names this scheduler.

    Loopback names and the address of the connection itself are always accepted: no DNS is involved. Other names must be
    in `allowed`; if that is empty, all are accepted, unless the scheduler listens only on loopback.
    """

    def __init__(self, allowed: Iterable[str], own_name: str) -> None:
        self._allowed = {own_name.lower()} | {
            found.host if (found := read_host(name)) is not None else name for name in allowed
        }
        self._takes_any = ANY in self._allowed
        self._is_listed = bool(tuple(allowed))
        self.is_local = False

    def admits(self, header: str | None, local_address: str) -> bool:
        if header is None or self._takes_any or not (self._is_listed or self.is_local):
            # Browsers always send the header; a peer without it is not a browser.
            return True
        named = read_host(header)
        if named is None:
            return False
        return named.host in self._allowed or named.host == local_address or is_loopback(named.host)


class OriginRule:
    """Whether the origin of a page is allowed. Programs that send no Origin are always allowed."""

    def __init__(self, allowed: Iterable[str]) -> None:
        listed = tuple(allowed)
        self._allowed = {origin for text in listed if (origin := read_origin(text)) is not None}
        self._takes_any = ANY in listed

    def admits(self, header: str | None, host: str | None, fetch_site: str | None, is_from_loopback: bool) -> bool:
        """`host` and `fetch_site` are the headers Host and Sec-Fetch-Site, which a page cannot choose."""
        if self._takes_any:
            return True
        fetch_site = fetch_site.strip().lower() if fetch_site else None
        if header is None:
            return fetch_site not in ("cross-site", "same-site")
        origin = read_origin(header)
        if origin is None:
            return False
        # A proxy may have changed the Host; Sec-Fetch-Site still identifies pages of the same origin.
        if origin in self._allowed or fetch_site == "same-origin":
            return True
        named = read_host(host) if host else None
        if named is not None and _is_same(origin, named):
            return True
        # Page and scheduler are on the developer's own machine: other ports belong to the same person.
        is_here = is_from_loopback or (named is not None and is_loopback(named.host))
        return is_here and origin.scheme in _DEFAULT_PORTS and is_loopback(origin.host)


def is_same_origin(header: str, host: str) -> bool:
    """Whether an Origin header and a Host header name the same place."""
    origin, named = read_origin(header), read_host(host)
    return origin is not None and named is not None and _is_same(origin, named)


def _is_same(origin: Origin, named: Authority) -> bool:
    if origin.scheme not in _DEFAULT_PORTS or origin.host != named.host:
        return False
    # Behind a proxy the scheme is unknown, and some proxies omit the port.
    return named.port is None or named.port == (origin.port or _DEFAULT_PORTS[origin.scheme])


def _bare(host: str) -> str:
    return host.strip("[]").removesuffix(".")
