"""From where a key may be used."""

from functools import lru_cache

from lingua_scheduler.domain.access.credentials import Credential
from lingua_scheduler.domain.access.principals import Denied
from lingua_scheduler.domain.guards.addresses import Network, read_address, read_networks
from lingua_scheduler.domain.guards.origins import Origin, read_origin
from lingua_sdk.domain.errors import HttpCode
from lingua_sdk.domain.key_texts import KeyKind

# Size of the caches of what keys say.
_REMEMBERED = 256


def misplaced(credential: Credential, address: str, origin: str | None) -> Denied | None:
    """A right key in the wrong place."""
    if credential.networks and not _is_in(address, credential.networks):
        detail = f"this key may not be used from {address}"
        return Denied(403, HttpCode.PERMISSION_DENIED.value, detail, reason="network")
    if credential.kind is KeyKind.CLIENT and credential.origins:
        page = read_origin(origin) if origin else None
        if page is None or page not in _read_origins(credential.origins):
            detail = "this key may not be used by this page; its origin is not one of the key's"
            return Denied(403, HttpCode.ORIGIN_NOT_ALLOWED.value, detail, reason="origin")
    return None


def _is_in(address: str, networks: tuple[str, ...]) -> bool:
    found = read_address(address)
    return found is not None and any(found in network for network in _read_networks(networks))


@lru_cache(_REMEMBERED)
def _read_networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    try:
        return read_networks(texts)
    except ValueError:
        return ()  # from nowhere, rather than from everywhere


@lru_cache(_REMEMBERED)
def _read_origins(texts: tuple[str, ...]) -> frozenset[Origin]:
    return frozenset(origin for text in texts if (origin := read_origin(text)) is not None)
