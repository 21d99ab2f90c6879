"""Choosing a shard: every node of a pool is equally likely, however the pool is spread over shards."""

from collections.abc import Mapping
from itertools import accumulate


class PoolMap:
    """Pool → shards, each with the number of nodes it holds. A copy: Redis decides."""

    def __init__(self, nodes: Mapping[str, Mapping[int, int]]) -> None:
        self._nodes = {pool: dict(shards) for pool, shards in nodes.items()}

    def __contains__(self, pool: str) -> bool:
        return pool in self._nodes

    @property
    def nodes(self) -> Mapping[str, Mapping[int, int]]:
        return self._nodes

    def shard_order(self, pool: str, dice: float) -> list[int]:
        """The shards to try: the first by weight and chance (`dice` in [0, 1)), then the others, fullest first."""
        shards = self._nodes.get(pool)
        if not shards:
            return []
        if len(shards) == 1:
            return list(shards)
        target = dice * sum(shards.values())
        first = next(
            shard for shard, reached in zip(shards, accumulate(shards.values()), strict=True) if target < reached
        )
        rest = sorted((shard for shard in shards if shard != first), key=lambda shard: -shards[shard])
        return [first, *rest]
