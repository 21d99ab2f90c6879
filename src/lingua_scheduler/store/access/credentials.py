"""Keys, issuers of tokens and revocations in Redis: read whole, and written if no other instance did meanwhile."""

import asyncio
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import msgspec

from lingua_scheduler.domain.access.credential_sets import ChangeOutcome, CredentialSet
from lingua_scheduler.domain.access.credentials import Credential, Revocation
from lingua_scheduler.domain.access.issuers import Issuer
from lingua_scheduler.store.connection import RedisLine
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.reading import credential_of, issuer_of, revision_of, revocation_of, written_credential
from lingua_scheduler.store.scripts import Scripts
from lingua_scheduler.store.unreadable import UnreadableKeys

T = TypeVar("T")

# Changes in one call of the script: Lua takes some thousands of arguments, and no call may keep Redis busy for long.
TOGETHER = 500
# Families of keys, as `store/keys.py` names them.
KEYS, ISSUERS, REVOCATIONS = "keys", "issuers", "void"
_NONE: Mapping[str, Revocation] = MappingProxyType({})

# Family, name and value.
_Change = tuple[str, str, str]


class Stored(NamedTuple):
    version: int
    credentials: dict[str, Credential]
    issuers: dict[str, Issuer]
    revocations: dict[str, Revocation]

    @property
    def all(self) -> CredentialSet:
        return CredentialSet(self.credentials, self.issuers, self.revocations)


class CredentialStore:
    def __init__(self, line: RedisLine, keys: Keys, scripts: Scripts, unreadable: UnreadableKeys) -> None:
        self._call = line.call
        self._keys = keys
        self._scripts = scripts
        self._unreadable = unreadable
        # By family and name: the text that was read last, and its entry. Parsing all again would take long.
        self._read: dict[str, dict[str, tuple[str, Any]]] = {}

    async def version(self) -> int:
        """0 if nothing was ever written."""
        text = await self._call("GET", self._keys.credentials_version)
        version = 0 if text is None else revision_of(text)
        if version is None:
            self._unreadable.met("revision", self._keys.credentials_version)
        return version or 0

    async def read(self) -> Stored:
        # The version first: what is written in between makes the next write, or the next look, read again.
        version = await self.version()
        credentials, issuers, revocations = await asyncio.gather(
            self._entries(KEYS, self._keys.credentials, credential_of),
            self._entries(ISSUERS, self._keys.issuers, issuer_of),
            self._entries(REVOCATIONS, self._keys.revocations, revocation_of),
        )
        return Stored(version, credentials, issuers, revocations)

    async def write(
        self,
        expected_version: int,
        credentials: Iterable[Credential] = (),
        issuers: Iterable[Issuer] = (),
        revocations: Mapping[str, Revocation] = _NONE,
        forget: Iterable[str] = (),
    ) -> int | None:
        """The new version; None: another writer was quicker, so read again, join, retry.

        To `forget` are names of revocations, `key/<id>` and `issuer/<id>`. Many changes are written in several steps.
        """
        changes = [
            *((KEYS, one.id, _text(written_credential(one))) for one in credentials),
            *((ISSUERS, one.id, _text(one)) for one in issuers),
            *((REVOCATIONS, name, _text(one)) for name, one in revocations.items()),
        ]
        for change in changes:
            _check(change)
        changes += map(_removal, forget)
        version = expected_version
        for some in _portions(changes):
            outcome, *more = await self._scripts.run(
                "credentials_change",
                credentials=self._keys.credentials,
                issuers=self._keys.issuers,
                revocations=self._keys.revocations,
                revision=self._keys.credentials_version,
                expected=version,
                draw=secrets.randbelow(256),
                changes=[word for change in some for word in change],
            )
            if ChangeOutcome(outcome) is ChangeOutcome.OUTDATED:
                return None
            version = int(more[0])
        return version

    async def uses(self) -> dict[str, int]:
        """When keys were last used, by any instance, as far as it was written."""
        flat = await self._call("HGETALL", self._keys.key_uses)
        read = {name: revision_of(text) for name, text in zip(flat[::2], flat[1::2], strict=True)}
        found = {name: used_ms for name, used_ms in read.items() if used_ms is not None}
        self._unreadable.met("used", self._keys.key_uses, len(read) - len(found))
        return found

    async def note_uses(self, uses: Mapping[str, int], forget: Iterable[str] = ()) -> None:
        if uses:
            await self._call("HSET", self._keys.key_uses, *(word for pair in uses.items() for word in pair))
        if gone := list(forget):
            await self._call("HDEL", self._keys.key_uses, *gone)

    async def _entries(self, family: str, key: str, parse: Callable[[str, str], T | None]) -> dict[str, T]:
        flat = await self._call("HGETALL", key)
        before: dict[str, tuple[str, T]] = self._read.get(family, {})
        parsed: dict[str, tuple[str, T]] = {}
        for name, text in zip(flat[::2], flat[1::2], strict=True):
            known = before.get(name)
            if known is not None and known[0] == text:
                parsed[name] = known
            elif (entry := parse(name, text)) is not None:
                parsed[name] = (text, entry)
        self._read[family] = parsed
        found = {name: entry for name, (_, entry) in parsed.items()}
        self._unreadable.met(family, key, len(flat) // 2 - len(found))
        return found


def key_entry(key_id: str) -> str:
    """The name under which a key is forgotten."""
    return f"key/{key_id}"


def issuer_entry(issuer_id: str) -> str:
    return f"issuer/{issuer_id}"


def _removal(name: str) -> _Change:
    kind, _, rest = name.partition("/")
    if kind == "key":
        return KEYS, rest, ""
    return (ISSUERS, rest, "") if kind == "issuer" else (REVOCATIONS, name, "")


def _check(change: _Change) -> None:
    """What no instance could read is not written."""
    family, name, text = change
    readers: dict[str, Callable[[str, str], object]] = {
        KEYS: credential_of, ISSUERS: issuer_of, REVOCATIONS: revocation_of,
    }  # fmt: skip
    if readers[family](name, text) is None:
        raise ValueError(f"{name} has a value that is out of bounds, so it is not written")


def _text(entry: Credential | Issuer | Revocation) -> str:
    return msgspec.json.encode(entry).decode()


def _portions(changes: list[_Change]) -> Iterator[list[_Change]]:
    for first in range(0, len(changes), TOGETHER):
        yield changes[first : first + TOGETHER]
