"""All credentials in memory, so that a handshake asks Redis nothing. Whatever Redis lost is written back from here."""

import asyncio
from collections.abc import Callable, Collection
from typing import TypeVar

import msgspec

from lingua_scheduler.domain.access.credential_sets import CredentialSet, check_room
from lingua_scheduler.domain.access.credentials import (
    Credential,
    Revocation,
    has_node_of_other_tenant,
    is_revocation_name,
    joined,
)
from lingua_scheduler.domain.access.issuers import Issuer, joined_issuer
from lingua_scheduler.services.access.backup import Backup
from lingua_scheduler.services.access.keys_file import KeysFile
from lingua_scheduler.services.access.uses import KeyUses
from lingua_scheduler.store.access.credentials import CredentialStore, Stored, issuer_entry, key_entry
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.telemetry import logs
from lingua_sdk.domain.backoff import Backoff

_log = logs.get()

T = TypeVar("T", Credential, Issuer)

# Others may change credentials at the same time; each try reads what they wrote.
MAX_TRIES = 20
PAUSES = Backoff(0.005, 0.2)
# One key of Redis may be lost alone, and then the version tells nothing: every so many looks read everything.
WHOLE_EVERY = 60
# Entries are written back until their time is over, and removed this much later, because clocks differ.
FORGET_AFTER_MS = 3_600_000


class CredentialIdTaken(Exception):
    """Another key or issuer has this id, and an id is never used again."""


class KeyOfFile(Exception):
    """The entry is in the keys file, so it is changed there."""


