"""Adoption of dead instances' inboxes: one live instance handles the letters, and later removes the inbox."""

import asyncio

from lingua_scheduler.domain.cluster.instances import InboxClaimOutcome, InboxReleaseOutcome, Instance
from lingua_scheduler.services.cluster.letter_desk import Desk
from lingua_scheduler.services.cluster.presence import Presence
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.cluster.inbox import FIRST, Adoption
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import logs, metrics

_log = logs.get()

PAGE = 128


class Adopter:
    def __init__(self, presence: Presence, desk: Desk, store: Store, settings: Settings) -> None:
        self._presence = presence
        self._desk = desk
        self._store = store
        self._forget_ms = settings.instances.forget_ms
        self._retry_ms = settings.inbox.retry_ms
        # Longer than a page of letters takes; an adopter that stalls for longer has lost the inbox.
        self._hold_ms = settings.instances.dead_ms + 2 * settings.inbox.handle_timeout_ms

    async def look_after_the_dead(self) -> None:
        """Idempotent, and safe from several instances: each inbox has one adopter at a time."""
        for instance in await self._presence.dead():
            if instance.instance_id == self._presence.instance or self._presence.is_superseded:
                continue
            try:
                await self._look_after(instance)
            except RedisAway as error:
                # Of a Cluster perhaps only the server of this one; the others need us all the same.
                _log.warning("inbox.not_adopted", instance=instance.instance_id, reason=str(error))

    async def _look_after(self, instance: Instance) -> None:
        is_long_dead = instance.silent_ms > self._forget_ms
        depth = await self._store.inboxes.depth(instance.instance_id)
        if not depth.letters and (depth.dead or not is_long_dead):
            return
        adoption = await self._store.inboxes.adopt(instance.instance_id, self._presence.instance, self._hold_ms)
        if adoption is None:
            return
        letters = await self._handle_all(adoption)
        if letters:
            metrics.ADOPTIONS.inc()
            _log.warning("inbox.adopted", instance=instance.instance_id, letters=letters)
        released = await self._store.inboxes.release(adoption, remove=is_long_dead)
        if released is InboxReleaseOutcome.REMOVED:
            await self._store.instances.forget(instance.instance_id, self._forget_ms)
            _log.info("instance.forgotten", instance=instance.instance_id)

    async def _handle_all(self, adoption: Adoption) -> int:
        """All pages: a letter that cannot be handled must not hide those behind it."""
        letters, cursor = 0, FIRST
        while True:
            count = min(PAGE, await self._desk.wait_for_room())
            claimed = await self._store.inboxes.claim_adopted(adoption, count, self._retry_ms, cursor)
            if claimed.outcome is InboxClaimOutcome.LOST or not (claimed.entries or claimed.cursor):
                return letters
            taken = [self._desk.take(adoption.instance, entry) for entry in claimed.entries]
            await asyncio.gather(*(is_let_go for is_let_go in taken if is_let_go is not None))
            letters += len(claimed.entries)
            cursor = claimed.cursor or FIRST
