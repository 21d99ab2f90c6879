"""HTTP: keys, issuers of tokens, and revocations."""

from typing import TypeVar

from lingua_scheduler.console.operations import Call, KnownProblem, Operation, Problem
from lingua_scheduler.domain.access.credentials import ALL_TENANTS, Credential
from lingua_scheduler.domain.access.issuers import Issuer
from lingua_scheduler.domain.access.key_wishes import KIND_NAMES, IssuerWish, KeyWish
from lingua_scheduler.domain.access.principals import Denied
from lingua_scheduler.domain.access.scopes import Scope
from lingua_scheduler.protocol.http_keys import (
    EndedQuery,
    IssuerList,
    IssuerView,
    KeyCreated,
    KeyList,
    KeyRotated,
    KeyView,
    RevocationWish,
    Revoked,
    RotateWish,
)
from lingua_scheduler.services.access.key_desk import KeyDesk
from lingua_sdk.domain.errors import ErrorCode, HttpCode
from lingua_sdk.domain.key_texts import shown

T = TypeVar("T")

_TAG = "access"
_READ, _WRITE = (Scope.KEYS_READ,), (Scope.KEYS_WRITE,)
_UNKNOWN = KnownProblem(404, HttpCode.UNKNOWN_KEY.value, "No such key, or none of the caller's tenant")
_UNKNOWN_ISSUER = KnownProblem(404, HttpCode.UNKNOWN_ISSUER.value, "No such issuer, or none of the caller's tenant")
_TOO_MUCH = KnownProblem(
    403,
    HttpCode.PERMISSION_DENIED.value,
    "The credential lacks the scope `keys:write`, or would give a role or a tenant that it has not itself",
)
_CONFLICT = KnownProblem(
    409, HttpCode.KEY_CONFLICT.value, "It has ended, was replaced, is in the keys file, or the id is taken"
)
_WHICH = "name a tenant, or a tenant and a subject, or a token_id and a key_id"


