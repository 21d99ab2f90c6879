"""Tokens as an app's backend or an attacker would make them, and a book of credentials in memory."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Collection
from typing import Any

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from lingua_scheduler.domain.access.credentials import Credential
from lingua_scheduler.domain.access.issuers import Issuer
from lingua_scheduler.services.access.signing import signing_key_of
from lingua_sdk.domain.key_texts import KeyKind, KeyText, fresh_key

NOW_S = 1_800_000_000
NOW_MS = NOW_S * 1000

ED25519, OTHER_ED25519 = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
P256 = generate_private_key(SECP256R1())
RSA = generate_rsa(65537, 2048)
KEYS: dict[str, Any] = {"EdDSA": ED25519, "ES256": P256, "RS256": RSA}


class Book:
    """Keeps what it is told, as the CredentialBook does after it has read it."""

    def __init__(self, *known: Credential | Issuer) -> None:
        self.credentials = {one.id: one for one in known if isinstance(one, Credential)}
        self.issued = {one.id: one for one in known if isinstance(one, Issuer)}
        self.voids: dict[str, int] = {}

    def find(self, key_id: str) -> Credential | None:
        return self.credentials.get(key_id)

    def all(self) -> list[Credential]:
        return list(self.credentials.values())

    def issuers(self) -> Collection[Issuer]:
        return self.issued.values()

    def void_before(self, name: str) -> int:
        return self.voids.get(name, 0)

    def change(self, key_id: str, **changed: Any) -> None:
        if key_id in self.credentials:
            self.credentials[key_id] = msgspec.structs.replace(self.credentials[key_id], **changed)
        else:
            self.issued[key_id] = msgspec.structs.replace(self.issued[key_id], **changed)


def pem(key: Any) -> str:
    found: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return found.decode()


def issuer(issuer_id: str = "app", algorithm: Any = "EdDSA", **changed: Any) -> Issuer:
    known = {"tenant": "acme", "issuer": "https://app.example", "public_key": pem(KEYS[algorithm])}
    return Issuer(id=issuer_id, algorithm=algorithm, **{**known, **changed})


def service(key: KeyText | None = None, **changed: Any) -> Credential:
    key = key or fresh_key(KeyKind.SERVICE)
    known = {"tenant": "acme", "signing_key": signing_key_of(key.secret)}
    return Credential(id=key.id, kind=key.kind, digest=key.digest, **{**known, **changed})


def claims(**changed: Any) -> dict[str, Any]:
    """Valid ones; None takes one away."""
    known = {
        "iss": "https://app.example",
        "aud": "lingua",
        "sub": "user-7",
        "iat": NOW_S - 10,
        "exp": NOW_S + 600,
        "jti": "t-1",
        "lingua": {"tenant": "acme"},
    }
    return {name: value for name, value in {**known, **changed}.items() if value is not None}


def token(
    said: dict[str, Any] | None = None,
    key: Any = ED25519,
    algorithm: str = "EdDSA",
    kid: str | None = "app",
    **headers: Any,
) -> str:
    named = headers if kid is None else {"kid": kid, **headers}
    return jwt.encode(claims() if said is None else said, key, algorithm, headers=named)


def encoded(value: Any) -> str:
    """A part of a token."""
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return urlsafe_b64encode(text).rstrip(b"=").decode()
