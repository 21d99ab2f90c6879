"""The record of demand: which pools were asked for, and when; bounded, for all instances."""

import asyncio
from collections.abc import Iterable

from lingua_scheduler.domain.watching.demand import ASKED_MAX, HISTORY_MS, MISSED_MAX, Demand
from lingua_scheduler.store.connection import RedisLine
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.reading import is_pool, whole
from lingua_scheduler.store.scripts import Scripts
from lingua_scheduler.store.unreadable import UnreadableKeys


class DemandRecord:
    def __init__(self, line: RedisLine, keys: Keys, scripts: Scripts, unreadable: UnreadableKeys) -> None:
        self._line = line
        self._keys = {"asked": keys.asked, "missed": keys.missed}
        self._scripts = scripts
        self._unreadable = unreadable

    async def note(self, served: Iterable[str], unserved: Iterable[str]) -> Demand:
        """Pools that were asked for just now; the whole record comes back, in one call."""
        flat = await self._scripts.run(
            "demand_note",
            **self._keys,
            keep_ms=HISTORY_MS,
            most=ASKED_MAX,
            most_missed=MISSED_MAX,
            pools=[*(f"+{pool}" for pool in served), *(f"-{pool}" for pool in unserved)],
        )
        asked: dict[str, int] = {}
        missed: dict[str, int] = {}
        for pool, at_ms, was_served in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
            if is_pool(pool):
                (asked if was_served else missed)[pool] = whole(at_ms)
        self._unreadable.met("asked", self._keys["asked"], len(flat) // 3 - len(asked) - len(missed))
        return Demand(asked, missed)

    async def forget(self, pools: Iterable[str]) -> int:
        """These do not count as wanted until they are asked for again; how many were known."""
        names = list(pools)
        counts = await asyncio.gather(*(self._line.call("ZREM", key, *names) for key in self._keys.values()))
        return sum(map(int, counts))