class KeyOperations:
    def __init__(self, desk: KeyDesk) -> None:
        self._desk = desk

    @property
    def operations(self) -> tuple[Operation, ...]:
        return (*self._key_operations, *self._issuer_operations, self._revocation)

    @property
    def _key_operations(self) -> tuple[Operation, ...]:
        return (
            Operation(
                method="GET",
                path="/v1/keys",
                needs=_READ,
                tag=_TAG,
                summary="List the keys of the caller's tenant, without their secrets",
                handle=self._keys,
                query=EndedQuery,
                answer=KeyList,
            ),
            Operation(
                method="GET",
                path="/v1/keys/{key_id}",
                needs=_READ,
                tag=_TAG,
                summary="One key: what it may do, who made it, when it was last used",
                handle=self._key,
                answer=KeyView,
                problems=(_UNKNOWN,),
            ),
            Operation(
                method="POST",
                path="/v1/keys",
                needs=_WRITE,
                tag=_TAG,
                summary="Create a key, and show it once",
                description="The scheduler keeps a digest of it alone. All instances know it within a second.",
                handle=self._create,
                body=KeyWish,
                answer=KeyCreated,
                problems=(_TOO_MUCH, _CONFLICT),
            ),
            Operation(
                method="POST",
                path="/v1/keys/{key_id}/rotate",
                needs=_WRITE,
                tag=_TAG,
                summary="Replace a key by another one with the same rights",
                description="Both are valid until `overlap_ms` is over. `last_used_ms` of the former key tells whether "
                "it is still in use.",
                handle=self._rotate,
                body=RotateWish,
                answer=KeyRotated,
                problems=(_UNKNOWN, _TOO_MUCH, _CONFLICT),
            ),
            Operation(
                method="POST",
                path="/v1/keys/{key_id}/revoke",
                needs=_WRITE,
                tag=_TAG,
                summary="Revoke a key on all instances, within a second",
                description="What was opened with it, or with tokens that it made, is closed. Safe to repeat.",
                handle=self._revoke,
                answer=KeyView,
                problems=(_UNKNOWN,),
            ),
        )

    @property
    def _issuer_operations(self) -> tuple[Operation, ...]:
        return (
            Operation(
                method="GET",
                path="/v1/issuers",
                needs=_READ,
                tag=_TAG,
                summary="List the issuers whose tokens are accepted for the caller's tenant",
                handle=self._issuers,
                query=EndedQuery,
                answer=IssuerList,
            ),
            Operation(
                method="POST",
                path="/v1/issuers",
                needs=_WRITE,
                tag=_TAG,
                summary="Accept the tokens of an issuer: of an app's backend, or an identity provider",
                handle=self._add_issuer,
                body=IssuerWish,
                answer=IssuerView,
                problems=(_TOO_MUCH, _CONFLICT),
            ),
            Operation(
                method="POST",
                path="/v1/issuers/{issuer_id}/revoke",
                needs=_WRITE,
                tag=_TAG,
                summary="Accept no more tokens of an issuer, and close what was opened with them",
                handle=self._revoke_issuer,
                answer=IssuerView,
                problems=(_UNKNOWN_ISSUER,),
            ),
        )

    @property
    def _revocation(self) -> Operation:
        return Operation(
            method="POST",
            path="/v1/revocations",
            needs=_WRITE,
            tag=_TAG,
            summary="Void what was issued until now to a tenant, to one of its users, or one token",
            description="Reaches open connections on all instances within a second. Later tokens count; of a tenant, "
            "later keys too: all keys that it has now are void for ever, those of its admins among them.",
            handle=self._void,
            body=RevocationWish,
            answer=Revoked,
            problems=(_UNKNOWN, _TOO_MUCH, _CONFLICT),
        )

    async def _keys(self, call: Call[None, EndedQuery]) -> KeyList:
        now_ms = self._desk.now_ms()
        found = self._desk.keys(call.principal)
        return KeyList(keys=[self._seen(key) for key in found if call.query.all or key.is_live(now_ms)])

    async def _key(self, call: Call[None, None]) -> KeyView:
        return self._seen(_granted(self._desk.key(call.principal, call.path["key_id"])))

    async def _create(self, call: Call[KeyWish, None]) -> KeyCreated:
        made = _granted(await self._desk.create(call.principal, call.body))
        return KeyCreated(key=made.text, about=self._seen(made.credential))

    async def _rotate(self, call: Call[RotateWish, None]) -> KeyRotated:
        done = _granted(await self._desk.rotate(call.principal, call.path["key_id"], call.body.overlap_ms))
        made = done.created
        return KeyRotated(key=made.text, about=self._seen(made.credential), before=self._seen(done.before))

    async def _revoke(self, call: Call[None, None]) -> KeyView:
        return self._seen(_granted(await self._desk.revoke(call.principal, call.path["key_id"])))

    async def _issuers(self, call: Call[None, EndedQuery]) -> IssuerList:
        now_ms = self._desk.now_ms()
        found = self._desk.issuers(call.principal)
        return IssuerList(issuers=[_seen(one, now_ms) for one in found if call.query.all or one.is_live(now_ms)])

    async def _add_issuer(self, call: Call[IssuerWish, None]) -> IssuerView:
        return _seen(_granted(await self._desk.add_issuer(call.principal, call.body)), self._desk.now_ms())

    async def _revoke_issuer(self, call: Call[None, None]) -> IssuerView:
        ended = _granted(await self._desk.revoke_issuer(call.principal, call.path["issuer_id"]))
        return _seen(ended, self._desk.now_ms())

    async def _void(self, call: Call[RevocationWish, None]) -> Revoked:
        match call.body:
            case RevocationWish(tenant=str(tenant), subject=None, token_id=None, key_id=None) if tenant != ALL_TENANTS:
                found = await self._desk.void_tenant(call.principal, tenant)
            case RevocationWish(tenant=str(tenant), subject=str(subject), token_id=None, key_id=None):
                found = await self._desk.void_subject(call.principal, tenant, subject)
            case RevocationWish(tenant=None, subject=None, token_id=str(token_id), key_id=str(key_id)):
                found = await self._desk.void_token(call.principal, key_id, token_id)
            case _:
                raise Problem(400, ErrorCode.INVALID_MESSAGE, _WHICH)
        return Revoked(before_ms=_granted(found))

    def _seen(self, key: Credential) -> KeyView:
        return KeyView(
            id=key.id,
            shown=shown(key.kind, key.id),
            kind=KIND_NAMES[key.kind],
            state=_state(key, self._desk.now_ms()),
            name=key.name,
            tenant=key.tenant,
            role=key.role,
            scopes=sorted(key.scopes),
            act_for=list(key.act_for),
            signs=bool(key.signing_key),
            node_id=key.node_id,
            max_slots=key.max_slots,
            labels=key.labels,
            is_private=key.is_private,
            max_nodes=key.max_nodes,
            nodes_live_ms=key.nodes_live_ms,
            needs_approval=key.needs_approval,
            is_ephemeral=key.is_ephemeral,
            enrolled_with=key.enrolled_with,
            origins=list(key.origins),
            pairs=list(key.pairs),
            networks=list(key.networks),
            created_ms=key.created_ms,
            created_by=key.created_by,
            expires_ms=key.expires_ms,
            revoked_ms=key.revoked_ms,
            successor=key.successor,
            line=key.line,
            last_used_ms=self._desk.last_used_ms(key.id),
        )


def _seen(issuer: Issuer, now_ms: int) -> IssuerView:
    return IssuerView(
        id=issuer.id,
        state=_state(issuer, now_ms),
        issuer=issuer.issuer,
        tenant=issuer.tenant,
        act_for=list(issuer.act_for),
        algorithm=issuer.algorithm,
        public_key=issuer.public_key,
        jwks_url=issuer.jwks_url,
        created_ms=issuer.created_ms,
        created_by=issuer.created_by,
        expires_ms=issuer.expires_ms,
        revoked_ms=issuer.revoked_ms,
    )


def _state(one: Credential | Issuer, now_ms: int) -> str:
    if one.revoked_ms:
        return "revoked"
    return "live" if one.is_live(now_ms) else "expired"


def _granted(found: T | Denied) -> T:
    if isinstance(found, Denied):
        raise Problem(found.status, found.code, found.detail)
    return found
