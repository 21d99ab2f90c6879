"""Writes the audit log. Instances and commands write to one chain: who was slower continues behind the quicker one."""

import asyncio
import hashlib
from collections.abc import Callable, Mapping

import msgspec

from lingua_scheduler.clock import wall_ms as system_wall_ms
from lingua_scheduler.domain.access.audit import (
    AppendOutcome,
    AuditAction,
    AuditActor,
    AuditEntry,
    AuditHead,
    AuditNote,
    AuditOutcome,
    Value,
    actor_of,
    placed,
    read_entry,
)
from lingua_scheduler.domain.access.audit_keys import AuditKeys
from lingua_scheduler.domain.access.principals import Principal
from lingua_scheduler.domain.access.refusals import RefusalSums
from lingua_scheduler.setting_sections.access import AuditSettings
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.access.audit import Appended, AuditStore
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import shown

# Each time another writer has made progress, so this many are met only by who writes against hundreds.
MOST_TRIES = 1_000
# Trimming writes an entry itself, so it is done for many entries at a time.
TRIM_SHARE = 10
DIGEST_CHARS = 16
# The scheduler itself.
SYSTEM = AuditActor(kind="scheduler")


class Auditor:
    """`writer` is the instance, or names the command. One that only reads needs no settings."""

    def __init__(
        self,
        store: AuditStore,
        keys: AuditKeys,
        writer: str,
        settings: AuditSettings | None = None,
        wall_ms: Callable[[], float] = system_wall_ms,
    ) -> None:
        self._store = store
        self._keys = keys
        self._writer = writer
        self._settings = settings or AuditSettings()
        self._wall_ms = wall_ms
        # Within a process entries are written one after the other, so they do not race each other.
        self._turn = asyncio.Lock()
        # The head as Redis had it when we last looked, and the furthest that we know of: Redis may lose its data.
        self._seen = ""
        self._known = AuditHead()
        self._refusals = RefusalSums()

    async def note(
        self,
        actor: Principal,
        address: str,
        action: str,
        object: str,  # noqa: A002 - what the entry calls it
        outcome: AuditOutcome = AuditOutcome.DONE,
        values: Mapping[str, Value] | None = None,
        request_id: str = "",
    ) -> AuditEntry:
        """Returns when the entry is in Redis. Raises RedisAway; then it may be there or not."""
        return await self.write(
            AuditNote(
                actor=actor_of(actor, address),
                action=action,
                object=object,
                outcome=outcome,
                values=dict(values or {}),
                request_id=request_id,
            )
        )

    async def write(self, note: AuditNote) -> AuditEntry:
        """As `note`, for actors that have no principal."""
        async with self._turn:
            entry, length = await self._append(note)
            most = self._settings.max_entries
            if length > most + most // TRIM_SHARE:
                await self._trim(entry.seq - most + 1)
        return entry

    async def look(self) -> None:
        """Learn what others have written, a periodic chore: if Redis loses its data, the chain goes on from there."""
        async with self._turn:
            self._heed(await self._store.head_text())

    def denied(self, address: str, key_id: str = "") -> None:
        """A credential was refused. Collected until `write_denied`; `key_id` is the public part of a key."""
        self._refusals.add(address, (key_id,))

    async def write_denied(self) -> None:
        """One entry for all since the last, a periodic chore. Raises RedisAway; then they are in the next."""
        sums, self._refusals = self._refusals, RefusalSums()
        if not sums.total:
            return
        about = f"{sums.total} credentials"
        try:
            await self.write(
                AuditNote(actor=SYSTEM, action=AuditAction.CREDENTIALS_REFUSED, object=about, values=sums.values())
            )
        except RedisAway:
            self._refusals.join(sums)
            raise

    async def forget_old(self) -> None:
        """Remove entries that were kept for long enough, a periodic chore of the leader."""
        since_ms = self._wall_ms() - self._settings.keep_ms
        texts, _ = await self._store.page(most=1)
        oldest = read_entry(texts[0]) if texts else None
        # Each removal is an entry itself, so it waits until it is worth one.
        if oldest is None or oldest.at_ms > since_ms - self._settings.keep_ms // 100:
            return
        kept_from = await self._first_since(since_ms)
        async with self._turn:
            await self._trim(kept_from or self._known.seq)

    async def _first_since(self, since_ms: float) -> int:
        """Number of the first entry that is not older; 0 if all are."""
        after = "0-0"
        while after:
            texts, after = await self._store.page(after)
            for entry in filter(None, map(read_entry, texts)):
                if entry.at_ms >= since_ms:
                    return entry.seq
        return 0

    async def _trim(self, kept_from: int) -> None:
        """The entry comes first: without it, what is gone would look like tampering."""
        values: dict[str, Value] = {"kept_from": kept_from}
        await self._append(AuditNote(actor=SYSTEM, action=AuditAction.LOG_TRIMMED, object="audit", values=values))
        await self._store.trim(kept_from)

    async def _append(self, note: AuditNote) -> tuple[AuditEntry, int]:
        for _ in range(MOST_TRIES):
            is_whole = AuditHead.parse(self._seen) == self._known
            following = note if is_whole else self._beginning()
            entry = self._keys.hashed(
                placed(following, self._known, int(self._wall_ms()), self._writer, self._keys.current)
            )
            reply = await self._store.append(self._seen, entry)
            if reply.outcome is not AppendOutcome.APPENDED:
                self._give_way(reply)
                continue
            self._heed(str(entry.head))
            if following is note:
                return entry, reply.length
        raise RedisAway("the audit log has too many writers; try again")

    def _beginning(self) -> AuditNote:
        """Redis has no head, or an earlier or another one than we know: entries were lost."""
        values: dict[str, Value] = {"last_seq": self._known.seq, "last_hash": self._known.hash}
        return AuditNote(actor=SYSTEM, action=AuditAction.CHAIN_BEGUN, object="audit", values=values)

    def _give_way(self, reply: Appended) -> None:
        if reply.outcome is AppendOutcome.MOVED:
            self._heed(reply.head)
        elif reply.last_seq > self._known.seq:
            # The log goes on behind its head; what follows must have higher numbers.
            self._known = AuditHead(reply.last_seq)
        else:
            raise RedisAway("the audit log has an entry without a number; remove it")

    def _heed(self, head_text: str) -> None:
        self._seen = head_text
        head = AuditHead.parse(head_text)
        if head is not None and head.seq > self._known.seq:
            self._known = head


def start_note(instance: str, release: str, settings: Settings) -> AuditNote:
    """A digest tells whether a start had other settings than the one before; no password is part of it."""
    told = msgspec.structs.replace(
        settings, redis=msgspec.structs.replace(settings.redis, url=shown(settings.redis.url))
    )
    digest = hashlib.sha256(msgspec.json.encode(told, order="sorted")).hexdigest()[:DIGEST_CHARS]
    values: dict[str, Value] = {"release": release, "settings": digest}
    return AuditNote(actor=SYSTEM, action=AuditAction.SCHEDULER_STARTED, object=instance, values=values)
