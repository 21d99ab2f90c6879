"""Makes keys and issuers of what was asked for. Used by the HTTP API and by commands alike."""

from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from lingua_scheduler.domain.access.credentials import Credential
from lingua_scheduler.domain.access.issuers import Issuer
from lingua_scheduler.domain.access.key_wishes import IssuerWish, KeyWish
from lingua_scheduler.domain.guards.addresses import read_networks
from lingua_scheduler.domain.guards.origins import read_origin
from lingua_scheduler.services.access.signing import signing_key_of
from lingua_scheduler.services.access.tokens import OWN_ISSUER, read_pem
from lingua_sdk.domain.key_texts import KeyKind, KeyText


class BadWish(ValueError):
    """There cannot be such a key or issuer; the message names the field."""


class KeyMaker(NamedTuple):
    """Who makes it, as lists show that; the tenant of what names none; and when."""

    name: str
    tenant: str
    now_ms: int


def key_of(wish: KeyWish, key: KeyText, maker: KeyMaker) -> Credential:
    """Raises BadWish."""
    if fault := wish.fault or _misplaced(wish):
        raise BadWish(fault)
    return Credential(
        id=key.id,
        kind=key.kind,
        digest=key.digest,
        name=wish.name,
        tenant=wish.tenant or maker.tenant,
        role=wish.role,
        act_for=wish.act_for,
        node_id=wish.node_id,
        max_slots=wish.max_slots,
        labels=wish.labels,
        is_private=wish.is_private,
        is_ephemeral=wish.is_ephemeral,
        needs_approval=wish.needs_approval,
        max_nodes=_max_nodes(wish),
        nodes_live_ms=wish.nodes_live_ms,
        origins=wish.origins,
        pairs=wish.pairs,
        networks=wish.networks,
        created_ms=maker.now_ms,
        created_by=maker.name,
        expires_ms=maker.now_ms + wish.expires_in_ms if wish.expires_in_ms else 0,
        signing_key=signing_key_of(key.secret) if wish.signs else "",
    )


def successor_of(before: Credential, key: KeyText, maker: KeyMaker, expires_in_ms: int | None = None) -> Credential:
    """Another key with the same rights. By default it lives as long as the one before was to live."""
    if expires_in_ms is None:
        expires_in_ms = max(0, before.expires_ms - before.created_ms)
    return msgspec.structs.replace(
        before,
        id=key.id,
        digest=key.digest,
        created_ms=maker.now_ms,
        created_by=maker.name,
        expires_ms=maker.now_ms + expires_in_ms if expires_in_ms else 0,
        signing_key=signing_key_of(key.secret) if before.signing_key else "",
        successor="",
        # The ids that nodes have with the one before stay theirs.
        line=(before.line or before.id) if before.kind is KeyKind.NODE else "",
        in_file=False,
    )


def issuer_of(wish: IssuerWish, maker: KeyMaker) -> Issuer:
    """Raises BadWish."""
    if fault := wish.fault or _unusable(wish):
        raise BadWish(fault)
    return Issuer(
        id=wish.id,
        tenant=wish.tenant or maker.tenant,
        act_for=wish.act_for,
        issuer=wish.issuer,
        algorithm=wish.algorithm,
        public_key=wish.public_key,
        jwks_url=wish.jwks_url,
        created_ms=maker.now_ms,
        created_by=maker.name,
        expires_ms=maker.now_ms + wish.expires_in_ms if wish.expires_in_ms else 0,
    )


def _max_nodes(wish: KeyWish) -> int:
    """An enrolment key is for one node unless more are asked for."""
    return int(wish.kind == "enrol") if wish.max_nodes is None else wish.max_nodes


def _misplaced(wish: KeyWish) -> str:
    """A place that cannot be read would be taken for none, and the key could be used from nowhere."""
    try:
        read_networks(wish.networks)
    except ValueError as error:
        return f"networks: {error}; write one as 192.0.2.0/24"
    strange = next((origin for origin in wish.origins if read_origin(origin) is None), None)
    return "" if strange is None else f"origins: {strange!r} is none; write one as https://app.example"


def _unusable(wish: IssuerWish) -> str:
    if wish.issuer == OWN_ISSUER:
        return f"the tokens of {OWN_ISSUER} are made by this scheduler itself"
    if wish.public_key:
        is_fit = read_pem(wish.public_key, wish.algorithm) is not None
        return "" if is_fit else f"public_key is no PEM of a key that is fit for {wish.algorithm}"
    try:
        parts = urlsplit(wish.jwks_url)
        is_fit = parts.scheme == "https" and bool(parts.hostname) and parts.username is None
    except ValueError:
        is_fit = False
    return "" if is_fit else "jwks_url must be an https:// address without a password"
