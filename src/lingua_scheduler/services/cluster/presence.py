"""Membership: this instance's heartbeats, and a copy of the list of live instances."""

import asyncio
from collections.abc import Awaitable, Callable

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.cluster.instances import Instance, PresenceOutcome
from lingua_scheduler.setting_sections.instances import InstancesSettings
from lingua_scheduler.store.cluster.instances import Me
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import logs, metrics
from lingua_scheduler.telemetry.tasks import SingleFlight

_log = logs.get()

COPY_LASTS_S = 1.0
# An instance that is not in the copy may be new; but not every caller reads the list again.
LOOK_AGAIN_S = 0.05


class IdTaken(Exception):
    """Another live process has our id. The message tells the operator what to do."""


class Presence:
    """Membership of this instance. `on_lost`: we counted as dead and are back. `on_superseded`: our id was taken."""

    def __init__(self, me: Me, store: Store, settings: InstancesSettings, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self.me = me
        self._store = store
        self._settings = settings
        self._copy: dict[str, Instance] = {}
        self._copied_at = float("-inf")
        # All that were in Redis lately, and when they were: an entry that is lost after its instance died stays lost.
        self._seen: dict[str, tuple[Instance, float]] = {}
        # What each of the living can open, and can do.
        self._able_are_all: frozenset[str] = frozenset()
        self.looking = SingleFlight[dict[str, Instance]]()
        self._beaten_at = 0.0
        self._judge_from = 0.0
        self.is_superseded = False
        self.on_lost: Callable[[], Awaitable[None]] | None = None
        self.on_superseded: Callable[[], None] | None = None

    @property
    def instance(self) -> str:
        return self.me.instance_id

    async def join(self, address: str = "") -> None:
        """Announce this instance, with an inbox that is ready.

        Waits until a silent process with the same id is dead.
        """
        if address:
            self.me = self.me._replace(address=address)
        await self._store.inboxes.prepare(self.instance)
        seen_beat = 0
        while True:
            outcome, beat = await self._store.instances.join(self.me, self._settings.dead_ms)
            if outcome is PresenceOutcome.JOINED:
                self._beaten_at = self._clock()
                return
            if seen_beat and beat != seen_beat:
                raise IdTaken(
                    f"an instance named {self.instance} is already running; give this one a unique name with "
                    "--set server.instance_id=auto, and set no name in a settings file that several instances share"
                )
            seen_beat = beat
            await asyncio.sleep(self._settings.beat_ms / 4000)

    async def beat(self) -> None:
        outcome = await self._store.instances.beat(self.me, self._settings.dead_ms)
        if (self._clock() - self._beaten_at) * 1000 > (self._settings.beat_ms + self._settings.dead_ms) / 2:
            # We stood still, or Redis was away: others had no chance to beat either.
            self._judge_from = self._clock() + self._settings.dead_ms / 1000
        self._beaten_at = self._clock()
        match outcome:
            case PresenceOutcome.WAS_DEAD:
                _log.warning("instance.was_dead", instance=self.instance)
                # Redis may have lost its data: then the others are missing until they beat.
                self.suspend_judgement()
                await self._come_back()
            case PresenceOutcome.SUPERSEDED:
                self._give_way()

    def suspend_judgement(self) -> None:
        """Redis was unavailable: no instance could send heartbeats, so silence proves nothing for a while."""
        self._judge_from = self._clock() + self._settings.dead_ms / 1000

    @property
    def may_judge(self) -> bool:
        """Whether an instance that is silent, or missing, is dead.

        False for a while after Redis was unavailable: what is missing may not have been written again yet.
        """
        return self._clock() >= self._judge_from

    async def leave(self) -> None:
        """Leave the cluster: others adopt our inbox. If Redis is unavailable they find out from our silence."""
        # From now on a missing entry of ours is expected.
        self._beaten_at = 0.0
        try:
            await self._store.instances.leave(self.me, self._settings.dead_ms)
        except RedisAway:
            _log.warning("instance.left_silently", instance=self.instance)

    async def is_alive(self, instance: str, incarnation: str = "") -> bool:
        """Whether an instance is alive, by a copy at most a second old. With an incarnation: that very process."""
        age_s = self._clock() - self._copied_at
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

    def incarnation_of(self, instance: str) -> str:
        """Its present life, by the latest copy; empty if it is unknown."""
        found = self._copy.get(instance)
        return found.incarnation if found is not None else ""

    @property
    def living(self) -> list[Instance]:
        """Live instances by the latest copy, including this one."""
        return [found for name, found in self._copy.items() if self.counts_as_alive(name)]

    def all_can(self, word: str) -> bool:
        """Whether all live instances announced it, by the latest copy."""
        return word in self._able_are_all

    async def look(self) -> dict[str, Instance]:
        """All known instances, read now. Concurrent callers are coalesced into one read."""
        return await self.looking.join(self._look)

    async def dead(self) -> list[Instance]:
        """Dead instances, also those whose entry Redis has lost; none while silence proves nothing."""
        known = await self.look()
        if not self.may_judge:
            return []
        lost = self._lost(known)
        return [found for found in (*known.values(), *lost) if found.silent_ms >= self._settings.dead_ms]

    def counts_as_alive(self, instance: str) -> bool:
        """By the latest copy, and while silence proves nothing by the one before."""
        found = self._copy.get(instance)
        return found is not None and found.silent_ms < self._settings.dead_ms

    async def _look(self) -> dict[str, Instance]:
        known = await self._store.instances.known()
        now_s = self._clock()
        self._remember(known, now_s)
        if self._beaten_at and self.instance not in known:
            # Our own entry is gone: Redis has lost its data.
            self._judge_from = now_s + self._settings.dead_ms / 1000
        mine = known.get(self.instance)
        if mine is not None and self._beaten_at:
            # We know when we beat last; if Redis thinks otherwise, its clock has jumped, and all beats are wrong.
            wrong_ms = mine.silent_ms - (now_s - self._beaten_at) * 1000
            if abs(wrong_ms) > self._settings.dead_ms / 2:
                self._judge_from = now_s + self._settings.dead_ms / 1000
        if now_s < self._judge_from:
            # Instances that were alive before get time to send a heartbeat.
            before = {
                name: known.get(name, found)._replace(silent_ms=0)
                for name, found in self._copy.items()
                if self.counts_as_alive(name)
            }
            self._copy = known | before
        else:
            self._copy = known
        self._copied_at = self._clock()
        # After a stall no instance may count as alive, not even this one: then only our own keys decide.
        self._able_are_all = _words(self.me).intersection(*map(_words, self.living))
        metrics.INSTANCES.set(sum(map(self.counts_as_alive, known)))
        return known

    def _remember(self, known: dict[str, Instance], now_s: float) -> None:
        """Until it would be forgotten; who is as silent as that was forgotten on purpose."""
        longest_ms = self._settings.forget_ms
        self._seen |= {name: (found, now_s) for name, found in known.items()}
        for name, (found, seen_s) in list(self._seen.items()):
            kept_s = (longest_ms - found.silent_ms + 2 * self._settings.dead_ms) / 1000
            if name not in known and (found.silent_ms > longest_ms or now_s - seen_s >= kept_s):
                del self._seen[name]

    def _lost(self, known: dict[str, Instance]) -> list[Instance]:
        now_s = self._clock()
        return [
            found._replace(silent_ms=found.silent_ms + round((now_s - seen_s) * 1000))
            for name, (found, seen_s) in self._seen.items()
            if name not in known
        ]

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


def _words(one: Me | Instance) -> frozenset[str]:
    return frozenset((*one.seals.split(), *one.abilities.split()))
