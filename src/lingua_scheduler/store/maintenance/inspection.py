"""A look into keys for what no scheduler can have written, and its removal; the rules are in
`store/maintenance/validity.py`."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import TypeVar

from redis.exceptions import ResponseError

from lingua_scheduler.domain.maintenance.findings import Finding, FindingKind
from lingua_scheduler.store.keys import ASIDE, KeyFamily
from lingua_scheduler.store.maintenance.validity import EACH, WHOLE, StoredEntry
from lingua_scheduler.store.reading import is_text
from lingua_scheduler.store.store import Store
from lingua_scheduler.store.unreadable import printable

T = TypeVar("T")

TOGETHER = 100
# Streams that are read to the end. The mail of instances is opened by themselves, and what they cannot read is buried;
# what is parked for a client is encrypted, and skipped by instances that cannot decrypt it.
_READ_STREAMS = frozenset({"recent", "failures", "events", "moments"})
_GONE = "none"
# Keys that always have a time to live: without one they would stay for ever.
_EXPIRING = frozenset({"leader"})
_ENDLESS = -1


class Inspection:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._call = store.line.call

    async def look(self, keys: Sequence[str]) -> list[Finding]:
        """One finding for each entry that cannot be ours, of those keys that we know."""
        known = [(key, family) for key in keys if (family := self._store.keys.family_of(key)) is not None]
        found: list[Finding] = []
        for first in range(0, len(known), TOGETHER):
            some = known[first : first + TOGETHER]
            found += [one for each in await asyncio.gather(*(self._look(*pair) for pair in some)) for one in each]
        return found

    async def _look(self, key: str, family: KeyFamily) -> list[Finding]:
        if family.name == ASIDE:
            return [_finding(family, key, "a key of the wrong type")]
        if not is_text(key):
            return [_finding(family, key, "a name that is not text")]
        try:
            kind = await self._call("TYPE", _raw(key))
            if kind not in (family.type, _GONE):
                return [_finding(family, key, f"a {kind} instead of a {family.type}")]
            if await self._is_endless(family, key):
                return [_finding(family, key, "a value that never expires")]
            strange = self._strange(family, await self._entries(family, key))
        except ResponseError:
            # Without the right to ask for types, or changed between two questions: the next look tells.
            return []
        return [_finding(family, key, printable(entry.name or entry.value) or "an empty name") for entry in strange]

    async def remove(self, keys: Iterable[str]) -> None:
        """Looks again at each key, and changes only what still is as it was read."""
        for key in sorted(keys):
            family = self._store.keys.family_of(key)
            if family is None:
                continue
            kind = await self._call("TYPE", _raw(key))
            if family.name == ASIDE or kind not in (family.type, _GONE) or not is_text(key):
                await self._call("DEL", _raw(key))
                continue
            entries = await self._entries(family, key)
            strange = entries if await self._is_endless(family, key) else self._strange(family, entries)
            if strange:
                words = [_raw(word) for entry in strange for word in entry]
                await self._store.scripts.run("entries_remove", key=key, whole=int(family.name in WHOLE), entries=words)

    async def _is_endless(self, family: KeyFamily, key: str) -> bool:
        return family.name in _EXPIRING and await self._call("PTTL", key) == _ENDLESS

    def _strange(self, family: KeyFamily, entries: list[StoredEntry]) -> list[StoredEntry]:
        """Those that cannot be ours; all of them, where the key is one thing."""
        if (is_right := WHOLE.get(family.name)) is not None:
            return entries if entries and not is_right(entries) else []
        is_each_right = EACH.get(family.name)
        return [] if is_each_right is None else [entry for entry in entries if not is_each_right(entry)]

    async def _entries(self, family: KeyFamily, key: str) -> list[StoredEntry]:
        match family.type:
            case "hash":
                return _pairs(await self._call("HGETALL", key))
            case "zset":
                return _pairs(await self._call("ZRANGE", key, 0, -1, "WITHSCORES"))
            case "set":
                return [StoredEntry(member, "") for member in await self._call("SMEMBERS", key)]
            case "list":
                return [StoredEntry("", value) for value in await self._call("LRANGE", key, 0, -1)]
            case "stream" if family.name in _READ_STREAMS:
                return [StoredEntry(name, "\0".join(flat)) for name, flat in await self._call("XRANGE", key, "-", "+")]
            case "string":
                value = await self._call("GET", key)
                return [] if value is None else [StoredEntry("", value)]
        return []


def _finding(family: KeyFamily, key: str, subject: str) -> Finding:
    return Finding(FindingKind.UNREADABLE, key, subject, family.name)


def _pairs(flat: list[str]) -> list[StoredEntry]:
    return [StoredEntry(name, value) for name, value in zip(flat[::2], flat[1::2], strict=True)]


def _raw(text: str) -> bytes:
    """As it is in Redis, also where it is no text."""
    return text.encode("utf-8", "surrogateescape")
