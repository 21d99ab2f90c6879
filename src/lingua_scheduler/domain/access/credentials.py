"""Credentials as they are kept: keys and revocations. Copies of two instances can be joined."""

import re
from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta

from lingua_scheduler.domain.access.scopes import OF_USERS, Role, Scope, scopes_of
from lingua_sdk.domain.key_texts import ID_CHARS, KeyKind

ALL_TENANTS = "*"
DEFAULT_TENANT = "default"
# The end of a text, of patterns that are searched for: "$" alone also matches before a line break.
END = r"$(?!\n)"
TENANT = rf"^[a-z0-9][a-z0-9-]{{0,62}}{END}"
# After its end a credential is kept for as long, so that an old copy of Redis cannot bring it back.
KEEP_ENDED_MS = 90 * 86_400_000
MAX_CREDENTIALS = 50_000
MAX_REVOCATION_CHARS = 1024

Name = Annotated[str, Meta(max_length=128)]
# As many digits as scripts read; JSON of more could be read and not written again.
Ms = Annotated[int, Meta(ge=0, lt=10**15)]
Tenant = Annotated[str, Meta(pattern=rf"^(\*|[a-z0-9][a-z0-9-]{{0,62}}){END}")]
Labels = Annotated[
    dict[
        Annotated[str, Meta(pattern=rf"^[a-z][a-z0-9._-]{{0,31}}{END}")],
        Annotated[str, Meta(pattern=rf"^[0-9A-Za-z][0-9A-Za-z .,:@/_-]{{0,63}}{END}")],
    ],
    Meta(max_length=16),
]
Texts = Annotated[tuple[Annotated[str, Meta(max_length=256)], ...], Meta(max_length=64)]

_SCOPES_OF_KIND: dict[KeyKind, frozenset[Scope]] = {
    KeyKind.CLIENT: OF_USERS - {Scope.DISPATCH_CALL},
    KeyKind.SERVICE: OF_USERS | {Scope.TOKENS_MINT},
    KeyKind.NODE: frozenset({Scope.NODE_REGISTER}),
    KeyKind.ENROLMENT: frozenset({Scope.NODE_ENROL}),
    KeyKind.OPERATOR: frozenset(),
    KeyKind.METRICS: frozenset({Scope.METRICS_READ}),
}


