"""One login through an identity provider, from its start until the person comes back.

The browser keeps one secret in a cookie; all else is derived from it, so any instance can end what another began."""

import base64
from typing import NamedTuple

# People must come back within this time, and only once.
FLOW_MS = 600_000
_BYTES = 32


class OidcFlow(NamedTuple):
    """`state` travels through the browser, `nonce` into the ID token, `verifier` to the provider alone (PKCE)."""

    state: str
    nonce: str
    verifier: str

    def __repr__(self) -> str:
        """Without its secrets: a traceback may show it."""
        return "OidcFlow()"


class OidcRefused(Exception):
    """What came back does not count. The words are for the log."""


class ProviderAway(Exception):
    """The identity provider does not answer, or not as one. The words are for the log."""


def flow_of(secret: str) -> OidcFlow:
    return OidcFlow(*(_derived(secret, purpose) for purpose in (b"state", b"nonce", b"verifier")))


def _derived(secret: str, purpose: bytes) -> str:
    # At the first use: it costs 30 ms that no other command needs.
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    key = HKDF(hashes.SHA256(), _BYTES, salt=None, info=b"lingua oidc " + purpose)
    return base64.urlsafe_b64encode(key.derive(secret.encode(errors="replace"))).rstrip(b"=").decode()
