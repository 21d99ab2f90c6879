"""Shard selection: every node of a pool is equally likely, however the pool is spread over shards."""

from bisect import bisect_right
from collections.abc import Mapping
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from lingua_scheduler.domain.pools.lookup import ServedTags
from lingua_scheduler.domain.pools.names import Pool, is_wide, private_name, public_name, tenant_of
from lingua_scheduler.domain.pools.reach import Reach

# Pairs asked for that are remembered; beyond that they are worked out again.
REMEMBERED_MAX = 20_000

_NO_POOLS: Mapping[int, tuple[str, ...]] = {}


class WidePoolShards(NamedTuple):
    """A pool of nodes that all serve the same many pairs."""

    reach: Reach
    # Shard → nodes.
    shards: Mapping[int, int]


class FirstShard(NamedTuple):
    """Where to look for a node first, and whether that is the only shard that has one."""

    shard: int
    is_only: bool


class _Spread:
    """Where the nodes of a pool are. Looked up for every job, so the sums are made once."""

    __slots__ = ("nodes", "only", "reached", "shards")

    def __init__(self, nodes: Mapping[int, int]) -> None:
        self.nodes = nodes
        self.shards = list(nodes)
        self.only = FirstShard(self.shards[0], is_only=True) if len(nodes) == 1 else None
        self.reached = list(accumulate(nodes.values()))


