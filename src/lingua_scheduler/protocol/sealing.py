"""Encryption of what passes through Redis: letters with the cluster key, parked outcomes with the resume token.

`cryptography` is imported at the first use: it costs 30 ms that no other command needs."""

import hashlib
import hmac
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV

KEY_BYTES = 32
# For a rotation: the one in use, and the one before or after it.
MOST_KEYS = 2
# Neither MessagePack nor JSON begins with it, so it identifies sealed bytes.
_MARK = b"\xc1"
_ID_BYTES = 4
_NONCE_BYTES = 12
_HEX_KEY = re.compile(rf"[0-9a-f]{{{2 * KEY_BYTES}}}", re.IGNORECASE | re.ASCII)


class OtherKey(Exception):
    """It was sealed with a key that is not on this ring."""


class BrokenSeal(Exception):
    """It is damaged, belongs elsewhere, or is missing where it is required."""


class Keyring:
    """The keys of a cluster. The first seals, all of them open."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = tuple(keys)
        self._ciphers = {_key_id(key): _gcm(key) for key in keys}
        self.ids = tuple(key_id.hex() for key_id in self._ciphers)
        self._first = next(iter(self._ciphers))

    def seal(self, plain: bytes, about: bytes) -> bytes:
        """AES-256-GCM. `about` is not in it and must be the same when it is opened."""
        nonce = os.urandom(_NONCE_BYTES)
        return b"".join((_MARK, self._first, nonce, self._ciphers[self._first].encrypt(nonce, plain, about)))

    def open(self, sealed: bytes, about: bytes) -> bytes:
        """Raises OtherKey, BrokenSeal."""
        cipher = self._ciphers.get(sealed[1 : 1 + _ID_BYTES])
        if cipher is None:
            raise OtherKey(sealed[1 : 1 + _ID_BYTES].hex())
        from cryptography.exceptions import InvalidTag

        begin = 1 + _ID_BYTES + _NONCE_BYTES
        try:
            return cipher.decrypt(sealed[1 + _ID_BYTES : begin], sealed[begin:], about)
        except (InvalidTag, ValueError):
            raise BrokenSeal from None

    def derive(self, purpose: bytes) -> tuple[bytes, ...]:
        """A key for another purpose from each key of the ring, in the same order."""
        return tuple(derived_key(key, purpose) for key in self._keys)


class TokenSeal:
    """Encrypts with a key derived from a session's resume token, which no longer exists once client and session are
    gone.

    AES-SIV, because the same outcome may be parked twice and must look the same then: it needs no nonce.
    """

    def __init__(self, session_id: str, token: str) -> None:
        self._about = [b"parked outcome", session_id.encode()]
        self._cipher = _siv(token.encode())

    def seal(self, plain: bytes) -> bytes:
        return _MARK + self._cipher.encrypt(plain, self._about)

    def open(self, sealed: bytes) -> bytes:
        """Raises BrokenSeal."""
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher.decrypt(sealed[1:], self._about)
        except (InvalidTag, ValueError):
            raise BrokenSeal from None


def is_sealed(body: bytes) -> bool:
    return body[:1] == _MARK


def new_key_text() -> str:
    """A key as it stands in a file."""
    return os.urandom(KEY_BYTES).hex()


def read_keys(text: str) -> Keyring:
    """One key a line, as 64 hexadecimal digits; `#` begins a comment. Raises ValueError with the reason."""
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    keys = [line for line in lines if line]
    if not all(map(_HEX_KEY.fullmatch, keys)):
        # The line itself may be a key with a mistake in it, and is not shown.
        raise ValueError(f"a line is not a key of {2 * KEY_BYTES} hexadecimal digits")
    if not 1 <= len(set(keys)) <= MOST_KEYS:
        raise ValueError(f"it contains {len(set(keys))} keys; expected 1 or {MOST_KEYS}")
    return Keyring([bytes.fromhex(key) for key in dict.fromkeys(keys)])


def derived_key(secret: bytes, purpose: bytes, length: int = KEY_BYTES) -> bytes:
    """HKDF with SHA-256. From the derived key neither the secret nor the key for another purpose can be found."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(hashes.SHA256(), length, salt=None, info=purpose).derive(secret)


def _key_id(key: bytes) -> bytes:
    """A public name of a key, from which the key cannot be found."""
    return hmac.digest(key, b"lingua cluster key id", hashlib.sha256)[:_ID_BYTES]


def _gcm(key: bytes) -> "AESGCM":
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)


def _siv(secret: bytes) -> "AESSIV":
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

    return AESSIV(derived_key(secret, b"lingua parked outcomes", 2 * KEY_BYTES))
