"""Keys of the audit log, derived from secrets: one that makes the hashes, and one that signs anchors (Ed25519).

`cryptography` is imported at the first use: it costs 30 ms that no other command needs."""

import hashlib
import hmac
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lingua_scheduler.domain.access.audit import AuditEntry, hash_of, hashed

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KEY_BYTES = 32
# Without a secret the hashes still find accidents, but no forgery.
UNKEYED = "none"
_ID_BYTES = 4


class AuditKeys:
    """The first key writes, all of them check: entries outlive the rotation of a key."""

    def __init__(self, secrets: Sequence[bytes] = ()) -> None:
        chain_keys = [_derived(secret, b"lingua audit chain") for secret in secrets]
        self._chain = {_key_id(key): key for key in chain_keys} or {UNKEYED: b""}
        self._seeds = {
            _key_id(key): _derived(secret, b"lingua audit anchors")
            for key, secret in zip(chain_keys, secrets, strict=True)
        }
        self.current = next(iter(self._chain))

    @property
    def is_keyed(self) -> bool:
        return self.current != UNKEYED

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self._chain)

    def hashed(self, entry: AuditEntry) -> AuditEntry:
        return hashed(entry, self._chain[entry.key])

    def is_right(self, entry: AuditEntry) -> bool | None:
        """Whether its hash is; None if its key is not here."""
        key = self._chain.get(entry.key)
        return None if key is None else hmac.compare_digest(hash_of(entry, key), entry.hash)

    def sign(self, statement: bytes) -> str:
        """Empty without a secret."""
        return _private(self._seeds[self.current]).sign(statement).hex() if self.is_keyed else ""

    def is_signed(self, key_id: str, statement: bytes, signature: str) -> bool | None:
        """Whether it was signed with a key; None if that key is not here."""
        if key_id not in self._seeds:
            return None
        from cryptography.exceptions import InvalidSignature

        try:
            _private(self._seeds[key_id]).public_key().verify(bytes.fromhex(signature), statement)
        except (InvalidSignature, ValueError):
            return False
        return True

    def public_key(self, key_id: str) -> str:
        """Of the anchors, as hexadecimal digits; empty without a secret."""
        seed = self._seeds.get(key_id)
        return _private(seed).public_key().public_bytes_raw().hex() if seed is not None else ""


def _key_id(key: bytes) -> str:
    """A public name of a key, from which the key cannot be found."""
    return hmac.digest(key, b"lingua audit key id", hashlib.sha256)[:_ID_BYTES].hex()


def _derived(secret: bytes, purpose: bytes) -> bytes:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(hashes.SHA256(), KEY_BYTES, salt=None, info=purpose).derive(secret)


def _private(seed: bytes) -> "Ed25519PrivateKey":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(seed)
