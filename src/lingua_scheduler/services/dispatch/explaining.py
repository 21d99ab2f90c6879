"""Explains why a job found no node: which capability is missing, and why each candidate was not chosen."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Sequence

import msgspec

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock, wall_ms
from lingua_scheduler.domain.nodes.nodes import NodeState
from lingua_scheduler.domain.pools.candidates import Candidate, CandidateVerdict
from lingua_scheduler.domain.pools.names import Facet, Pool
from lingua_scheduler.domain.pools.pools import Admission, Languages, missing_abilities, reach_of
from lingua_scheduler.domain.pools.reach import Reach
from lingua_scheduler.protocol.http_jobs import CandidateView, Explanation
from lingua_scheduler.services.cluster.pool_map import PoolMapCopy
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.nodes.node_views import NodeView
from lingua_scheduler.store.store import Store

# This many nodes are enough for an explanation, and cheap enough for any caller.
MAX_NODES = 200
CACHE_S = 2.0
# Nodes with cached profiles that are examined before the event loop gets a turn.
KNOWN_TOGETHER = 10
# A survey looks at this many shards, and what is kept of it is no larger than this.
MAX_SHARDS = 4
MAX_BYTES = 4_096
HEADLINE_MAX_CHARS = 300


class Explainer:
    def __init__(self, store: Store, pool_map: PoolMapCopy, admission: Admission, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._store = store
        self._pool_map = pool_map
        self._admission = admission
        # What each node says, what follows from it, and its state.
        self._fleet: list[tuple[Languages, Reach, str]] = []
        self._looked_at = float("-inf")
        # What was read at the latest look, by the digest of what the nodes said: most say the same, and again.
        self._read: dict[bytes, tuple[Languages, Reach]] = {}

    async def missing(self, pool: str) -> str:
        src, tgt, facet = Pool.parse(pool)
        now = self._clock()
        if now - self._looked_at > CACHE_S:
            self._looked_at = now
            placed = await self._store.placements.sample(MAX_NODES)
            views = await asyncio.gather(
                *(self._store.node_views.one(node_id, place.shard) for node_id, place in placed)
            )
            self._fleet = await self._read_all([view for view in views if view is not None])
        able = [state for _, reach, state in self._fleet if reach.serves_pool(pool)]
        if able:
            return f"no node accepts jobs for {src}→{tgt}: those that serve it are {' and '.join(sorted(set(able)))}"
        told = missing_abilities(src, tgt, facet, self._admission, [languages for languages, _, _ in self._fleet])
        text = str(Pool(src, tgt, Facet.TEXT))
        is_text_served = facet == Facet.SPEECH and any(
            state == NodeState.READY and reach.serves_pool(text) for _, reach, state in self._fleet
        )
        return f"{told}; text without speech is served" if is_text_served else told

    async def _read_all(self, views: Sequence[NodeView]) -> list[tuple[Languages, Reach, str]]:
        """One node at a time: it may have thousands of pairs, and the event loop must run in between."""
        read: dict[bytes, tuple[Languages, Reach]] = {}
        fleet = []
        for place, view in enumerate(views):
            digest = hashlib.blake2b(view.profile.encode("utf-8", "surrogateescape"), digest_size=16).digest()
            found = read.get(digest) or self._read.get(digest)
            if found is None:
                said = _languages(view.profile)
                found = said, reach_of(said, self._admission)
                await asyncio.sleep(0)
            elif place % KNOWN_TOGETHER == 0:
                await asyncio.sleep(0)
            read[digest] = found
            fleet.append((*found, view.state))
        self._read = read
        return fleet

    async def unserved(self, pools: Sequence[str]) -> str:
        """Why no connected node serves all of these pools now; empty if one does, or Redis cannot say.

        Costs nothing while they are in the pool map; the shards are read again before it says no.
        """
        if self._is_served(pools):
            return ""
        try:
            await self._pool_map.look_again()
        except RedisAway:
            return ""
        return "" if self._is_served(pools) else await self.missing_for(pools)

    def _is_served(self, pools: Sequence[str]) -> bool:
        return all(pool in self._pool_map.map for pool in pools)

    async def missing_for(self, pools: Sequence[str]) -> str:
        """The reason for a job that needs a node in all of these pools; short if Redis is unavailable."""
        unserved = next((pool for pool in pools if pool not in self._pool_map.map), None)
        pairs = " and ".join(f"{pool.src}→{pool.tgt}" for pool in map(Pool.parse, pools))
        if unserved is None and len(pools) > 1:
            return f"no single node serves {pairs}, which is needed because either language may be spoken"
        try:
            return await self.missing(unserved or pools[0])
        except RedisAway:
            return f"no node serves {pairs}"

    async def survey(
        self, pools: Sequence[str], tried: Sequence[str], headline: str = "", holder: str = ""
    ) -> Explanation:
        """Each candidate, and why it would not be chosen now. Without a headline, one is made of the verdicts.

        `holder` is the node that has the job: the slot the job uses does not count against it.
        """
        shards = self._pool_map.map.shard_order(pools[0], 0.0)[:MAX_SHARDS]
        is_served = bool(shards)
        if not is_served:
            shards = (await self._store.placements.shards())[:MAX_SHARDS]
        pool_map, pools = self._pool_map.map, tuple(pools)
        looks = await asyncio.gather(
            *(self._store.surveys.look(shard, pools, tried, pool_map.wide_in(shard, pools)) for shard in shards)
        )
        found = [
            candidate._replace(verdict=CandidateVerdict.HAS_IT) if candidate.node_id == holder else candidate
            for look in looks
            for candidate in look
        ]
        if not headline:
            headline = _summary(pools[0], found) if is_served else await self.missing(pools[0])
        return _fitting(headline[:HEADLINE_MAX_CHARS], found)


def _summary(pool: str, found: Sequence[Candidate]) -> str:
    src, tgt, _ = Pool.parse(pool)
    # Those that come nearest first, also among equally many.
    verdicts = sorted((candidate.verdict for candidate in found), key=list(CandidateVerdict).index)
    counts: Counter[CandidateVerdict] = Counter(
        verdict for verdict in verdicts if verdict is not CandidateVerdict.NOT_IN_POOL
    )
    if counts.pop(CandidateVerdict.HAS_IT, 0):
        holder = next(candidate.node_id for candidate in found if candidate.verdict is CandidateVerdict.HAS_IT)
        return f"{holder} has the job; {_others(src, tgt, counts)}"
    if counts[CandidateVerdict.FREE]:
        return f"{counts[CandidateVerdict.FREE]} of {counts.total()} nodes for {src}→{tgt} are free"
    spelled = ", ".join(f"{count} {verdict.value.replace('_', ' ')}" for verdict, count in counts.most_common())
    return f"no node for {src}→{tgt} can take the job: {spelled or 'there is none'}"


def _others(src: str, tgt: str, counts: Counter[CandidateVerdict]) -> str:
    if not counts:
        return f"no other node serves {src}→{tgt}"
    return f"{counts[CandidateVerdict.FREE]} of {counts.total()} other nodes for {src}→{tgt} are free"


def _fitting(headline: str, found: Sequence[Candidate]) -> Explanation:
    """Those that come nearest first, as many as fit."""
    order = list(CandidateVerdict)
    ranked = sorted(found, key=lambda candidate: order.index(candidate.verdict))
    explanation = Explanation(
        headline=headline,
        looked_at_ms=int(wall_ms()),
        counts={verdict.value: count for verdict, count in Counter(one.verdict for one in ranked).items()},
    )
    left = MAX_BYTES - len(msgspec.json.encode(explanation))
    views = []
    for candidate in ranked:
        view = CandidateView(candidate.node_id, candidate.verdict.value, candidate.in_words())
        left -= len(msgspec.json.encode(view)) + 1
        if left < 0:
            break
        views.append(view)
    return msgspec.structs.replace(explanation, candidates=views)


def _languages(profile: str) -> Languages:
    return _SAID.decode(profile).languages


class _Said(msgspec.Struct):
    languages: Languages = Languages()


_SAID = msgspec.json.Decoder(_Said)
