"""The pairs that the ladder serves, looked up once for each pool map."""

import asyncio
from collections.abc import Callable

from lingua_scheduler.domain.pools.ladder import LadderRules
from lingua_scheduler.domain.pools.selection import PoolMap
from lingua_scheduler.domain.watching.detours import MAX_DETOURS, detour_of, possible_pairs
from lingua_scheduler.domain.watching.picture import DetourLook

# Pairs that are looked at before others get a turn.
SLICE = 100


class Detours:
    def __init__(self, pool_map: Callable[[], PoolMap], rules: LadderRules) -> None:
        self._pool_map = pool_map
        self._rules = rules
        self._map: PoolMap | None = None
        self._found: list[DetourLook] = []

    async def look(self) -> list[DetourLook]:
        served = self._pool_map()
        if served is not self._map:
            self._found = await self._search(served)
            self._map = served
        return self._found

    async def _search(self, served: PoolMap) -> list[DetourLook]:
        found: list[DetourLook] = []
        for place, (src, tgt) in enumerate(possible_pairs(served.nodes)):
            detour = detour_of(src, tgt, served.__contains__, self._rules)
            if detour is not None:
                found.append(detour)
            if len(found) >= MAX_DETOURS:
                break
            if place % SLICE == SLICE - 1:
                await asyncio.sleep(0)
        return found
