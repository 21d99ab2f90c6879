"""Why a job found no node, in words: which ability is missing, and why each node would not be taken."""

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Sequence

import msgspec

from lingua_scheduler.domain.pools.candidates import Candidate, Verdict
from lingua_scheduler.domain.pools.pools import Admission, Languages, missing_abilities, reach_of
from lingua_scheduler.domain.pools.reach import Reach
from lingua_scheduler.protocol.http_jobs import CandidateView, Explanation
from lingua_scheduler.services.cluster.pool_map import PoolMapCopy
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.nodes.nodes import NodeView
from lingua_scheduler.store.store import Store

# A look at this many nodes is enough for a sentence, and cheap enough to be asked for by anybody.
MAX_NODES = 200
CACHE_S = 2.0
# Of nodes that say what they said before so many are looked at in one go.
KNOWN_TOGETHER = 10
# A survey looks at this many shards, and what is kept of it is no larger than this.
MAX_SHARDS = 4
MAX_BYTES = 4_096
HEADLINE_MAX_CHARS = 300


class Explainer:
    def __init__(self, store: Store, pool_map: PoolMapCopy, admission: Admission) -> None:
        self._store = store
        self._nodes = store.nodes
        self._pool_map = pool_map
        self._admission = admission
        # What each node says, what follows from it, and its state.
        self._fleet: list[tuple[Languages, Reach, str]] = []
        self._looked_at = float("-inf")
        # What was read at the latest look, by the digest of what the nodes said: most say the same, and again.
        self._read: dict[bytes, tuple[Languages, Reach]] = {}

    async def missing(self, pool: str) -> str:
        src, tgt, facet = pool.split(":")
        now = asyncio.get_running_loop().time()
        if now - self._looked_at > CACHE_S:
            self._looked_at = now
            placed = await self._nodes.some_places(MAX_NODES)
            views = await asyncio.gather(*(self._nodes.view_one(node_id, place.shard) for node_id, place in placed))
            self._fleet = await self._read_all([view for view in views if view is not None])
        able = [state for _, reach, state in self._fleet if reach.serves_pool(pool)]
        if able:
            return f"no node takes work for {src}→{tgt}: those that serve it are {' and '.join(sorted(set(able)))}"
        return missing_abilities(src, tgt, facet, self._admission, [languages for languages, _, _ in self._fleet])

    async def _read_all(self, views: Sequence[NodeView]) -> list[tuple[Languages, Reach, str]]:
        """One at a time: what a node says may have thousands of pairs, and others have their turn in between."""
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

    async def missing_for(self, pools: Sequence[str]) -> str:
        """For a job that needs a node in all of these; in few words when Redis cannot be asked for more."""
        unserved = next((pool for pool in pools if pool not in self._pool_map.map), None)
        pairs = " and ".join(pool.rpartition(":")[0].replace(":", "→") for pool in pools)
        if unserved is None and len(pools) > 1:
            return f"no node serves {pairs} by itself, and whoever speaks may speak either language"
        try:
            return await self.missing(unserved or pools[0])
        except RedisAway:
            return f"no node serves {pairs}"

    async def survey(
        self, pools: Sequence[str], tried: Sequence[str], headline: str = "", holder: str = ""
    ) -> Explanation:
        """Each candidate and why it would not be taken at this moment; without a headline, one that sums it up.

        `holder` is the node the job is at: its own slot does not speak against it.
        """
        shards = self._pool_map.map.shard_order(pools[0], 0.0)[:MAX_SHARDS]
        is_served = bool(shards)
        if not is_served:
            shards = (await self._nodes.shards())[:MAX_SHARDS]
        pool_map, pools = self._pool_map.map, tuple(pools)
        looks = await asyncio.gather(
            *(self._store.surveys.look(shard, pools, tried, pool_map.wide_in(shard, pools)) for shard in shards)
        )
        found = [
            candidate._replace(verdict=Verdict.HAS_IT) if candidate.node_id == holder else candidate
            for look in looks
            for candidate in look
        ]
        if not headline:
            headline = _summary(pools[0], found) if is_served else await self.missing(pools[0])
        return _fitting(headline[:HEADLINE_MAX_CHARS], found)


def _summary(pool: str, found: Sequence[Candidate]) -> str:
    src, tgt, _ = pool.split(":")
    # Those that come nearest first, also among equally many.
    verdicts = sorted((candidate.verdict for candidate in found), key=list(Verdict).index)
    counts: Counter[Verdict] = Counter(verdict for verdict in verdicts if verdict is not Verdict.NOT_IN_POOL)
    if counts.pop(Verdict.HAS_IT, 0):
        holder = next(candidate.node_id for candidate in found if candidate.verdict is Verdict.HAS_IT)
        return f"{holder} has it; {_others(src, tgt, counts)}"
    if counts[Verdict.FREE]:
        return f"{counts[Verdict.FREE]} of {counts.total()} nodes for {src}→{tgt} are free"
    spelled = ", ".join(f"{count} {verdict.value.replace('_', ' ')}" for verdict, count in counts.most_common())
    return f"no node for {src}→{tgt} can take it: {spelled or 'there is none'}"


def _others(src: str, tgt: str, counts: Counter[Verdict]) -> str:
    if not counts:
        return f"no other node serves {src}→{tgt}"
    return f"{counts[Verdict.FREE]} of {counts.total()} other nodes for {src}→{tgt} are free"


def _fitting(headline: str, found: Sequence[Candidate]) -> Explanation:
    """Those that come nearest first, as many as fit."""
    order = list(Verdict)
    ranked = sorted(found, key=lambda candidate: order.index(candidate.verdict))
    explanation = Explanation(
        headline=headline,
        looked_at_ms=int(time.time() * 1000),
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