class PoolMap:
    """The pool map: pool → shards, each with its number of nodes. It is a hint: Redis decides.

    A pair's nodes are those of its own pool and of all wide pools that serve it. A wide pool without a definition is
    ignored, because the languages of its nodes are unknown. Private nodes are in the maps of their tenants alone.
    """

    def __init__(self, nodes: Mapping[str, Mapping[int, int]], reaches: Mapping[str, Reach] | None = None) -> None:
        self._counts = {pool: {shard: n for shard, n in shards.items() if n > 0} for pool, shards in nodes.items()}
        shared = {pool: shards for pool, shards in self._counts.items() if not tenant_of(pool)}
        self._nodes = {pool: shards for pool, shards in shared.items() if not is_wide(pool)}
        self._wide = {
            pool: WidePoolShards(reach, shared[pool])
            for pool, reach in sorted((reaches or {}).items())
            if shared.get(pool)
        }
        # Tenant → the map of its private nodes, under the public names. Usually there is none.
        self.private: Mapping[str, PoolMap] = {}
        if len(shared) < len(self._counts):
            self.private = _by_tenant(self._counts, reaches or {})
        self._spreads: dict[str, _Spread | None] = {}
        if not self._wide:
            self._spreads = {pool: _Spread(shards) for pool, shards in self._nodes.items() if shards}
        # Whether all of some pools are served.
        self._all_served: dict[tuple[str, ...], bool] = {}
        # Which wide pools serve all of some pools, by shard.
        self._serving: dict[tuple[str, ...], Mapping[int, tuple[str, ...]]] = {}

    def __contains__(self, pool: str) -> bool:
        return self._spread(pool) is not None

    def serves_all(self, pools: tuple[str, ...]) -> bool:
        """Asked for each job, hence remembered."""
        served = self._all_served.get(pools)
        if served is None:
            if len(self._all_served) >= REMEMBERED_MAX:
                self._all_served.clear()
            served = self._all_served[pools] = all(pool in self for pool in pools)
        return served

    @cached_property
    def tags(self) -> ServedTags:
        """Every language tag that a node serves, also from text alone."""
        found = {tag for pool, shards in self._nodes.items() if shards for tag in Pool.parse(pool).pair}
        for wide in self._wide.values():
            found |= wide.reach.sources | wide.reach.text
            if (written := wide.reach.from_text) is not None:
                found |= written.sources | written.targets | written.voices
        return ServedTags(found)

    @property
    def nodes(self) -> Mapping[str, Mapping[int, int]]:
        """The pools of pairs, without the wide ones."""
        return self._nodes

    @property
    def wide(self) -> Mapping[str, WidePoolShards]:
        return self._wide

    @property
    def definitions(self) -> dict[str, str]:
        """Of all wide pools, also private ones."""
        found = {pool: wide.reach.encoded() for pool, wide in self._wide.items()}
        for tenant, own in self.private.items():
            found |= {private_name(pool, tenant): text for pool, text in own.definitions.items()}
        return found

    @property
    def counts(self) -> Mapping[str, Mapping[int, int]]:
        """All pools as the shards tell of them."""
        return self._counts

    def nodes_of(self, pool: str) -> dict[int, int]:
        """Shard → nodes that serve it, wide ones too."""
        found = dict(self._nodes.get(pool, {}))
        for wide in self._wide.values():
            if wide.reach.serves_pool(pool):
                for shard, nodes in wide.shards.items():
                    found[shard] = found.get(shard, 0) + nodes
        return found

    def first_shard(self, pool: str, dice: float) -> FirstShard | None:
        """A weighted random choice (`dice` in [0, 1)); None if no node serves the pool."""
        spread = self._spread(pool)
        if spread is None:
            return None
        if spread.only is not None:
            return spread.only
        return FirstShard(spread.shards[bisect_right(spread.reached, dice * spread.reached[-1])], is_only=False)

    def other_shards(self, pool: str, first: int) -> list[int]:
        """The other shards to try if the first was full: those with most nodes first."""
        spread = self._spread(pool)
        if spread is None:
            return []
        return sorted((shard for shard in spread.shards if shard != first), key=lambda shard: -spread.nodes[shard])

    def shard_order(self, pool: str, dice: float) -> list[int]:
        """Every shard of the pool, in the order to try them."""
        first = self.first_shard(pool, dice)
        return [] if first is None else [first.shard, *self.other_shards(pool, first.shard)]

    def wide_in(self, shard: int, pools: tuple[str, ...]) -> tuple[str, ...]:
        """The wide pools of a shard whose nodes serve all of these."""
        if not self._wide:
            return ()
        serving = self._serving.get(pools)
        if serving is None:
            serving = self._work_out(pools)
        return serving.get(shard, ())

    def _work_out(self, pools: tuple[str, ...]) -> Mapping[int, tuple[str, ...]]:
        found: dict[int, tuple[str, ...]] = {}
        for name, wide in self._wide.items():
            if wide.reach.serves_pools(pools):
                for shard in wide.shards:
                    found[shard] = (*found.get(shard, ()), name)
        if len(self._serving) >= REMEMBERED_MAX:
            self._serving.clear()
        self._serving[pools] = found or _NO_POOLS
        return self._serving[pools]

    def _spread(self, pool: str) -> _Spread | None:
        spread = self._spreads.get(pool)
        if spread is None and self._wide and pool not in self._spreads:
            # With wide pools there may be far more pairs than are ever requested.
            if len(self._spreads) >= REMEMBERED_MAX:
                self._spreads.clear()
            nodes = self.nodes_of(pool)
            spread = self._spreads[pool] = _Spread(nodes) if nodes else None
        return spread


def _by_tenant(counts: Mapping[str, Mapping[int, int]], reaches: Mapping[str, Reach]) -> dict[str, PoolMap]:
    nodes: dict[str, dict[str, Mapping[int, int]]] = {}
    for pool, shards in counts.items():
        if shards and (tenant := tenant_of(pool)):
            nodes.setdefault(tenant, {})[public_name(pool)] = shards
    defined: dict[str, dict[str, Reach]] = {tenant: {} for tenant in nodes}
    for pool, reach in reaches.items():
        if (tenant := tenant_of(pool)) in defined:
            defined[tenant][public_name(pool)] = reach
    return {tenant: PoolMap(own, defined[tenant]) for tenant, own in nodes.items()}
