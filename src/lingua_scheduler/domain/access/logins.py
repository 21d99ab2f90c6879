"""Logins of operators to the dashboard: a cookie in their browser, of which only a digest is kept."""

import hashlib
import secrets
from typing import Annotated

import msgspec
from msgspec import Meta

from lingua_scheduler.domain.access.credentials import Ms
from lingua_scheduler.domain.access.key_texts import ID_CHARS

# A login link must be opened within this time, and only once.
CODE_MS = 60_000
SECRET_BYTES = 32
ID_BYTES = 8
# Longer cookies are not ours.
MAX_SECRET_CHARS = 64


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """It ends with the key that it was made with, and no later than `expires_ms`."""

    id: Annotated[str, Meta(pattern=r"^[0-9a-f]{16}$")]
    key_id: Annotated[str, Meta(min_length=ID_CHARS, max_length=ID_CHARS)]
    expires_ms: Ms


def fresh_secret() -> str:
    return secrets.token_urlsafe(SECRET_BYTES)


def fresh_login(key_id: str, expires_ms: int) -> Login:
    return Login(id=secrets.token_hex(ID_BYTES), key_id=key_id, expires_ms=expires_ms)


def digest_of(secret: str) -> str:
    """What is kept of it. It has 256 random bits, so it needs no slow hash."""
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()
