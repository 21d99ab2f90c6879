"""Who a caller is, after its credential was checked."""

import hashlib
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

import msgspec

from lingua_scheduler.domain.access.credentials import ALL_TENANTS, DEFAULT_TENANT, Credential, is_tenant
from lingua_scheduler.domain.access.scopes import EVERYTHING, Needs, Scope
from lingua_sdk.domain.errors import HttpCode
from lingua_sdk.domain.key_texts import KeyKind

# Every session and every HTTP job asks for one.
REMEMBERED_OWNERS = 4096
_DIGEST_BYTES = 16


class PrincipalKind(StrEnum):
    LOCAL = "local"  # without a credential, where none is needed
    ANONYMOUS = "anonymous"  # without a credential, at what is open
    CLIENT = "client"
    SERVICE = "service"
    NODE = "node"
    OPERATOR = "operator"
    METRICS = "metrics"


_WITHOUT_CREDENTIAL = (PrincipalKind.LOCAL, PrincipalKind.ANONYMOUS)


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    kind: PrincipalKind
    scopes: frozenset[Scope]
    tenant: str = DEFAULT_TENANT
    # Of the key that it showed, or that signed its token; empty if it needed none.
    key_id: str = ""
    # Of a node key that was rotated: the first of its line, whose node ids are its own.
    line: str = ""
    # Of a token: the app's name for its user. Of an operator without a key: how they are known.
    subject: str = ""
    token_id: str = ""
    # Of an operator who logged in with the key; empty if it was shown itself.
    login_id: str = ""
    issued_ms: int = 0
    # 0 = never.
    expires_ms: int = 0
    act_for: tuple[str, ...] = ()
    node_id: str = ""
    max_slots: int = 0
    # Of a node that gets jobs of its tenant alone.
    is_private: bool = False
    # Empty = all.
    pairs: tuple[str, ...] = ()
    max_sessions: int = 0
    # Of a token at an open socket: whether its client sends newer ones by itself.
    is_refreshing: bool = False
    # Of a token for one room.
    room_code: str = ""
    is_listener: bool = False

    def may(self, needs: Needs) -> bool:
        return needs[0] is Scope.OPEN or not self.scopes.isdisjoint(needs)

    @property
    def limited_to(self) -> str | None:
        """The tenant whose nodes and jobs alone it may know of; None: it may know of all."""
        return None if self.kind in _WITHOUT_CREDENTIAL or self.tenant == ALL_TENANTS else self.tenant

    @property
    def is_person(self) -> bool:
        """An operator without a key, whom an identity provider or a proxy knows."""
        return self.kind is PrincipalKind.OPERATOR and not self.key_id

    @property
    def owner(self) -> str:
        """What belongs to it belongs to this name: the user, or the key where there is no user.

        A tenant has neither "/" nor ":", so no subject can be chosen to look like a key.
        """
        if self.kind in _WITHOUT_CREDENTIAL:
            return ""
        return f"{self.tenant}/{self.subject}" if self.subject else f"{self.tenant}:{self.line or self.key_id}"

    @property
    def owner_digest(self) -> str:
        """Stands for `owner` in Redis, where a user's name has no place; empty if there is no owner."""
        return _digest(self.owner)

    def tenant_for(self, named: str | None) -> str:
        """The tenant of its work. What a caller names counts only if it may act for that tenant."""
        if not named or not is_tenant(named):
            return self.tenant
        return named if named in self.act_for or ALL_TENANTS in self.act_for else self.tenant

    def work_tenant(self, named: str | None) -> str:
        """As it is noted with its work. Without a credential any tenant may be named: nothing depends on it."""
        return named or "" if self.kind in _WITHOUT_CREDENTIAL else self.tenant_for(named)

    def may_name(self, named: str | None) -> bool:
        """Whether its work may be for this tenant."""
        return not named or self.work_tenant(named) == named

    def may_translate(self, src: str, tgt: str) -> bool:
        return not self.pairs or any(_fits(pair, src, tgt) for pair in self.pairs)


LOCAL = Principal(kind=PrincipalKind.LOCAL, scopes=EVERYTHING)
ANONYMOUS = Principal(kind=PrincipalKind.ANONYMOUS, scopes=frozenset())


_KIND = {
    KeyKind.CLIENT: PrincipalKind.CLIENT,
    KeyKind.SERVICE: PrincipalKind.SERVICE,
    KeyKind.NODE: PrincipalKind.NODE,
    KeyKind.ENROLMENT: PrincipalKind.NODE,
    KeyKind.OPERATOR: PrincipalKind.OPERATOR,
    KeyKind.METRICS: PrincipalKind.METRICS,
}


def holder_of(credential: Credential) -> Principal:
    """Who has this key."""
    return Principal(
        kind=_KIND[credential.kind],
        scopes=credential.scopes,
        tenant=credential.tenant,
        key_id=credential.id,
        line=credential.line,
        issued_ms=credential.created_ms,
        expires_ms=credential.expires_ms,
        act_for=credential.act_for,
        node_id=credential.node_id,
        max_slots=credential.max_slots,
        is_private=credential.is_private,
        pairs=credential.pairs,
    )


def is_same_node(one: Principal, other: Principal) -> bool:
    """Whether both are one node, shown with two credentials."""
    return (one.kind, one.tenant, one.node_id) == (other.kind, other.tenant, other.node_id) and bool(one.node_id)


class Denied(NamedTuple):
    """Why a caller is not let in: an HTTP status, a code for machines, a sentence for people."""

    status: int
    code: str
    detail: str
    retry_after_s: int | None = None
    # For the log alone.
    reason: str = ""


def unauthenticated(reason: str) -> Denied:
    """The caller learns that its credential does not count, whatever the cause: the cause would help to guess one."""
    return Denied(401, HttpCode.UNAUTHENTICATED.value, "the credential is not accepted", reason=reason)


def enrolment_refused(why: str) -> Denied:
    """Told openly: the caller has the secret of the enrolment key."""
    return Denied(403, HttpCode.ENROLMENT_REFUSED.value, why, reason=why)


def not_approved() -> Denied:
    detail = "an operator must approve this node first: lingua nodes approve NODE; it may try again"
    return Denied(403, HttpCode.NODE_NOT_APPROVED.value, detail, reason="not approved")


def token_expired() -> Denied:
    """Said openly, because a caller can do something about it."""
    return Denied(401, HttpCode.TOKEN_EXPIRED.value, "the token has expired; send a newer one", reason="token expired")


def _fits(pair: str, src: str, tgt: str) -> bool:
    wanted_src, _, wanted_tgt = pair.partition(":")
    return _covers(wanted_src, src) and _covers(wanted_tgt, tgt)


def _covers(wanted: str, tag: str) -> bool:
    """As RFC 4647 filters: zh covers zh-TW, and the other way round it does not."""
    return wanted == "*" or f"{tag.lower()}-".startswith(f"{wanted.lower()}-")


@lru_cache(REMEMBERED_OWNERS)
def _digest(owner: str) -> str:
    return (
        hashlib.blake2b(owner.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest() if owner else ""
    )
