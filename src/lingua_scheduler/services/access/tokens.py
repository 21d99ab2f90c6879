"""Reads tokens (JWT) of app backends and of this cluster. The only module that uses the JWT library.

Whatever needs no cryptography is checked first; nothing in a token counts before its signature does.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from jwt.algorithms import OKPAlgorithm

from lingua_scheduler.domain.access.claims import (
    BadToken,
    Claims,
    ExpiredToken,
    check_claims,
    check_expiry,
    check_shape,
    read_claims,
    read_header,
)
from lingua_scheduler.domain.access.credentials import ALL_TENANTS
from lingua_scheduler.domain.access.grants import are_within
from lingua_scheduler.domain.access.issuers import Issuer
from lingua_scheduler.domain.access.principals import Denied, Principal, PrincipalKind, token_expired, unauthenticated
from lingua_scheduler.domain.access.scopes import OF_USERS, Scope
from lingua_scheduler.services.access.standing import KnownCredentials, objection
from lingua_sdk.domain.key_texts import KeyKind

# `iss` of the tokens that this cluster makes itself. No other issuer can have it.
OWN_ISSUER = "lingua"
REFUSED_FOR_MS = 10_000
MAX_REMEMBERED = 20_000

_ALGORITHM_OF_TYPE = {"OKP": "EdDSA", "EC": "ES256", "RSA": "RS256"}
_RSA_BITS = range(2048, 8193)
_MAX_RSA_EXPONENT = 2**32
_JWS = jwt.PyJWS()
T = TypeVar("T")


class VerifyingKey(NamedTuple):
    """A key and the one algorithm it is for."""

    algorithm: str
    key: Any


class PublishedKeys(Protocol):
    """Keys of issuers with a JWKS: JwksCache."""

    def find(self, issuer: Issuer, key_id: str) -> VerifyingKey | None: ...


class OwnKeys(Protocol):
    """TokenSigner."""

    @property
    def public_keys(self) -> Mapping[str, VerifyingKey]: ...


class _Signatory(NamedTuple):
    """Who signed, and what it may give at most. A token of our own was judged when it was made."""

    key_id: str
    key: VerifyingKey
    tenants: tuple[str, ...] = (ALL_TENANTS,)
    scopes: frozenset[Scope] = OF_USERS
    pairs: tuple[str, ...] = ()


class _Verified(NamedTuple):
    key_id: str
    issuer: str
    signatory: _Signatory
    principal: Principal


class _Remembered(Generic[T]):
    """What was found lately, by digest; the least recently used is forgotten first."""

    def __init__(self) -> None:
        self._found: OrderedDict[bytes, T] = OrderedDict()

    def get(self, digest: bytes) -> T | None:
        if (found := self._found.get(digest)) is not None:
            self._found.move_to_end(digest)
        return found

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._found

    def put(self, digest: bytes, found: T) -> None:
        self._found[digest] = found
        if len(self._found) > MAX_REMEMBERED:
            self._found.popitem(last=False)


class TokenReader:
    """Needs no I/O: a key that is not at hand is fetched for the next token."""

    def __init__(
        self,
        book: KnownCredentials,
        audience: str,
        max_token_ms: int,
        own_keys: OwnKeys | None = None,
        published_keys: PublishedKeys | None = None,
    ) -> None:
        self._book = book
        self._audience = audience
        self._max_token_ms = max_token_ms
        self._own_keys: Mapping[str, VerifyingKey] = own_keys.public_keys if own_keys is not None else {}
        self._published_keys = published_keys
        self._verified: _Remembered[_Verified] = _Remembered()
        # The time until which it is refused without another look.
        self._refused: _Remembered[int] = _Remembered()

    def read(self, text: str, now_ms: int) -> Principal | Denied:
        """Whose token it is. The reason of a refusal is for the log."""
        try:
            principal = self._read(text, now_ms)
        except ExpiredToken:
            return token_expired()
        except BadToken as error:
            return unauthenticated(str(error))
        if reason := objection(self._book, principal, now_ms):
            return unauthenticated(reason)
        return principal

    def knows(self, text: str) -> bool:
        """Whether its signature was verified lately, so that reading it again costs little."""
        return hashlib.sha256(text.encode()).digest() in self._verified

    def _read(self, text: str, now_ms: int) -> Principal:
        header_part, claims_part = check_shape(text)
        digest = hashlib.sha256(text.encode()).digest()
        if (self._refused.get(digest) or 0) > now_ms:
            raise BadToken("wrong signature, as a moment ago")
        if (known := self._verified.get(digest)) is not None and self._still_counts(known, now_ms):
            return known.principal
        header, claims = read_header(header_part), read_claims(claims_part)
        check_claims(claims, self._audience, self._max_token_ms, now_ms)
        signatory = self._signatory(header.kid, claims.iss, claims.lingua.tenant, now_ms)
        principal = _principal(claims, signatory)
        if header.alg != signatory.key.algorithm:
            raise BadToken("alg is not the key's own")
        if not is_signed(text, signatory.key):
            self._refused.put(digest, now_ms + REFUSED_FOR_MS)
            raise BadToken("wrong signature")
        self._verified.put(digest, _Verified(header.kid, claims.iss, signatory, principal))
        return principal

    def _still_counts(self, known: _Verified, now_ms: int) -> bool:
        """Whether the key is still that of the signatory: an issuer may have replaced it."""
        check_expiry(known.principal.expires_ms, now_ms)
        return known.signatory == self._signatory(known.key_id, known.issuer, known.principal.tenant, now_ms)

    def _signatory(self, key_id: str, issuer: str, tenant: str, now_ms: int) -> _Signatory:
        """Who has the key that a token names, and speaks for its tenant. What `alg` says has no part in it."""
        if issuer == OWN_ISSUER:
            found = self._own(key_id)
        else:
            found = self._issuing(key_id, issuer, tenant, now_ms) or self._service(key_id, issuer, now_ms)
        if found is None:
            raise BadToken("no such kid of such an iss for this tenant")
        if tenant not in found.tenants and ALL_TENANTS not in found.tenants:
            raise BadToken("its signatory does not speak for this tenant")
        return found

    def _own(self, key_id: str) -> _Signatory | None:
        key = self._own_keys.get(key_id)
        return _Signatory("", key) if key is not None else None

    def _issuing(self, key_id: str, name: str, tenant: str, now_ms: int) -> _Signatory | None:
        """Several issuers may have one name: tenants whose users log in at the same place."""
        for issuer in self._book.issuers():
            if issuer.issuer != name or not issuer.speaks_for(tenant) or not issuer.is_live(now_ms):
                continue
            if (key := self._key_of(issuer, key_id)) is not None:
                return _Signatory(issuer.id, key, (issuer.tenant, *issuer.act_for))
        return None

    def _key_of(self, issuer: Issuer, key_id: str) -> VerifyingKey | None:
        if issuer.public_key:
            return read_pem(issuer.public_key, issuer.algorithm) if issuer.id == key_id else None
        return self._published_keys.find(issuer, key_id) if self._published_keys is not None else None

    def _service(self, key_id: str, issuer: str, now_ms: int) -> _Signatory | None:
        """A service that signs with what is derived from its own key. `iss` is that key's id, or missing."""
        found = self._book.find(key_id)
        if found is None or found.kind is not KeyKind.SERVICE or not found.signing_key or not found.is_live(now_ms):
            return None
        if issuer not in ("", key_id):
            return None
        key = VerifyingKey("HS256", bytes.fromhex(found.signing_key))
        return _Signatory(key_id, key, (found.tenant, *found.act_for), found.scopes, found.pairs)


