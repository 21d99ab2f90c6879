"""TURN servers for clients that can read of them, with credentials that end: coturn's shared-secret scheme."""

import base64
import hashlib
import hmac
from typing import NamedTuple


class RelayCredential(NamedTuple):
    username: str
    password: str


def relay_credential(secret: bytes, session_id: str, now_s: float, lives_s: float) -> RelayCredential:
    """As `use-auth-secret` of coturn expects it: the user name says when it ends, and its HMAC is the password."""
    username = f"{int(now_s + lives_s)}:{session_id}"
    digest = hmac.new(secret, username.encode(), hashlib.sha1).digest()
    return RelayCredential(username, base64.b64encode(digest).decode())


def is_relay_url(text: str) -> bool:
    scheme, _, rest = text.partition(":")
    return scheme in ("stun", "stuns", "turn", "turns") and bool(rest) and not rest.startswith("//")
