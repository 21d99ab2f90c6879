"""Whether a caller's credential still counts: its key may have ended, or what was issued to it may have been voided."""

from collections.abc import Collection
from typing import Protocol

from lingua_scheduler.domain.access.credentials import Credential, first_end, subject_name, tenant_name, token_name
from lingua_scheduler.domain.access.issuers import Issuer
from lingua_scheduler.domain.access.principals import Principal

# An open socket may outlive its token by this much, if its client sends newer ones by itself.
REFRESH_GRACE_MS = 25_000


class KnownCredentials(Protocol):
    """What is read of the CredentialBook."""

    def find(self, key_id: str) -> Credential | None: ...

    def issuers(self) -> Collection[Issuer]: ...

    def void_before(self, name: str) -> int: ...


def objection(book: KnownCredentials, principal: Principal, now_ms: int) -> str:
    """Why a caller's credential no longer counts, for the log; empty if it does. Its own expiry is not judged here."""
    if principal.key_id:
        key = book.find(principal.key_id) or _issuer(book, principal.key_id)
        if key is None:
            return "unknown key"
        if not key.is_live(now_ms):
            return "key revoked or expired"
    if principal.issued_ms < book.void_before(tenant_name(principal.tenant)):
        return "tenant revoked"
    if principal.subject and principal.issued_ms < book.void_before(subject_name(principal.tenant, principal.subject)):
        return "subject revoked"
    # A token is named by its id, so the clock of its issuer does not matter.
    if principal.token_id and book.void_before(token_name(principal.key_id, principal.token_id)):
        return "token revoked"
    return ""


def due_ms(principal: Principal, key: Credential | None, grace_ms: int) -> int:
    """When a connection must end because its credential, or the key behind it, has expired; 0 = never."""
    if principal.login_id or principal.is_person:
        # People log in again, and lose nothing by that.
        grace_ms = 0
    own_grace_ms = grace_ms
    if principal.is_refreshing:
        # The client knows when its token ends, but not when the key does that minted it.
        own_grace_ms = min(grace_ms, REFRESH_GRACE_MS)
    own_ms = principal.expires_ms + own_grace_ms if principal.expires_ms else 0
    return first_end(own_ms, key.expires_ms + grace_ms if key is not None and key.expires_ms else 0)


def _issuer(book: KnownCredentials, issuer_id: str) -> Issuer | None:
    return next((issuer for issuer in book.issuers() if issuer.id == issuer_id), None)