@lru_cache(maxsize=1024)
def read_pem(text: str, algorithm: str) -> VerifyingKey | None:
    """A public key that is fit for this algorithm; None if the text is none."""
    try:
        key = VerifyingKey(algorithm, load_pem_public_key(text.encode()))
    except Exception:  # the text may be anything, and the library has many ways to say that it is no key
        return None
    return key if _is_fit(key) else None


def read_jwk(jwk: Mapping[str, Any]) -> VerifyingKey | None:
    """A public key of a JWKS that is for signatures and fit for them; None for any other."""
    kind = jwk.get("kty")
    algorithm = _ALGORITHM_OF_TYPE.get(kind) if isinstance(kind, str) else None
    if algorithm is None or jwk.get("use") != "sig" or jwk.get("alg", algorithm) != algorithm:
        return None
    try:
        key = VerifyingKey(algorithm, jwt.PyJWK(dict(jwk), algorithm).key)
    except Exception:  # as in read_pem
        return None
    return key if _is_fit(key) else None


def to_jwk(key_id: str, key: Ed25519PublicKey) -> dict[str, str]:
    return {**OKPAlgorithm.to_jwk(key, as_dict=True), "kid": key_id, "use": "sig", "alg": "EdDSA"}


def signed(claims: Mapping[str, Any], key_id: str, key: Ed25519PrivateKey) -> str:
    return _JWS.encode(msgspec.json.encode(claims), key, "EdDSA", {"kid": key_id})


def _is_fit(key: VerifyingKey) -> bool:
    """Of the kind that its algorithm needs, and neither weak nor so large that a check takes long."""
    match key:
        case "EdDSA", Ed25519PublicKey():
            return True
        case "ES256", EllipticCurvePublicKey(curve=SECP256R1()):
            return True
        case "RS256", RSAPublicKey() as rsa:
            return rsa.key_size in _RSA_BITS and rsa.public_numbers().e <= _MAX_RSA_EXPONENT
    return False


def is_signed(text: str, key: VerifyingKey) -> bool:
    try:
        _JWS.decode(text, key.key, [key.algorithm])
    except (jwt.PyJWTError, ValueError, TypeError):
        return False
    return True


def _principal(claims: Claims, signatory: _Signatory) -> Principal:
    grants = claims.lingua
    if not grants.scopes <= signatory.scopes or not are_within(grants.pairs, signatory.pairs):
        raise BadToken("grants more than its signatory has")
    return Principal(
        kind=PrincipalKind.CLIENT,
        scopes=grants.scopes,
        tenant=grants.tenant,
        key_id=signatory.key_id or claims.azp,
        subject=claims.sub if isinstance(claims.sub, str) else "",
        token_id=claims.jti,
        issued_ms=int(claims.iat * 1000),
        expires_ms=int(claims.exp * 1000),
        pairs=grants.pairs or signatory.pairs,
        max_sessions=grants.max_sessions,
        room_code="" if grants.room is None else grants.room.code,
        is_listener=grants.room is not None and grants.room.role == "listener",
    )
