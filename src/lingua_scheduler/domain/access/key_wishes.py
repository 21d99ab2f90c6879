"""What a key or an issuer shall be, as its maker asks for it, and whether the maker may give that away."""

from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from lingua_scheduler.domain.access.credentials import (
    ALL_TENANTS,
    END,
    MAX_CREDENTIALS,
    Credential,
    Labels,
    Name,
    Tenant,
    Texts,
)
from lingua_scheduler.domain.access.grants import Pair
from lingua_scheduler.domain.access.issuers import Algorithm, Issuer
from lingua_scheduler.domain.access.principals import Principal
from lingua_scheduler.domain.access.scopes import OF_ALL_TENANTS, Role
from lingua_sdk.domain.key_texts import KeyKind

KindName = Literal["client", "service", "node", "enrol", "operator", "metrics"]
KINDS: dict[KindName, KeyKind] = {
    "client": KeyKind.CLIENT,
    "service": KeyKind.SERVICE,
    "node": KeyKind.NODE,
    "enrol": KeyKind.ENROLMENT,
    "operator": KeyKind.OPERATOR,
    "metrics": KeyKind.METRICS,
}
KIND_NAMES = {kind: name for name, kind in KINDS.items()}
_OF_NODES = (KeyKind.NODE, KeyKind.ENROLMENT)
MAX_LIFE_MS = 10 * 365 * 86_400_000

LifeMs = Annotated[int, Meta(ge=0, le=MAX_LIFE_MS, description="Valid for so long; 0 = until it is revoked")]
Tenants = Annotated[tuple[Tenant, ...], Meta(max_length=64)]
NodeId = Annotated[str, Meta(pattern=rf"^([A-Za-z0-9][A-Za-z0-9._:-]{{0,63}})?{END}")]

# Of which kinds a key must be to have these; all other fields are for every kind.
_OF_KINDS: dict[str, tuple[KindName, ...]] = {
    "role": ("operator",),
    "act_for": ("service",),
    "signs": ("service",),
    "node_id": ("node",),
    "max_slots": ("node", "enrol"),
    "labels": ("node", "enrol"),
    "is_private": ("node", "enrol"),
    "max_nodes": ("enrol",),
    "needs_approval": ("enrol",),
    "is_ephemeral": ("enrol",),
    "nodes_live_ms": ("enrol",),
    "origins": ("client",),
    "pairs": ("client",),
}


