"""All credentials, issuers and revocations that an instance knows. Two such sets are joined, and none of them loses."""

from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple, TypeVar

import msgspec

from lingua_scheduler.domain.access.credentials import (
    KEEP_ENDED_MS,
    MAX_CREDENTIALS,
    Credential,
    Revocation,
    joined,
    joined_revocation,
)
from lingua_scheduler.domain.access.issuers import Issuer, joined_issuer

T = TypeVar("T")


class ChangeOutcome(StrEnum):
    """Of a change to the credentials in Redis."""

    CHANGED = "changed"
    # Another writer changed them since they were read.
    OUTDATED = "outdated"


class CredentialSet(NamedTuple):
    # Each by its id or name.
    credentials: Mapping[str, Credential] = {}
    issuers: Mapping[str, Issuer] = {}
    revocations: Mapping[str, Revocation] = {}

    def joined(self, other: "CredentialSet") -> "CredentialSet":
        return CredentialSet(
            _union(self.credentials, other.credentials, joined),
            _union(self.issuers, other.issuers, joined_issuer),
            _union(self.revocations, other.revocations, joined_revocation),
        )

    def without(self, other: "CredentialSet") -> "CredentialSet":
        """The entries that the other lacks, or has in another state."""
        return CredentialSet(
            _difference(self.credentials, other.credentials),
            _difference(self.issuers, other.issuers),
            _difference(self.revocations, other.revocations),
        )

    def kept_at(self, now_ms: int) -> "CredentialSet":
        """Without what ended so long ago that nothing depends on it any more."""
        return CredentialSet(
            {name: one for name, one in self.credentials.items() if _is_kept(one, now_ms)},
            {name: one for name, one in self.issuers.items() if _is_kept(one, now_ms)},
            {name: one for name, one in self.revocations.items() if now_ms <= one.until_ms},
        )

    def __bool__(self) -> bool:
        return any(self)


def _is_kept(one: Credential | Issuer, now_ms: int) -> bool:
    if not one.revoked_ms and not one.expires_ms:
        return True
    return one.in_file or now_ms <= one.ended_ms() + KEEP_ENDED_MS


def _union(one: Mapping[str, T], other: Mapping[str, T], join: Callable[[T, T], T]) -> dict[str, T]:
    found = dict(one)
    for name, entry in other.items():
        known = one.get(name)
        # Most entries of two copies are the same object, and thousands of them must not stop the event loop.
        if known is None:
            found[name] = entry
        elif known is not entry and known != entry:
            found[name] = join(known, entry)
    return found


def _difference(one: Mapping[str, T], other: Mapping[str, T]) -> dict[str, T]:
    return {name: entry for name, entry in one.items() if (known := other.get(name)) is not entry and known != entry}


class TooManyCredentials(Exception):
    """There is no room for another entry; the message says of what."""


def check_room(wanted: CredentialSet, known: CredentialSet) -> None:
    # The rest is for other tenants: else an admin of one could keep all from making keys, or from revoking.
    most = MAX_CREDENTIALS - MAX_CREDENTIALS // 5
    for what, entries, before in zip(("keys", "issuers", "revocations"), wanted, known, strict=True):
        if len(entries) > max(MAX_CREDENTIALS, len(before)):
            raise TooManyCredentials(f"there are {MAX_CREDENTIALS} {what} already; ended ones are forgotten in time")
        if len(entries) > most:
            counts = Counter(_tenant_of(name, entry, wanted) for name, entry in entries.items())
            for tenant in {_tenant_of(name, entries[name], wanted) for name in entries.keys() - before.keys()}:
                if tenant and counts[tenant] > most:
                    detail = f"tenant {tenant} has {most} {what} already; ended ones are forgotten in time"
                    raise TooManyCredentials(detail)


def _tenant_of(name: str, entry: msgspec.Struct, known: CredentialSet) -> str:
    """Empty for the revocation of a whole tenant, for which there is always room."""
    if isinstance(entry, Credential | Issuer):
        return entry.tenant
    kind, _, rest = name.partition("/")
    whose = rest.partition("/")[0]
    if kind == "token":
        signer = known.credentials.get(whose) or known.issuers.get(whose)
        return signer.tenant if signer is not None else ""
    return whose if kind == "subject" else ""
