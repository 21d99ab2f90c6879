"""Logins of operators to the dashboard: a cookie in their browser, of which only a digest is kept."""

import hashlib
import secrets
from typing import Annotated

import msgspec
from msgspec import Meta

from lingua_scheduler.domain.access.credentials import Ms
from lingua_scheduler.domain.access.people import Person
from lingua_sdk.domain.key_texts import ID_CHARS

# A login link must be opened within this time, and only once.
CODE_MS = 60_000
SECRET_BYTES = 32
ID_BYTES = 8
# Longer cookies are not ours.
MAX_SECRET_CHARS = 64


class Login(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """It ends with the key that it was made with, and no later than `expires_ms`.

    A person who came through an identity provider has no key."""

    id: Annotated[str, Meta(pattern=r"^[0-9a-f]{16}$")]
    key_id: Annotated[str, Meta(max_length=ID_CHARS)] = ""
    person: Person | None = None
    begun_ms: Ms = 0
    expires_ms: Ms

    def __post_init__(self) -> None:
        if (self.person is None) != (len(self.key_id) == ID_CHARS):
            raise ValueError("a login is of a key or of a person")


def fresh_secret() -> str:
    return secrets.token_urlsafe(SECRET_BYTES)


def fresh_login(holder: str | Person, begun_ms: int, expires_ms: int) -> Login:
    """`holder` is the id of a key, or a person without one."""
    key_id, person = (holder, None) if isinstance(holder, str) else ("", holder)
    login_id = secrets.token_hex(ID_BYTES)
    return Login(id=login_id, key_id=key_id, person=person, begun_ms=begun_ms, expires_ms=expires_ms)


def digest_of(secret: str) -> str:
    """What is kept of it. It has 256 random bits, so it needs no slow hash."""
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()
