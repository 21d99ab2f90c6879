"""A caller at the door: what it shows, and where it comes from."""

from enum import StrEnum, auto
from typing import NamedTuple

from lingua_scheduler.domain.access.node_certificates import PeerCertificate
from lingua_scheduler.domain.access.people import ForwardedUser
from lingua_scheduler.domain.guards.origins import is_loopback

MISSING = "a credential is required; send a key or a token as Authorization: Bearer, or in the URL as access_token"
_NOT_LOCAL = f"{MISSING}. On loopback none is required without a proxy, at a loopback name and from own pages"

_FORWARDED = (
    "the request came through a proxy, so it needs a credential although this scheduler listens only on this computer: "
    "send a key (lingua keys create makes one) as Authorization: Bearer, or set auth.mode to off to let every caller in"
)


class Via(StrEnum):
    """Where in a request the credential was."""

    HEADER = auto()
    SUBPROTOCOL = auto()
    QUERY = auto()
    COOKIE = auto()
    FRAME = auto()


class Shown(NamedTuple):
    text: str
    via: Via

    def __repr__(self) -> str:
        """Without the text: a traceback may show it."""
        return f"Shown(via={self.via})"


class Visit(NamedTuple):
    """`is_local`: from this computer, to a scheduler that only listens there, and not through a proxy. `user` is whom
    a trusted proxy names, and `certificate` was verified by the TLS listener or such a proxy. `is_forwarded`: only the
    proxy on this computer keeps it from being local."""

    address: str
    origin: str | None
    is_local: bool
    user: ForwardedUser | None = None
    certificate: PeerCertificate | None = None
    is_forwarded: bool = False


def missing_from(visit: Visit) -> str:
    """What a caller without a credential is told in the mode `auto`, where callers on this computer need none."""
    if visit.is_forwarded:
        return _FORWARDED
    return _NOT_LOCAL if is_loopback(visit.address) else MISSING
