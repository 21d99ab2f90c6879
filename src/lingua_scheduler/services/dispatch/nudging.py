"""Nudges: tells other instances of slots that become free here, only while they have jobs waiting for them."""

import asyncio
from collections.abc import Collection
from contextlib import suppress

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.protocol.signals import JobsWait, SlotFreed
from lingua_scheduler.services.dispatch.waiting import WaitingRoom
from lingua_scheduler.store.cluster.signals import Signals
from lingua_scheduler.store.connection import RedisAway

# An instance with waiting jobs announces them this often; the announcement holds for a little over two intervals.
ANNOUNCE_S = 0.25
FRESH_S = 0.6
# Rate limit, one nudge per pool in this time: the nudged instance continues to take slots while some are free.
NUDGE_EVERY_S = 0.02
ANNOUNCED_POOLS_MAX = 32
WANTED_POOLS_MAX = 256


class Nudger:
    def __init__(self, instance: str, signals: Signals, waiting: WaitingRoom, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._instance = instance
        self._signals = signals
        self._waiting = waiting
        # Pools that others wait for, and until when that is believed.
        self._wanted: dict[str, float] = {}
        self._nudged: dict[str, float] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    async def announce(self) -> None:
        """Tell the others what jobs wait for here."""
        pools = self._waiting.pools(ANNOUNCED_POOLS_MAX)
        if pools:
            await self._signals.publish(JobsWait(self._instance, pools))

    def others_wait(self, signal: JobsWait) -> None:
        if signal.instance == self._instance:
            return
        fresh_until = self._clock() + FRESH_S
        for pool in signal.pools[:ANNOUNCED_POOLS_MAX]:
            if pool in self._wanted or len(self._wanted) < WANTED_POOLS_MAX:
                self._wanted[pool] = fresh_until

    def slot_freed(self, signal: SlotFreed) -> None:
        if signal.instance != self._instance:
            self._waiting.poke_pool(signal.pool)

    def unclaimed(self, pools: Collection[str]) -> None:
        """A slot became free for which no job waits here. Called after every job, so doing nothing must be cheap."""
        if not self._wanted:
            return
        now = self._clock()
        for pool, fresh_until in list(self._wanted.items()):
            if fresh_until < now:
                del self._wanted[pool]
                self._nudged.pop(pool, None)
            elif pool in pools and pool not in self._timers:
                wait_s = self._nudged.get(pool, 0.0) + NUDGE_EVERY_S - now
                if wait_s <= 0:
                    self._nudge(pool)
                else:
                    self._timers[pool] = asyncio.get_running_loop().call_later(wait_s, self._nudge, pool)

    def _nudge(self, pool: str) -> None:
        self._timers.pop(pool, None)
        self._nudged[pool] = self._clock()
        # Waiting jobs also retry by themselves, a little later.
        with suppress(RedisAway):
            self._signals.publish(SlotFreed(self._instance, pool))
