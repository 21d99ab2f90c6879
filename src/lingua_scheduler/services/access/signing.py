"""Makes tokens with keys that are derived from the cluster key, and derives the keys that services sign with."""

import hashlib
import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from lingua_scheduler.domain.access.credentials import ALL_TENANTS
from lingua_scheduler.domain.access.grants import MAX_SUBJECT_CHARS, Grants, are_within
from lingua_scheduler.domain.access.principals import Denied, Principal
from lingua_scheduler.domain.access.scopes import OF_USERS, Scope
from lingua_scheduler.protocol.sealing import Keyring, derived_key
from lingua_scheduler.services.access.tokens import OWN_ISSUER, VerifyingKey, signed, to_jwk
from lingua_sdk.domain.errors import HttpCode

_CLUSTER_PURPOSE = b"lingua token signing"
_SERVICE_PURPOSE = b"lingua jwt"
_ID_DIGITS = 16
_TOKEN_ID_BYTES = 12


class MintedToken(NamedTuple):
    text: str
    token_id: str
    expires_ms: int


class TokenSigner:
    """The first key of the ring signs. The others are published too, so that keys can be rotated under way."""

    def __init__(self, keyring: Keyring, audience: str, max_token_ms: int) -> None:
        keys = [Ed25519PrivateKey.from_private_bytes(seed) for seed in keyring.derive(_CLUSTER_PURPOSE)]
        self._key = keys[0]
        self._key_id = _key_id(self._key)
        self._audience = audience
        self._max_token_ms = max_token_ms
        self._public = {_key_id(key): key.public_key() for key in keys}
        self.public_keys: Mapping[str, VerifyingKey] = {
            key_id: VerifyingKey("EdDSA", key) for key_id, key in self._public.items()
        }

    def mint(self, minter: Principal, subject: str, grants: Grants, ttl_ms: int, now_ms: int) -> MintedToken | Denied:
        """A token with at most what its minter has. It ends when the minter's key is revoked, and never lives longer
        than a token or that key may: see `expires_ms`. Raises ValueError for a subject or a time that none can have.
        """
        if not 1 <= len(subject) <= MAX_SUBJECT_CHARS or ttl_ms < 1000:
            raise ValueError(f"a token needs a subject of 1 to {MAX_SUBJECT_CHARS} characters and a second or more")
        if excess := _excess(minter, grants):
            return Denied(403, HttpCode.PERMISSION_DENIED.value, excess, reason=excess)
        issued_s = now_ms // 1000
        expires_ms = issued_s * 1000 + min(ttl_ms, self._max_token_ms)
        expires_s = (min(expires_ms, minter.expires_ms) if minter.expires_ms else expires_ms) // 1000
        token_id = secrets.token_urlsafe(_TOKEN_ID_BYTES)
        claims: dict[str, Any] = {
            "iss": OWN_ISSUER,
            "aud": self._audience,
            "sub": subject,
            "iat": issued_s,
            "exp": expires_s,
            "jti": token_id,
            "azp": minter.key_id,
            "lingua": _narrowed(grants, minter),
        }
        return MintedToken(signed(claims, self._key_id, self._key), token_id, expires_s * 1000)

    def jwks(self) -> dict[str, list[dict[str, str]]]:
        return {"keys": [to_jwk(key_id, key) for key_id, key in self._public.items()]}


def signing_key_of(secret: str) -> str:
    """What a service signs HS256 tokens with, as hexadecimal digits: HKDF of the secret of its key."""
    return derived_key(secret.encode(), _SERVICE_PURPOSE).hex()


def _key_id(key: Ed25519PrivateKey) -> str:
    public = key.public_key().public_bytes_raw()
    return f"lingua-{hashlib.sha256(public).hexdigest()[:_ID_DIGITS]}"


def _excess(minter: Principal, grants: Grants) -> str:
    """What a minter would give without having it; empty if nothing."""
    if Scope.TOKENS_MINT not in minter.scopes:
        return "this credential may not make tokens"
    if not {grants.tenant, ALL_TENANTS} & {minter.tenant, *minter.act_for}:
        return "this credential may not act for the tenant of the token"
    # A minter that may create keys may create one that has these.
    own = minter.scopes | OF_USERS if Scope.KEYS_WRITE in minter.scopes else minter.scopes
    if not grants.scopes <= own:
        return "the token would have a grant that this credential has not"
    if not are_within(grants.pairs, minter.pairs):
        return "the token would have a language pair that this credential has not"
    if minter.max_sessions and grants.max_sessions > minter.max_sessions:
        return "the token would have more sessions than this credential"
    return ""


def _narrowed(grants: Grants, minter: Principal) -> dict[str, Any]:
    """What a token leaves open is limited as its minter is."""
    return {
        "tenant": grants.tenant,
        "grants": grants.grants,
        "pairs": grants.pairs or minter.pairs,
        "max_sessions": grants.max_sessions or minter.max_sessions,
    } | ({} if grants.room is None else {"room": {"code": grants.room.code, "role": grants.room.role}})
