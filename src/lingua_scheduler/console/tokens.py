"""HTTP: tokens that this cluster makes itself, and the public keys to check them with."""

from collections.abc import Callable, Iterable

import msgspec

from lingua_scheduler.console.operations import Call, KnownProblem, Operation, Problem
from lingua_scheduler.domain.access.credentials import ALL_TENANTS, DEFAULT_TENANT
from lingua_scheduler.domain.access.grants import Grant, Grants, with_implied
from lingua_scheduler.domain.access.principals import Denied, Principal
from lingua_scheduler.domain.access.scopes import OPEN, Scope
from lingua_scheduler.protocol.http_keys import TALK_MS, PublicKeys, TokenCreated, TokenWish
from lingua_scheduler.services.access.signing import TokenSigner
from lingua_sdk.domain.errors import ErrorCode, HttpCode

_TAG = "access"
_NEEDS = (Scope.TOKENS_MINT,)
# What the pages /talk and /room do.
_TALK: tuple[Grant, ...] = ("session", "room")
_NO_KEY = (
    "this scheduler makes no tokens, because it has no cluster key to sign them with; "
    "see the setting privacy.cluster_key_file"
)
_NO_TENANT = "tenant is missing; a credential for all tenants must name one"
_NO_PERSON = "tokens end with the key that made them, so they are made with a key; your login has none"
_PROBLEMS = (
    KnownProblem(
        403,
        HttpCode.PERMISSION_DENIED.value,
        "The credential lacks the scope `tokens:mint`, or would give a tenant, grant or pair that it has not itself",
    ),
    KnownProblem(503, HttpCode.SERVICE_UNAVAILABLE.value, "There is no cluster key to sign tokens with"),
)


def token_operations(signer: TokenSigner | None, wall_ms: Callable[[], int]) -> Iterable[Operation]:
    def minted(minter: Principal, subject: str, grants: Grants, ttl_ms: int) -> TokenCreated:
        if signer is None:
            raise Problem(503, HttpCode.SERVICE_UNAVAILABLE, _NO_KEY)
        made = signer.mint(minter, subject, grants, ttl_ms, wall_ms())
        if isinstance(made, Denied):
            raise Problem(made.status, made.code, made.detail)
        return TokenCreated(
            token=made.text,
            token_id=made.token_id,
            key_id=minter.key_id,
            subject=subject,
            tenant=grants.tenant,
            expires_ms=made.expires_ms,
        )

    async def mint(call: Call[TokenWish, None]) -> TokenCreated:
        wish, minter = call.body, call.principal
        if minter.is_person:
            raise Problem(403, HttpCode.PERMISSION_DENIED, _NO_PERSON)
        tenant = wish.tenant or minter.tenant
        if tenant == ALL_TENANTS:
            raise Problem(400, ErrorCode.INVALID_MESSAGE, _NO_TENANT)
        grants = Grants(
            tenant=tenant,
            grants=with_implied(wish.grants, wish.room),
            pairs=wish.pairs,
            max_sessions=wish.max_sessions,
            room=wish.room,
        )
        return minted(minter, wish.subject, grants, wish.ttl_ms)

    async def mint_for_talk(call: Call[None, None]) -> TokenCreated:
        minter = call.principal
        tenant = DEFAULT_TENANT if minter.tenant == ALL_TENANTS else minter.tenant
        # The same for every token of one login, so that the page can send a newer one.
        subject = f"talk-{minter.key_id or minter.owner_digest or minter.kind.value}"
        return minted(minter, subject, Grants(tenant=tenant, grants=_TALK), TALK_MS)

    async def keys(_: Call[None, None]) -> PublicKeys:
        return msgspec.convert({"keys": []} if signer is None else signer.jwks(), PublicKeys)

    return (
        Operation(
            method="POST",
            path="/v1/tokens",
            needs=_NEEDS,
            tag=_TAG,
            summary="Make a token for a user of an app",
            description="It has at most the rights of the caller, and ends when the caller's key is revoked. "
            "The app's backend asks for it, and gives it to its user.",
            handle=mint,
            body=TokenWish,
            answer=TokenCreated,
            problems=_PROBLEMS,
        ),
        Operation(
            method="POST",
            path="/v1/tokens/talk",
            needs=_NEEDS,
            tag=_TAG,
            summary="Make a short-lived token for the pages /talk and /room",
            handle=mint_for_talk,
            answer=TokenCreated,
            problems=_PROBLEMS,
        ),
        Operation(
            method="GET",
            path="/.well-known/jwks.json",
            needs=OPEN,
            tag=_TAG,
            summary="The public keys (JWKS) of the tokens that this scheduler makes",
            handle=keys,
            answer=PublicKeys,
        ),
    )