class KeyWish(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A limit that is misspelled would be no limit, so an unknown field is an error."""

    kind: KindName
    name: Annotated[Name, Meta(description="What it is for, as lists show it")] = ""
    tenant: Annotated[Tenant | None, Meta(description="By default that of the caller; * = all, of operators alone")] = (
        None
    )
    role: Annotated[Role | None, Meta(description="Of operators, who need one")] = None
    act_for: Annotated[Tenants, Meta(description="Of services: tenants that it may name; * = all")] = ()
    signs: Annotated[bool, Meta(description="Of services: it may sign tokens itself (HS256)")] = False
    node_id: Annotated[NodeId, Meta(description="Of nodes: the only one that may use it; empty = the first")] = ""
    max_slots: Annotated[
        int, Meta(ge=0, le=1_000_000, description="Of nodes and enrolment keys: at most so many jobs at once; 0 = any")
    ] = 0
    labels: Annotated[Labels, Meta(description="Of nodes and enrolment keys: region, trust, owner and such")] = {}
    is_private: Annotated[
        bool, Meta(description="Of nodes and enrolment keys: only jobs of the tenant go to these nodes")
    ] = False
    max_nodes: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_CREDENTIALS)] | None,
        Meta(description="Of enrolment keys: so many nodes may join with it; 0 = any number, absent = 1"),
    ] = None
    needs_approval: Annotated[bool, Meta(description="Of enrolment keys: nodes wait until they are approved")] = False
    is_ephemeral: Annotated[bool, Meta(description="Of enrolment keys: a node that stays away must join again")] = False
    nodes_live_ms: Annotated[
        int, Meta(ge=0, le=MAX_LIFE_MS, description="Of enrolment keys: nodes must join again after so long; 0 = never")
    ] = 0
    origins: Annotated[Texts, Meta(description="Of clients: pages that may use it; none = all")] = ()
    pairs: Annotated[
        tuple[Pair, ...], Meta(max_length=64, description="Of clients: language pairs, zh:en or *:fr; none = all")
    ] = ()
    networks: Annotated[Texts, Meta(description="Networks (CIDR) from which it may be used; none = all")] = ()
    expires_in_ms: LifeMs = 0

    @property
    def fault(self) -> str:
        """What is wrong with it, as far as its own fields tell; empty if nothing."""
        for field, kinds in _OF_KINDS.items():
            if getattr(self, field) and self.kind not in kinds:
                return f"{field} is for keys of kind {' or '.join(kinds)}"
        if self.kind == "operator" and self.role is None:
            return f"an operator needs a role: {', '.join(Role)}"
        if self.tenant == ALL_TENANTS and self.kind != "operator":
            return "tenant * is for operators; a service may have act_for *"
        return "" if self.name.isprintable() else "name must be printable text"


class IssuerWish(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Has either a public key or the address of a JWKS."""

    id: Annotated[str, Meta(pattern=rf"^[0-9A-Za-z._-]{{1,64}}{END}", description="With a public key: `kid` of tokens")]
    issuer: Annotated[str, Meta(min_length=1, max_length=512, description="What `iss` of its tokens must be")]
    tenant: Annotated[Tenant | None, Meta(description="Whose tokens it signs; by default the tenant of the caller")] = (
        None
    )
    act_for: Annotated[Tenants, Meta(description="Other tenants whose tokens it may sign; * = all")] = ()
    algorithm: Algorithm = "EdDSA"
    public_key: Annotated[str, Meta(max_length=8192, description="PEM")] = ""
    jwks_url: Annotated[str, Meta(max_length=1024, description="Where its public keys are, https")] = ""
    expires_in_ms: LifeMs = 0

    @property
    def fault(self) -> str:
        if bool(self.public_key) == bool(self.jwks_url):
            return "an issuer has either a public_key or a jwks_url"
        if self.tenant == ALL_TENANTS:
            return "an issuer is of one tenant; for others it may act_for them, or for *"
        if "PRIVATE KEY" in self.public_key:
            return "that is a private key, which stays with the app; send the public one (openssl pkey -pubout)"
        return "" if self.issuer.isprintable() else "issuer must be printable text"


def may_see(principal: Principal, tenant: str) -> bool:
    """Whether it may read and change what belongs to the tenant, given that it may do so at all."""
    return principal.tenant in (ALL_TENANTS, tenant)


def excess(giver: Principal, given: Credential | Issuer) -> str:
    """What a key or issuer would have without its giver having it; empty if nothing."""
    if foreign := _foreign(giver, (given.tenant, *given.act_for)):
        return f"this credential is of tenant {giver.tenant} and may give no rights of tenant {foreign}"
    return _excess_of_key(giver, given) if isinstance(given, Credential) else ""


def _excess_of_key(giver: Principal, given: Credential) -> str:
    if given.kind is KeyKind.OPERATOR and not given.scopes <= giver.scopes:
        return f"this credential has less than the role {given.role} and may not give it"
    if not given.scopes & OF_ALL_TENANTS <= giver.scopes:
        kind = KIND_NAMES[given.kind]
        return f"a key of kind {kind} shows what is of all tenants; this credential is of tenant {giver.tenant} alone"
    if given.kind in _OF_NODES and not given.is_private and giver.limited_to is not None:
        return (
            f"is_private must be set: other nodes hear all tenants; this credential is of tenant {giver.tenant} alone"
        )
    return ""


def _foreign(giver: Principal, tenants: Iterable[str]) -> str:
    return next((tenant for tenant in tenants if not may_see(giver, tenant)), "")
