"""Bodies about keys, issuers, revocations and tokens. No digest and no signing key is in any of them."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from lingua_scheduler.domain.access.credentials import END, TENANT
from lingua_scheduler.domain.access.grants import MAX_SUBJECT_CHARS, Grant, Pair, RoomGrant
from lingua_scheduler.protocol.http import Answer

DAY_MS = 86_400_000
MAX_OVERLAP_MS = 90 * DAY_MS
MINUTE_MS = 60_000
TALK_MS = 10 * MINUTE_MS

_TenantName = Annotated[str, Meta(pattern=TENANT)]
_TenantOrAll = Annotated[str, Meta(pattern=rf"^\*{END}|{TENANT}")]
_Subject = Annotated[str, Meta(min_length=1, max_length=MAX_SUBJECT_CHARS)]
_TokenId = Annotated[str, Meta(min_length=1, max_length=128)]
_SignatoryId = Annotated[str, Meta(pattern=rf"^[0-9A-Za-z._-]{{0,64}}{END}")]


def _told(description: str, *examples: Any) -> Meta:
    return Meta(description=description, examples=list(examples) or None)


_AtMs = Annotated[int, _told("Epoch ms; 0 = never")]


class KeyView(Answer, kw_only=True):
    """A key without its secret."""

    id: str
    shown: Annotated[str, _told("How logs and lists name it", "lk_sv_k3jPq0aZ81Ty")]
    kind: Annotated[str, _told("client, service, node, enrol, operator or metrics", "service")]
    state: Annotated[str, _told("live, expired or revoked", "live")]
    name: str
    tenant: Annotated[str, _told("* = all", "acme")]
    role: str | None
    scopes: list[str]
    act_for: list[str]
    signs: Annotated[bool, _told("Whether it may sign tokens itself")]
    node_id: str
    max_slots: int
    labels: Annotated[dict[str, str], _told("Of nodes, and of enrolment keys for their nodes", {"region": "eu"})]
    is_private: Annotated[bool, _told("Of nodes, and of enrolment keys for their nodes: only jobs of the tenant")]
    max_nodes: Annotated[int, _told("Of enrolment keys: so many nodes may join; 0 = any number")]
    nodes_live_ms: Annotated[int, _told("Of enrolment keys: nodes must join again after so long; 0 = never")]
    needs_approval: bool
    is_ephemeral: bool
    enrolled_with: Annotated[str, _told("Of a node that joined: id of the enrolment key; it cannot be rotated")]
    origins: list[str]
    pairs: list[str]
    networks: list[str]
    created_ms: int
    created_by: str
    expires_ms: _AtMs
    revoked_ms: _AtMs
    successor: Annotated[str, _told("Id of the key that replaced it")]
    line: Annotated[
        str, _told("Of nodes: id of the first of the keys that were rotated into it, whose node ids it has")
    ]
    last_used_ms: Annotated[int, _told("At the instance that answers; 0 = not since it started")]


class KeyList(Answer, kw_only=True):
    keys: Annotated[list[KeyView], _told("The oldest first")]


class EndedQuery(msgspec.Struct, frozen=True, kw_only=True):
    all: Annotated[bool, _told("Also those that have expired or were revoked")] = False


class KeyCreated(Answer, kw_only=True):
    key: Annotated[str, _told("The key itself. It is shown only now, and cannot be shown again")]
    about: KeyView


class RotateWish(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    overlap_ms: Annotated[
        int, Meta(ge=0, le=MAX_OVERLAP_MS, description="How long the former key stays valid; 0 = not at all")
    ] = DAY_MS


class KeyRotated(Answer, kw_only=True):
    key: Annotated[str, _told("The successor itself. It is shown only now, and cannot be shown again")]
    about: KeyView
    before: KeyView


class IssuerView(Answer, kw_only=True):
    """Whose tokens are accepted. Its key is public."""

    id: str
    state: Annotated[str, _told("live, expired or revoked", "live")]
    issuer: str
    tenant: str
    act_for: list[str]
    algorithm: str
    public_key: str
    jwks_url: str
    created_ms: int
    created_by: str
    expires_ms: _AtMs
    revoked_ms: _AtMs


class IssuerList(Answer, kw_only=True):
    issuers: list[IssuerView]


class RevocationWish(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of a tenant, of a subject of a tenant, or of one token."""

    tenant: Annotated[
        _TenantOrAll | None, _told("Alone: all its keys and tokens; with a subject, `*` for a role in all", "acme")
    ] = None
    subject: Annotated[
        _Subject | None,
        _told("All tokens of this user of the tenant, and all logins of an operator without a key", "user-7"),
    ] = None
    token_id: Annotated[_TokenId | None, _told("`jti` of a token")] = None
    key_id: Annotated[
        _SignatoryId | None,
        _told("With `token_id`: id of the key that made the token or signed it, or of its issuer"),
    ] = None


class Revoked(Answer, kw_only=True):
    before_ms: Annotated[int, _told("What was issued before this time is void, epoch ms")]


class TokenWish(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    subject: Annotated[_Subject, _told("The app's name for its user; it means nothing to the scheduler", "user-7")]
    tenant: Annotated[_TenantName | None, _told("By default that of the caller")] = None
    grants: Annotated[
        tuple[Grant, ...],
        Meta(
            min_length=1,
            max_length=8,
            description="session = WebSocket, dispatch = HTTP, room = rooms; room includes session",
        ),
    ] = ("session",)
    pairs: Annotated[tuple[Pair, ...], Meta(max_length=64, description="zh:en or *:fr; none = as the caller's")] = ()
    max_sessions: Annotated[int, Meta(ge=0, le=1_000_000, description="At the same time; 0 = as the caller's")] = 0
    room: Annotated[
        RoomGrant | None, _told("The only room it may join, and whether to speak there; includes the grant `room`")
    ] = None
    ttl_ms: Annotated[
        int, Meta(ge=1000, le=366 * DAY_MS, description="At most `auth.max_token_ms`, and no longer than the caller's")
    ] = 15 * MINUTE_MS


class TokenCreated(Answer, kw_only=True):
    token: str
    token_id: Annotated[str, _told("`jti`; with key_id it names the token in POST /v1/revocations")]
    key_id: Annotated[str, _told("Of the key that asked for it; when that ends, the token does")]
    subject: str
    tenant: str
    expires_ms: Annotated[int, _told("Epoch ms")]


class PublicKey(Answer, kw_only=True):
    """A JWK (RFC 8037)."""

    kty: Annotated[str, _told("", "OKP")]
    crv: Annotated[str, _told("", "Ed25519")]
    x: str
    kid: str
    use: Annotated[str, _told("", "sig")]
    alg: Annotated[str, _told("", "EdDSA")]


class PublicKeys(Answer, kw_only=True):
    """A JWKS (RFC 7517)."""

    keys: Annotated[list[PublicKey], _told("The first is the one that signs; none without a cluster key")]