class CredentialBook:
    """`publish` tells other instances that there is a new version. `open` before use."""

    def __init__(
        self,
        store: CredentialStore,
        *,
        wall_ms: Callable[[], int],
        publish: Callable[[int], None],
        backup: Backup | None = None,
        keys_file: KeysFile | None = None,
    ) -> None:
        self._store = store
        self._wall_ms = wall_ms
        self._publish = publish
        self._backup = backup
        self._keys_file = keys_file
        self._lock = asyncio.Lock()
        # What is, or should be, in Redis; and the same with the entries of the file.
        self._own = CredentialSet()
        self._all = CredentialSet()
        self._is_outdated = False
        self._is_saved = True
        self._looks = 0
        self._uses = KeyUses(store, wall_ms)
        # Whether Redis was ever read: until then there may be more than is known here.
        self.has_read = False
        self.version = 0
        self.on_changed: list[Callable[[], None]] = []

    async def open(self) -> None:
        """Read the files, then Redis. Raises KeysFileError; a Redis that is away is read later."""
        if self._keys_file is not None:
            await asyncio.to_thread(self._keys_file.read)
        if self._backup is not None:
            self._own = (await self._backup.read()).kept_at(self._wall_ms())
        self._combine()
        try:
            await self.refresh()
        except RedisAway as error:
            _log.warning("credentials.unread", error=str(error), known=len(self._all.credentials))

    def find(self, key_id: str) -> Credential | None:
        return self._all.credentials.get(key_id)

    def issuers(self) -> Collection[Issuer]:
        return self._all.issuers.values()

    def void_before(self, name: str) -> int:
        """What was issued under the name before this time is void; 0: nothing is."""
        found = self._all.revocations.get(name)
        return 0 if found is None else found.before_ms

    def all(self) -> list[Credential]:
        return list(self._all.credentials.values())

    @property
    def is_empty(self) -> bool:
        """Whether no key or issuer is live, so that none would be accepted; never that none is needed."""
        now_ms = self._wall_ms()
        has_key = any(key.is_live(now_ms) for key in self._all.credentials.values())
        return not has_key and not any(issuer.is_live(now_ms) for issuer in self._all.issuers.values())

    def used(self, key_id: str) -> None:
        if key_id in self._all.credentials:
            self._uses.note(key_id)

    def last_used_ms(self, key_id: str) -> int:
        """At any instance, of others within two minutes; 0: never."""
        return self._uses.last_ms(key_id) if key_id in self._all.credentials else 0

    async def share_uses(self) -> None:  # once a minute; raises RedisAway
        await self._uses.share(self._all.credentials)

    async def refresh(self) -> None:
        """Look for changes in the file and in Redis; raises RedisAway, and then the last copy stays."""
        if self._keys_file is not None and await asyncio.to_thread(self._keys_file.look):
            self._combine()
        try:
            async with self._lock:
                is_whole = self._looks % WHOLE_EVERY == 0
                self._is_outdated = False
                await self._catch_up(is_whole=is_whole)
                self._looks += 1
        except BaseException:
            self._is_outdated = True
            raise
        finally:
            await self._save()

    async def refresh_if_outdated(self) -> None:
        if self._is_outdated:
            await self.refresh()

    def changed_elsewhere(self, version: int) -> None:
        if version != self.version:
            self._is_outdated = True

    async def add(self, credential: Credential) -> None:
        """Raises RedisAway: then it may be added or not. Safe to repeat."""

        def change() -> CredentialSet:
            known = self.find(credential.id)
            if known is not None and joined(known, credential) != joined(credential, known):
                raise CredentialIdTaken(f"there is another key {credential.id}")
            if known is None and has_node_of_other_tenant(credential, self.all(), self._wall_ms()):
                raise CredentialIdTaken(f"the node id {credential.node_id} is of another tenant; choose another one")
            return CredentialSet(credentials={credential.id: credential})

        await self.change(change)

    async def add_issuer(self, issuer: Issuer) -> None:
        def change() -> CredentialSet:
            known = self._all.issuers.get(issuer.id)
            if known is not None and joined_issuer(known, issuer) != joined_issuer(issuer, known):
                raise CredentialIdTaken(f"there is another issuer {issuer.id}")
            return CredentialSet(issuers={issuer.id: issuer})

        await self.change(change)

    async def end(self, key_id: str, *, at_ms: int, successor: str = "") -> Credential | None:
        """Revoke a key now, or let it expire later; None if there is none. It stays ended if it was already.

        Of a key of the file, the end is kept in Redis; its expiry is set in the file (KeyOfFile)."""

        def change() -> CredentialSet:
            known = self.find(key_id)
            return CredentialSet({key_id: self._replaced(known, at_ms, successor)} if known is not None else {})

        await self.change(change)
        return self.find(key_id)

    async def replace(self, key_id: str, successor: Credential, *, at_ms: int) -> Credential | None:
        """End a key as `end` does, and add its successor: both or neither. None if it has ended or been replaced."""

        def change() -> CredentialSet:
            known = self.find(key_id)
            if known is None or known.successor or not known.is_live(self._wall_ms()):
                return CredentialSet()
            return CredentialSet({key_id: self._replaced(known, at_ms, successor.id), successor.id: successor})

        await self.change(change)
        return self.find(key_id) if successor.id in self._all.credentials else None

    async def end_issuer(self, issuer_id: str, *, at_ms: int) -> Issuer | None:
        def change() -> CredentialSet:
            known = self._all.issuers.get(issuer_id)
            return CredentialSet() if known is None else CredentialSet(issuers={issuer_id: self._ended(known, at_ms)})

        await self.change(change)
        return self._all.issuers.get(issuer_id)

    async def void(self, name: str, before_ms: int, until_ms: int) -> None:
        """Void what was issued under the name before a time. It is forgotten after `until_ms`."""
        if not is_revocation_name(name):
            raise ValueError("not the name of a tenant, subject or token, or too long")
        await self.change(lambda: CredentialSet(revocations={name: Revocation(before_ms, until_ms)}))

    def _replaced(self, known: Credential, at_ms: int, successor: str) -> Credential:
        return msgspec.structs.replace(self._ended(known, at_ms), successor=successor or known.successor)

    def _ended(self, known: T, at_ms: int) -> T:
        of_file = CredentialSet() if self._keys_file is None else self._keys_file.known
        is_of_file = known.id in of_file.credentials or known.id in of_file.issuers
        now_ms = self._wall_ms()
        if at_ms <= now_ms:
            # Not earlier: an end of long ago is forgotten at once, and a copy elsewhere would bring the key back.
            return msgspec.structs.replace(known, revoked_ms=now_ms, in_file=is_of_file)
        if is_of_file:
            raise KeyOfFile(f"{known.id} is in the keys file; set `expires` there")
        return msgspec.structs.replace(known, expires_ms=at_ms)

    def is_of_file(self, key_id: str) -> bool:
        return self._keys_file is not None and key_id in self._keys_file.known.credentials

    async def change(self, change: Callable[[], CredentialSet]) -> None:
        """Decide on what Redis has now, and write it; decided again when another writer was quicker. Raises what
        `change` does, and RedisAway."""
        async with self._lock:
            for failures in range(MAX_TRIES):
                await asyncio.sleep(PAUSES.pause_s(failures))
                await self._catch_up()
                wanted = self._own.joined(change())
                changes = wanted.without(self._own)
                check_room(wanted, self._own)
                if not changes or await self._write(self.version, changes):
                    self._take(wanted)
                    break
            else:
                raise RedisAway("the credentials are changed by too many at once; try again")
        await self._save()

    async def _catch_up(self, *, is_whole: bool = False) -> None:
        """Read what Redis has, if it has changed, and write what it lacks."""
        for failures in range(MAX_TRIES):
            await asyncio.sleep(PAUSES.pause_s(failures))
            if self.has_read and not is_whole and await self._store.version() == self.version:
                return
            stored = await self._store.read()
            await self._uses.read()
            now_ms = self._wall_ms()
            # Revocations that were read count at once, whether or not the rest can be written.
            self._take(stored.all.joined(self._own).kept_at(now_ms - FORGET_AFTER_MS))
            self.has_read = True
            lacking = self._own.kept_at(now_ms).without(stored.all)
            forgotten = self._forgotten(stored)
            if not lacking and not forgotten:
                self.version = stored.version
                return
            if await self._write(stored.version, lacking, forgotten):
                if lacking:
                    _log.info("credentials.restored", count=sum(map(len, lacking)))
                return
        raise RedisAway("the credentials are changed by too many at once; try again")

    async def _write(self, expected_version: int, changes: CredentialSet, forget: Collection[str] = ()) -> bool:
        version = await self._store.write(
            expected_version, changes.credentials.values(), changes.issuers.values(), changes.revocations, forget
        )
        if version is None:
            return False
        self.version = version
        self._publish(version)
        return True

    def _forgotten(self, stored: Stored) -> list[str]:
        """What Redis still has and is needed no more."""
        return [
            *(key_entry(name) for name in stored.credentials.keys() - self._own.credentials.keys()),
            *(issuer_entry(name) for name in stored.issuers.keys() - self._own.issuers.keys()),
            *(stored.revocations.keys() - self._own.revocations.keys()),
        ]

    def _take(self, known: CredentialSet) -> None:
        if known != self._own:
            self._own = known
            self._is_saved = False
            self._combine()

    def _combine(self) -> None:
        """Redis and the file together; an end in either counts."""
        everything = self._own if self._keys_file is None else self._keys_file.known.joined(self._own)
        if everything == self._all:
            return
        self._all = everything
        for tell in self.on_changed:
            tell()

    async def _save(self) -> None:
        if self._backup is not None and not self._is_saved:
            known = self._own
            self._is_saved = await self._backup.write(known) and known is self._own
