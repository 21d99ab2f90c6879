"""Logins to the dashboard over HTTP."""

from typing import Annotated

import msgspec
from msgspec import Meta

_Secret = Annotated[str, Meta(max_length=256)]


class LoginRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to log in with: a code of `POST /v1/login/codes`, or an operator key."""

    code: _Secret = ""
    key: _Secret = ""

    def __repr__(self) -> str:
        """Without what it holds: a traceback may show it."""
        return "LoginRequest()"


class LoggedIn(msgspec.Struct, frozen=True, kw_only=True):
    key_id: str
    # Milliseconds since 1970; earlier if it is not used.
    expires_ms: int


class LoggedOut(msgspec.Struct, frozen=True, kw_only=True):
    logged_out: bool = True


class LoginCode(msgspec.Struct, frozen=True, kw_only=True):
    """Empty where the caller needs no login."""

    code: str
    expires_ms: int


class LoginOffers(msgspec.Struct, frozen=True, kw_only=True):
    """`oidc` names the identity provider of `GET /v1/login/oidc`; empty if there is none."""

    oidc: str