class Credential(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A key, without its secret. Times are ms since 1970; 0 = never."""

    id: Annotated[str, Meta(pattern=rf"^[0-9A-Za-z]{{{ID_CHARS}}}{END}")]
    kind: KeyKind
    # SHA-256 of the secret.
    digest: Annotated[str, Meta(pattern=rf"^[0-9a-f]{{64}}{END}")]
    name: Name = ""
    tenant: Tenant = DEFAULT_TENANT
    # Of operators.
    role: Role | None = None
    # Of services: the tenants that it may name; "*" for all.
    act_for: Texts = ()
    # Of nodes: the one node that may use it ("" = the first that does), and the slots it is believed.
    node_id: Annotated[str, Meta(max_length=64)] = ""
    max_slots: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    # Of nodes, or of enrolment keys for the nodes that join with them: region, trust, owner and such. What a node says
    # of itself does not count. An ephemeral node's credential ends when the node stays away.
    labels: Labels = {}
    # The node gets jobs of its tenant alone.
    is_private: bool = False
    is_ephemeral: bool = False
    needs_approval: bool = False
    approved_ms: Ms = 0
    # Of nodes that joined: their public key (Ed25519, hexadecimal digits), and the enrolment key that let them.
    public_key: Annotated[str, Meta(pattern=rf"^([0-9a-f]{{64}})?{END}")] = ""
    enrolled_with: Annotated[str, Meta(max_length=ID_CHARS)] = ""
    # Of enrolment keys: how many nodes may join, and for how long; 0 = no limit.
    max_nodes: Annotated[int, Meta(ge=0, le=MAX_CREDENTIALS)] = 0
    nodes_live_ms: Ms = 0
    # Of clients: pages that may use it, and language pairs such as zh:en or *:fr.
    origins: Texts = ()
    pairs: Texts = ()
    # Networks from which it may be used.
    networks: Texts = ()
    created_ms: Ms = 0
    created_by: Name = ""
    expires_ms: Ms = 0
    revoked_ms: Ms = 0
    # Of services that sign tokens with HS256: derived from the secret, which cannot be found from it.
    signing_key: Annotated[str, Meta(pattern=rf"^([0-9a-f]{{64}})?{END}")] = ""
    # The key that replaced it.
    successor: Annotated[str, Meta(max_length=ID_CHARS)] = ""
    # Of nodes: the first of the keys that were rotated into this one. What belongs to a node key belongs to its line.
    line: Annotated[str, Meta(max_length=ID_CHARS)] = ""
    # It was revoked while it was in a keys file. It may be there for ever, so its end is never forgotten.
    in_file: bool = False

    @property
    def scopes(self) -> frozenset[Scope]:
        if self.kind is KeyKind.OPERATOR:
            is_for_all = self.tenant == ALL_TENANTS
            return scopes_of(self.role, is_for_all=is_for_all) if self.role is not None else frozenset()
        return _SCOPES_OF_KIND[self.kind]

    @property
    def is_pending(self) -> bool:
        """Whether it is of a node that may not work before an operator approves it."""
        return self.kind is KeyKind.NODE and self.needs_approval and not self.approved_ms

    def is_live(self, now_ms: int) -> bool:
        return not self.revoked_ms and (not self.expires_ms or now_ms < self.expires_ms)

    def ended_ms(self) -> int:
        """When it ended or will end; 0 if it will not."""
        return first_end(self.revoked_ms, self.expires_ms)


class Revocation(msgspec.Struct, frozen=True, array_like=True):
    """What was issued before `before_ms` is void. May be forgotten after `until_ms`: no token lives longer."""

    before_ms: Ms
    until_ms: Ms


def joined(one: Credential, other: Credential) -> Credential:
    """Two copies of one credential. It can only be approved and end, and the earlier time counts, so every order gives
    the same."""
    return msgspec.structs.replace(
        one,
        expires_ms=first_end(one.expires_ms, other.expires_ms),
        revoked_ms=first_end(one.revoked_ms, other.revoked_ms),
        approved_ms=first_end(one.approved_ms, other.approved_ms),
        successor=max(one.successor, other.successor),
        # An instance of an older release does not keep it.
        line=max(one.line, other.line),
        in_file=one.in_file or other.in_file,
    )


def has_node_of_other_tenant(one: Credential, known: Iterable[Credential], now_ms: int) -> bool:
    """Whether a valid credential of another tenant is for the same node. Two would be one node: the later registration
    ends the earlier, and gets its jobs."""
    of_node = (other for other in known if one.node_id and other.node_id == one.node_id)
    return any(other.tenant != one.tenant and other.is_live(now_ms) for other in of_node)


def joined_revocation(one: Revocation, other: Revocation) -> Revocation:
    return Revocation(max(one.before_ms, other.before_ms), max(one.until_ms, other.until_ms))


def is_tenant(text: str) -> bool:
    return re.fullmatch(TENANT, text) is not None


def subject_name(tenant: str, subject: str) -> str:
    """Under which a revocation of a subject is kept. A tenant has no "/"."""
    return f"subject/{tenant}/{subject}"


def tenant_name(tenant: str) -> str:
    return f"tenant/{tenant}"


def token_name(issuer: str, token_id: str) -> str:
    """By the id of its issuer, which has no "/" either."""
    return f"token/{issuer}/{token_id}"


def is_revocation_name(text: str) -> bool:
    return len(text) <= MAX_REVOCATION_CHARS and text.startswith(("subject/", "tenant/", "token/"))


def first_end(one: int, other: int) -> int:
    """The earlier of two times, of which 0 is never."""
    return min(one, other) if one and other else one or other
