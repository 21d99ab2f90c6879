"""Explains why a job found no node: which capability is missing, and why each candidate was not chosen."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock, wall_ms
from lingua_scheduler.domain.nodes.nodes import NodeState
from lingua_scheduler.domain.pools.candidates import Candidate, CandidateVerdict
from lingua_scheduler.domain.pools.lanes import Lane, Whose
from lingua_scheduler.domain.pools.names import Facet, Pool, public_name, tenant_of
from lingua_scheduler.domain.pools.pools import Admission, Languages, missing_abilities, missing_from_text, reach_of
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
# Of jobs of no tenant in particular.
PUBLIC = Whose("")


class Explainer:
    def __init__(self, store: Store, pool_map: PoolMapCopy, admission: Admission, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._store = store
        self._pool_map = pool_map
        self._admission = admission
        self._fleet: list[_Known] = []
        self._looked_at = float("-inf")
        # What was read at the latest look, by the digest of what the nodes said: most say the same, and again.
        self._read: dict[bytes, tuple[Languages, Reach, str]] = {}

    async def missing(self, pool: str, tenant: str = "") -> str:
        """Private nodes are told of to their tenant alone. Of a private pool, only they are looked at."""
        asked = Pool.parse(pool)
        (src, tgt), facet = asked.pair, asked.facet
        now = self._clock()
        if now - self._looked_at > CACHE_S:
            self._looked_at = now
            placed = await self._store.placements.sample(MAX_NODES)
            views = await asyncio.gather(
                *(self._store.node_views.one(node_id, place.shard) for node_id, place in placed)
            )
            self._fleet = await self._read_all([view for view in views if view is not None])
        private_to = (tenant_of(pool),) if tenant_of(pool) else ("", tenant)
        fleet = [node for node in self._fleet if node.private_to in private_to]
        able = [node.state for node in fleet if node.reach.serves_pool(pool)]
        if able:
            return f"no node accepts jobs for {src}→{tgt}: those that serve it are {' and '.join(sorted(set(able)))}"
        if asked.is_from_text:
            return missing_from_text(src, tgt, facet)
        told = missing_abilities(src, tgt, facet, self._admission, [node.languages for node in fleet])
        text = str(Pool(src, tgt, Facet.TEXT))
        is_text_served = facet == Facet.SPEECH and any(
            node.state == NodeState.READY and node.reach.serves_pool(text) for node in fleet
        )
        return f"{told}; text without speech is served" if is_text_served else told

    async def _read_all(self, views: Sequence[NodeView]) -> "list[_Known]":
        """One node at a time: it may have thousands of pairs, and the event loop must run in between."""
        read: dict[bytes, tuple[Languages, Reach, str]] = {}
        fleet = []
        for place, view in enumerate(views):
            digest = hashlib.blake2b(view.profile.encode("utf-8", "surrogateescape"), digest_size=16).digest()
            found = read.get(digest) or self._read.get(digest)
            if found is None:
                said = _SAID.decode(view.profile)
                reach = reach_of(said.languages, self._admission, takes_text=said.text_input)
                found = said.languages, reach, said.tenant if said.is_private else ""
                await asyncio.sleep(0)
            elif place % KNOWN_TOGETHER == 0:
                await asyncio.sleep(0)
            read[digest] = found
            fleet.append(_Known(*found, view.state))
        self._read = read
        return fleet

    async def unserved(self, pools: tuple[str, ...], whose: Whose = PUBLIC) -> str:
        """Why no connected node serves all of these pools now; empty if one does, or Redis cannot say.

        Costs nothing while they are in the pool map; the shards are read again before it says no.
        """
        if self._is_served(pools, whose):
            return ""
        try:
            await self._pool_map.look_again()
        except RedisAway:
            return ""
        return "" if self._is_served(pools, whose) else await self.missing_for(pools, whose)

    def is_private_only(self, tenant: str) -> bool:
        """Whether jobs of the tenant never go to public nodes."""
        return tenant in self._pool_map.private_only

    def _is_served(self, pools: Sequence[str], whose: Whose) -> bool:
        return any(all(pool in lane.map for pool in pools) for lane in self._pool_map.lanes(whose))

    async def missing_for(self, pools: tuple[str, ...], whose: Whose = PUBLIC) -> str:
        """The reason for a job that needs a node in all of these pools; short if Redis is unavailable."""
        lane = self._pool_map.lanes(whose)[-1]
        unserved = next((pool for pool in pools if pool not in lane.map), None)
        pairs = " and ".join(f"{pair.src}→{pair.tgt}" for pair in (Pool.parse(pool).pair for pool in pools))
        if unserved is None and len(pools) > 1:
            return f"no single node serves {pairs}, which is needed because either language may be spoken"
        try:
            return await self.missing(lane.names((unserved or pools[0],))[0], whose.tenant)
        except RedisAway:
            return f"no node serves {pairs}"

    async def survey(
        self, pools: Sequence[str], tried: Sequence[str], headline: str = "", holder: str = ""
    ) -> Explanation:
        """Each candidate, and why it would not be chosen now. Without a headline, one is made of the verdicts.

        `holder` is the node that has the job: the slot the job uses does not count against it.
        """
        tenant = tenant_of(pools[0])
        lane = self._pool_map.lanes(Whose(tenant, is_private_only=True))[0] if tenant else Lane(self._pool_map.map)
        asked = tuple(map(public_name, pools))
        shards = lane.map.shard_order(asked[0], 0.0)[:MAX_SHARDS]
        is_served = bool(shards)
        if not is_served:
            shards = (await self._store.placements.shards())[:MAX_SHARDS]
        looks = await asyncio.gather(
            *(
                self._store.surveys.look(shard, pools, tried, lane.names(lane.map.wide_in(shard, asked)))
                for shard in shards
            )
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
    src, tgt = Pool.parse(pool).pair
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


class _Known(NamedTuple):
    """What a node says, what follows from it, to whom it is private, and its state."""

    languages: Languages
    reach: Reach
    private_to: str
    state: str


class _Said(msgspec.Struct):
    languages: Languages = Languages()
    text_input: bool = False
    tenant: str = ""
    is_private: bool = False


_SAID = msgspec.json.Decoder(_Said)
