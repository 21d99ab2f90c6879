"""Being alive, and knowing who else is: this instance's beats, and a copy of everybody's."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic

from lingua_scheduler.domain.cluster.instances import Instance, PresenceOutcome
from lingua_scheduler.settings import InstancesSettings
from lingua_scheduler.store.cluster.instances import Me
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import logs, metrics

_log = logs.get()

COPY_LASTS_S = 1.0
# Somebody who is not in the copy may have come just now; but not every caller looks for him anew.
LOOK_AGAIN_S = 0.05


class IdTaken(Exception):
    """Another process has our id, and is alive: one sentence for the person who gave it."""


class Presence:
    """`on_lost` is called when we counted as dead and are back; `on_superseded` when another process has our id."""

    def __init__(self, me: Me, store: Store, settings: InstancesSettings) -> None:
        self.me = me
        self._store = store
        self._settings = settings
        self._copy: dict[str, Instance] = {}
        self._copied_at = float("-inf")
        # What each of the living can open.
        self._opened_by_all: frozenset[str] = frozenset()
        self._looking: asyncio.Future[dict[str, Instance]] | None = None
        self._beaten_at = 0.0
        self._judge_from = 0.0
        self.is_superseded = False
        self.on_lost: Callable[[], Awaitable[None]] | None = None
        self.on_superseded: Callable[[], None] | None = None

    @property
    def instance(self) -> str:
        return self.me.instance_id

    async def join(self, address: str = "") -> None:
        """Be announced, with an inbox that is ready. Waits for a namesake that has fallen silent to be dead."""
        if address:
            self.me = self.me._replace(address=address)
        await self._store.inboxes.prepare(self.instance)
        seen_beat = 0
        while True:
            outcome, beat = await self._store.instances.join(self.me, self._settings.dead_ms)
            if outcome is PresenceOutcome.JOINED:
                self._beaten_at = asyncio.get_running_loop().time()
                return
            if seen_beat and beat != seen_beat:
                raise IdTaken(
                    f"an instance named {self.instance} is alive already; give this one a name of its own with "
                    "--set server.instance_id=auto, and name none in a settings file that several share"
                )
            seen_beat = beat
            await asyncio.sleep(self._settings.beat_ms / 4000)

    async def beat(self) -> None:
        loop = asyncio.get_running_loop()
        outcome = await self._store.instances.beat(self.me, self._settings.dead_ms)
        if (loop.time() - self._beaten_at) * 1000 > (self._settings.beat_ms + self._settings.dead_ms) / 2:
            # We stood still, or Redis was away: others had no chance to beat either.
            self._judge_from = loop.time() + self._settings.dead_ms / 1000
        self._beaten_at = loop.time()
        match outcome:
            case PresenceOutcome.WAS_DEAD:
                _log.warning("instance.was_dead", instance=self.instance)
                await self._come_back()
            case PresenceOutcome.SUPERSEDED:
                self._give_way()

    def suspend_judgement(self) -> None:
        """Redis was away: nobody could beat, so silence proves nothing for a while."""
        self._judge_from = asyncio.get_running_loop().time() + self._settings.dead_ms / 1000

    async def leave(self) -> None:
        """Others look after our mail from now on; if Redis is away they find out by themselves."""
        # From now on it is right that nobody knows of a beat of ours.
        self._beaten_at = 0.0
        try:
            await self._store.instances.leave(self.me, self._settings.dead_ms)
        except RedisAway:
            _log.warning("instance.left_silently", instance=self.instance)

    async def is_alive(self, instance: str, incarnation: str = "") -> bool:
        """As of a moment ago: by a copy that is at most a second old. With an incarnation: in that very life."""
        age_s = monotonic() - self._copied_at
        if age_s > COPY_LASTS_S or (not self.counts_as_alive(instance) and age_s > LOOK_AGAIN_S):
            await self.look()
        for _ in range(2):
            # It may be new, and a look that others have begun may not have seen it yet; the next one does.
            if not self._knows(instance, incarnation):
                await self.look()
        return self.counts_as_alive(instance) and self._knows(instance, incarnation)

    def _knows(self, instance: str, incarnation: str) -> bool:
        found = self._copy.get(instance)
        return found is not None and incarnation in ("", found.incarnation)

    @property
    def living(self) -> list[Instance]:
        """By the latest copy; this instance is one of them."""
        return [found for name, found in self._copy.items() if self.counts_as_alive(name)]

    def all_can(self, word: str) -> bool:
        """Whether everybody alive announced it, by the latest copy."""
        return word in self._opened_by_all

    async def look(self) -> dict[str, Instance]:
        """Everybody who is known, as of now; callers at the same time share one look."""
        if self._looking is None:
            self._looking = asyncio.ensure_future(self._look())
        return await asyncio.shield(self._looking)

    async def dead(self) -> list[Instance]:
        """Nobody, while silence proves nothing."""
        known = await self.look()
        if asyncio.get_running_loop().time() < self._judge_from:
            return []
        return [found for found in known.values() if found.silent_ms >= self._settings.dead_ms]

    def counts_as_alive(self, instance: str) -> bool:
        """By the latest copy, and while silence proves nothing by the one before."""
        found = self._copy.get(instance)
        return found is not None and found.silent_ms < self._settings.dead_ms

    async def _look(self) -> dict[str, Instance]:
        try:
            known = await self._store.instances.known()
        finally:
            self._looking = None
        loop_time = asyncio.get_running_loop().time()
        if self._beaten_at and self.instance not in known:
            # We are not known any more, so neither is anybody else: Redis has lost its data.
            self._judge_from = loop_time + self._settings.dead_ms / 1000
        mine = known.get(self.instance)
        if mine is not None and self._beaten_at:
            # We know when we beat last; if Redis thinks otherwise, its clock has jumped, and all beats are wrong.
            wrong_ms = mine.silent_ms - (loop_time - self._beaten_at) * 1000
            if abs(wrong_ms) > self._settings.dead_ms / 2:
                self._judge_from = loop_time + self._settings.dead_ms / 1000
        if loop_time < self._judge_from:
            # Who was alive before gets time to say that he still is.
            before = {
                name: known.get(name, found)._replace(silent_ms=0)
                for name, found in self._copy.items()
                if self.counts_as_alive(name)
            }
            self._copy = known | before
        else:
            self._copy = known
        self._copied_at = monotonic()
        # After we stood still nobody may count as living, not even ourselves: what we can open then decides alone.
        own = frozenset(self.me.seals.split())
        self._opened_by_all = own.intersection(*(found.seals.split() for found in self.living))
        metrics.INSTANCES.set(sum(map(self.counts_as_alive, known)))
        return known

    async def _come_back(self) -> None:
        try:
            await self.join()
        except IdTaken:
            self._give_way()
            return
        if self.on_lost is not None:
            await self.on_lost()

    def _give_way(self) -> None:
        if not self.is_superseded:
            self.is_superseded = True
            _log.error("instance.superseded", instance=self.instance)
            if self.on_superseded is not None:
                self.on_superseded()
