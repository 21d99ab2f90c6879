"""Nodes as people ask for them: all that Redis has of one, read in one go."""

import asyncio
from collections.abc import Collection, Mapping
from typing import NamedTuple

from lingua_scheduler.domain.nodes.nodes import SERVICES, NodeState, ServiceOf
from lingua_scheduler.domain.nodes.owners import Ownership
from lingua_scheduler.domain.pools.names import Pool, is_from_text, is_wide, tenant_of
from lingua_scheduler.domain.pools.reach import Reach, Served, reach_named
from lingua_scheduler.store.connection import RedisLine
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.nodes.placements import Placements
from lingua_scheduler.store.reading import is_node, is_text, profile_of, slots_of, whole
from lingua_scheduler.store.unreadable import UnreadableKeys

# Looking at a node takes seven commands, and a line has only so many waiting.
VIEWED_TOGETHER = 100


class NodeView(NamedTuple):
    node_id: str
    shard: int
    state: str
    alive_until_ms: int
    max_jobs: int
    held: int
    free: int | None
    pools: tuple[str, ...]
    profile: str
    owner: Ownership
    # None: it is not. A quarantine that ran out stays until a probe succeeds.
    quarantined_until_ms: int | None = None
    # Kinds of service it lacks, and until when.
    unavailable: tuple[tuple[str, int], ...] = ()
    # What a wide node serves.
    reach: Reach | None = None

    @property
    def serves(self) -> Collection[str]:
        """The pools of the pairs it serves now, whichever pools it is in."""
        wide = next(filter(is_wide, self.pools), "")
        if not wide:
            return self.pools
        return () if self.reach is None else Served(self.reach, tenant_of(wide))

    @property
    def pairs(self) -> list[str]:
        """The pairs it has a pool for each: none for a wide node, which has too many to name."""
        pools = (pool for pool in self.pools if not is_wide(pool) and not is_from_text(pool))
        return sorted({str(Pool.parse(pool).pair) for pool in pools})

    @property
    def wide_pairs(self) -> int:
        """How many pairs a wide node serves; 0 for all others."""
        return self.reach.count() if self.reach and any(map(is_wide, self.pools)) else 0

    def quarantined_for_ms(self, now_ms: int) -> int | None:
        """None: it is not quarantined. 0: its time is up, and the next job is its probe."""
        return None if self.quarantined_until_ms is None else max(0, self.quarantined_until_ms - now_ms)

    def unavailable_for_ms(self, now_ms: int) -> dict[str, int]:
        return {service: until - now_ms for service, until in self.unavailable if until > now_ms}


class NodeViews:
    def __init__(self, line: RedisLine, keys: Keys, placements: Placements, unreadable: UnreadableKeys) -> None:
        self._line = line
        self._keys = keys
        self._placements = placements
        self._unreadable = unreadable

    async def all(self) -> list[NodeView]:
        """The whole fleet, for people; a round trip for each hundred nodes."""
        placed = await self._placements.all()
        return await self.some({node_id: place.shard for node_id, place in placed.items()})

    async def some(self, shards: Mapping[str, int]) -> list[NodeView]:
        """These nodes, which live in these shards, as far as they are still there."""
        placed = sorted(shards.items())
        views: list[NodeView | None] = []
        for first in range(0, len(placed), VIEWED_TOGETHER):
            some = placed[first : first + VIEWED_TOGETHER]
            views += await asyncio.gather(*(self.one(node_id, shard) for node_id, shard in some))
        return [view for view in views if view is not None]

    async def one(self, node_id: str, shard: int) -> NodeView | None:
        keys = self._keys.shard(shard)
        profile, seen, held, free, limit, owner, sick = await asyncio.gather(
            self._line.call("HMGET", keys.node(node_id), "state", "pools", "profile", "reach", "serves"),
            self._line.call("ZSCORE", keys.seen, node_id),
            self._line.call("ZSCORE", keys.held, node_id),
            self._line.call("ZSCORE", keys.free, node_id),
            self._line.call("HGET", keys.limits, node_id),
            self._line.call("HGET", keys.owners, node_id),
            self._line.call("ZMSCORE", keys.sick, node_id, *(str(ServiceOf(node_id, service)) for service in SERVICES)),
        )
        if owner is None:
            return None
        held_by = Ownership.parse(owner)
        if held_by is None or not is_node(node_id):
            self._unreadable.met("owners", node_id)
            return None
        state, pools, said, reach, serves = (text if text is not None and is_text(text) else None for text in profile)
        if said != profile[2] or profile_of(said) is None:
            self._unreadable.met("node", keys.node(node_id))
            said = None
        quarantined_until_ms, *lacks_until_ms = (None if until is None else whole(until) for until in sick)
        return NodeView(
            node_id=node_id,
            shard=shard,
            state=state or NodeState.REGISTERING.value,
            alive_until_ms=whole(seen),
            max_jobs=slots_of(limit),
            held=whole(held),
            free=None if free is None else whole(free),
            pools=tuple((pools or "").split()),
            profile=said or "{}",
            owner=held_by,
            quarantined_until_ms=quarantined_until_ms,
            unavailable=tuple(
                (service, until) for service, until in zip(SERVICES, lacks_until_ms, strict=True) if until is not None
            ),
            reach=reach_named(serves or "", reach) if reach else None,
        )

    async def reports_jobs(self, node_id: str, shard: int) -> bool:
        """Whether the node tells what it runs; if so it may still be at a job that was given up."""
        profile = profile_of(await self._line.call("HGET", self._keys.shard(shard).node(node_id), "profile"))
        return profile is not None and profile.reports_jobs
