"""Keys that end soon and are still in use: their users are about to be locked out."""

from collections.abc import Callable, Iterable

from lingua_scheduler.domain.access.credentials import Credential
from lingua_scheduler.domain.access.enrolment import is_used_up
from lingua_sdk.domain.key_texts import shown

SOON_MS = 3_600_000
IN_USE_MS = 86_400_000


def expiring(keys: Iterable[Credential], last_used_ms: Callable[[str], int], now_ms: int) -> dict[str, int]:
    """By the part of the key that may be shown: when it ends (ms)."""
    known = tuple(keys)
    return {
        shown(key.kind, key.id): key.expires_ms
        for key in known
        if key.is_live(now_ms)
        and 0 < key.expires_ms <= now_ms + SOON_MS
        and last_used_ms(key.id) > now_ms - IN_USE_MS
        # An enrolment key ends by itself once all its nodes have joined: no one is locked out.
        and not is_used_up(key, known)
    }
