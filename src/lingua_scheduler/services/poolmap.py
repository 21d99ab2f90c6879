"""This instance's copy of the pool map: refreshed in the background, looked up anew before saying no."""

import asyncio

from lingua_scheduler.domain.selection import PoolMap
from lingua_scheduler.store.pools import Pools

# A pair nobody serves must not cost a look at every shard each time somebody asks for it.
MISS_CACHE_S = 0.25


class PoolMapCopy:
    def __init__(self, pools: Pools) -> None:
        self._pools = pools
        self._refreshing: asyncio.Task[None] | None = None
        self._read_at = float("-inf")
        # How many changes there were here, and how many of them the copy has seen.
        self._changes = 0
        self._changes_read = 0
        self.map = PoolMap({})

    async def refresh(self) -> None:
        """Read the map; callers that come meanwhile share the same look."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._read())
        await asyncio.shield(self._refreshing)

    async def look_again(self) -> None:
        """Before telling anybody that a pair is not served; briefly cached, unless something changed here."""
        wanted = self._changes
        if self._changes_read < wanted or asyncio.get_running_loop().time() - self._read_at > MISS_CACHE_S:
            await self.refresh()
        if self._changes_read < wanted:
            # That was a look others had begun before the change.
            await self.refresh()

    def changed(self) -> None:
        """Something changed here: the next miss looks at once, and the copy is renewed soon."""
        self._changes += 1

    async def refresh_if_outdated(self) -> None:
        if self._changes_read < self._changes:
            await self.refresh()

    async def _read(self) -> None:
        began_at, changes = asyncio.get_running_loop().time(), self._changes
        self.map = await self._pools.read_map()
        self._read_at, self._changes_read = began_at, changes
