"""Messages between instances (letters): post to another instance, and handle what others post."""

import asyncio
from enum import StrEnum
from itertools import count

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.cluster.instances import PostOutcome
from lingua_scheduler.protocol.bus import AnyMessage, BusMessage, encode
from lingua_scheduler.services.cluster.adoption import Adopter
from lingua_scheduler.services.cluster.letter_desk import Desk, Handler, OnDead
from lingua_scheduler.services.cluster.presence import Presence
from lingua_scheduler.services.cluster.seals import Seals
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.cluster.inbox import FIRST, InboxEntry, limits_of
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import logs, metrics
from lingua_scheduler.telemetry.tasks import Nursery, every

_log = logs.get()

READ_TOGETHER = 128
TRY_AGAIN_S = 0.05
TRY_AGAIN_AFTER_SURPRISE_S = 1.0


class Posted(StrEnum):
    SENT = "sent"
    FULL = "full"  # too much waits there: try again later, or do without
    GONE = "gone"  # no live instance has this id


_POSTS = metrics.by(metrics.POSTS, *Posted)


class Mailroom:
    """Register handlers, then `start`. Delivery is at least once."""

    def __init__(
        self, presence: Presence, store: Store, settings: Settings, seals: Seals, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._presence = presence
        self._store = store
        self._settings = settings
        self.seals = seals
        self._limits = limits_of(settings.inbox)
        self._desk = Desk(presence.instance, store.inboxes, settings.inbox, seals, clock)
        self._adopter = Adopter(presence, self._desk, store, settings)
        self._line = store.another_line()
        self._chores = Nursery("mailroom")
        self._serials = count(1)

    def handle(self, message: type[BusMessage], handler: Handler) -> None:
        """Register the handler of a message type. It may be called again with the same letter, so it is idempotent."""
        self._desk.handle(message, handler)

    def on_dead(self, hook: OnDead) -> None:
        """Register a callback for letters that become dead letters, so that their waiters can be told."""
        self._desk.on_dead = hook

    async def post(self, to: str, message: AnyMessage) -> Posted:
        """Raises RedisAway; the letter may have been sent all the same."""
        uid = f"{self._presence.me.incarnation}-{next(self._serials):x}"
        if to == self._presence.instance:
            return Posted.SENT if self._desk.take_local(message, uid) else Posted.FULL
        if await self._presence.is_alive(to):
            letter = InboxEntry("", message.kind, self._presence.instance, uid, encode(message))
            outcome = await self._store.inboxes.post(to, self.seals.letter(to, letter), self._limits)
            posted = Posted.SENT if outcome is PostOutcome.SENT else Posted.FULL
        else:
            # While silence proves nothing, an instance that is not known may be alive.
            posted = Posted.GONE if self._presence.may_judge else Posted.FULL
        _POSTS[posted].inc()
        return posted

    async def start(self) -> None:
        """Join the cluster and read the inbox. Raises IdTaken, and RedisAway."""
        await self._line.open()
        try:
            await self._presence.join()
            await self._presence.look()
            self.seals.tell_who_cannot_open()
        except BaseException:
            await self._line.close()
            raise
        self._desk.start()
        # A former life of this process may have left some half done.
        await self._take_again(idle_ms=0)
        self._chores.start(self._desk.pulse.keep_beating())
        self._chores.start(self._read())
        self._chores.start(every("beat", self._settings.instances.beat_ms / 1000, self._presence.beat))
        self._chores.start(every("adopt", self._settings.instances.beat_ms / 1000, self._adopter.look_after_the_dead))
        self._chores.start(every("letters_again", self._settings.inbox.retry_ms / 2000, self._retry))

    async def stop(self) -> None:
        """Leave the cluster: letters in progress are finished, unread ones are left to others."""
        await self._presence.leave()
        await self._chores.close()
        await self._desk.close(self._settings.inbox.handle_timeout_ms / 1000)
        await self._line.close()

    async def _read(self) -> None:
        me = self._presence.instance
        while not self._presence.is_superseded:
            together = min(READ_TOGETHER, await self._desk.wait_for_room())
            try:
                for entry in await self._store.inboxes.read(self._line, me, together, self._store.longest_block_ms):
                    self._desk.take(me, entry)
            except RedisAway:
                await asyncio.sleep(TRY_AGAIN_S)
            except Exception as error:
                # Continue after any error: no other instance reads our inbox while we are alive.
                _log.error("inbox.unread", error=f"{type(error).__name__}: {error}")
                await asyncio.sleep(TRY_AGAIN_AFTER_SURPRISE_S)

    async def _retry(self) -> None:
        if not self._presence.is_superseded:
            await self._take_again(self._settings.inbox.retry_ms)
            metrics.INBOX_DEPTH.set((await self._store.inboxes.depth(self._presence.instance)).letters)

    async def _take_again(self, idle_ms: int) -> None:
        cursor = FIRST
        while cursor:
            together = min(READ_TOGETHER, await self._desk.wait_for_room())
            claimed = await self._store.inboxes.claim(self._presence.instance, together, idle_ms, cursor)
            for entry in claimed.entries:
                self._desk.take(self._presence.instance, entry)
            cursor = claimed.cursor
