"""The pool map: which shards serve a pool, and how many nodes each holds."""

import asyncio
from collections.abc import Iterable

from lingua_scheduler.domain.selection import PoolMap
from lingua_scheduler.store.connection import Line
from lingua_scheduler.store.keys import Keys


class Pools:
    def __init__(self, line: Line, keys: Keys) -> None:
        self._line = line
        self._keys = keys

    async def read_map(self) -> PoolMap:
        """Built from the summaries of the shards; all of them are asked in one write."""
        shards = [int(shard) for shard in await self._line.call("ZRANGE", self._keys.load, 0, -1)]
        summaries = await asyncio.gather(
            *(self._line.call("HGETALL", self._keys.shard(shard).summary) for shard in shards)
        )
        nodes: dict[str, dict[int, int]] = {}
        for shard, summary in zip(shards, summaries, strict=True):
            for pool, count in zip(summary[::2], summary[1::2], strict=True):
                nodes.setdefault(pool, {})[shard] = int(count)
        return PoolMap(nodes)

    async def members(self, pool: str, shards: Iterable[int], most: int) -> dict[str, int]:
        """The nodes of a pool with their shards, at most so many."""
        found: dict[str, int] = {}
        for shard in sorted(shards):
            if len(found) >= most:
                break
            found |= dict.fromkeys(await self._line.call("SMEMBERS", self._keys.shard(shard).pool(pool)), shard)
        return dict(sorted(found.items())[:most])
