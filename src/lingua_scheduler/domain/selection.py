"""Choosing a shard: every node of a pool is equally likely, however the pool is spread over shards."""

from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate


class PoolMap:
    """Pool → shards, each with the number of nodes it holds. A copy: Redis decides."""

    def __init__(self, nodes: Mapping[str, Mapping[int, int]]) -> None:
        self._nodes = {pool: {shard: n for shard, n in shards.items() if n > 0} for pool, shards in nodes.items()}
        # Looked up for every job, so the sums are made once.
        self._shards = {pool: list(shards) for pool, shards in self._nodes.items() if shards}
        self._reached = {pool: list(accumulate(self._nodes[pool].values())) for pool in self._shards}

    def __contains__(self, pool: str) -> bool:
        return pool in self._shards

    @property
    def nodes(self) -> Mapping[str, Mapping[int, int]]:
        return self._nodes

    def first_shard(self, pool: str, dice: float) -> int | None:
        """By weight and chance (`dice` in [0, 1)); None when nobody serves the pool."""
        shards = self._shards.get(pool)
        if shards is None:
            return None
        if len(shards) == 1:
            return shards[0]
        reached = self._reached[pool]
        return shards[bisect_right(reached, dice * reached[-1])]

    def is_in_one_shard(self, pool: str) -> bool:
        return len(self._shards.get(pool, ())) == 1

    def other_shards(self, pool: str, first: int) -> list[int]:
        """Where to look when the first was full: the fullest first."""
        shards = self._nodes.get(pool, {})
        return sorted((shard for shard in shards if shard != first), key=lambda shard: -shards[shard])

    def shard_order(self, pool: str, dice: float) -> list[int]:
        """Every shard of the pool, in the order to try them."""
        first = self.first_shard(pool, dice)
        return [] if first is None else [first, *self.other_shards(pool, first)]
