"""What a token (JWT) says, before its signature is checked: header, claims, and whether they can be valid."""

import re
from base64 import urlsafe_b64decode
from typing import Annotated

import msgspec
from msgspec import Meta

from lingua_scheduler.domain.access.grants import MAX_SUBJECT_CHARS, Grants
from lingua_sdk.domain.vocabulary import MAX_TOKEN_CHARS

# By how much the clock of an issuer may differ from ours.
LEEWAY_MS = 30_000

_MAX_ID_CHARS = 128
_MAX_SECONDS = 2**53 // 1000
_SHAPE = re.compile(r"([\w-]+)\.([\w-]+)\.[\w-]+", re.ASCII)
_Seconds = Annotated[int, Meta(ge=0, le=_MAX_SECONDS)] | Annotated[float, Meta(ge=0, le=_MAX_SECONDS)]


class BadToken(ValueError):
    """The token does not count. The message is for the log, and has nothing of the token in it."""


class ExpiredToken(BadToken):
    pass


class TokenHeader(msgspec.Struct, frozen=True):
    """`jku`, `x5u` and `jwk` name keys of the sender's choice, and are not even read."""

    alg: str
    kid: Annotated[str, Meta(max_length=_MAX_ID_CHARS)]
    typ: str = ""
    crit: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class Claims(msgspec.Struct, frozen=True):
    exp: _Seconds
    iat: _Seconds
    aud: str | list[str]
    lingua: Grants
    iss: str = ""
    nbf: _Seconds = 0
    sub: Annotated[str, Meta(min_length=1, max_length=MAX_SUBJECT_CHARS)] | msgspec.UnsetType = msgspec.UNSET
    jti: Annotated[str, Meta(max_length=_MAX_ID_CHARS)] = ""
    # In our own tokens: the key that asked for it.
    azp: str = ""


def check_shape(text: str) -> tuple[str, str]:
    """Header and claims, still encoded. Raises BadToken."""
    if len(text) > MAX_TOKEN_CHARS:
        raise BadToken("token too long")
    if (parts := _SHAPE.fullmatch(text)) is None:
        raise BadToken("not a token")
    return parts[1], parts[2]


def read_header(part: str) -> TokenHeader:
    """Raises BadToken."""
    try:
        header = msgspec.json.decode(from_base64(part), type=TokenHeader)
    except (ValueError, RecursionError):
        raise BadToken("unreadable header") from None
    if header.crit is not msgspec.UNSET:
        raise BadToken("crit in the header")
    return header


def read_claims(part: str) -> Claims:
    """Raises BadToken."""
    try:
        return msgspec.json.decode(from_base64(part), type=Claims)
    except (ValueError, RecursionError):
        raise BadToken("a claim is missing, unknown or malformed") from None


def check_claims(claims: Claims, audience: str, max_token_ms: int, now_ms: int) -> None:
    """Raises BadToken, ExpiredToken."""
    if claims.iat * 1000 > now_ms + LEEWAY_MS or claims.nbf * 1000 > now_ms + LEEWAY_MS:
        raise BadToken("not valid yet")
    if not 0 < (claims.exp - claims.iat) * 1000 <= max_token_ms:
        raise BadToken("its lifetime is too long or negative")
    if audience not in ((claims.aud,) if isinstance(claims.aud, str) else claims.aud):
        raise BadToken("for another audience")
    check_expiry(int(claims.exp * 1000), now_ms)


def check_expiry(expires_ms: int, now_ms: int) -> None:
    """Raises ExpiredToken."""
    if now_ms > expires_ms + LEEWAY_MS:
        raise ExpiredToken("token expired")


def from_base64(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
