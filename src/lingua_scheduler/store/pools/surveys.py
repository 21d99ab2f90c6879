"""Surveys the nodes of a shard as a dispatch would see them, without changing anything."""

import asyncio
import random
from collections.abc import Sequence

from lingua_scheduler.domain.nodes.nodes import NodeState
from lingua_scheduler.domain.pools.candidates import Candidate, CandidateVerdict, services_for
from lingua_scheduler.store.connection import RedisLine
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.reading import is_node, slots_of, whole
from lingua_scheduler.store.scripts import Scripts
from lingua_scheduler.store.unreadable import UnreadableKeys

DICE = random.Random()
MEMBERS_MAX = 50
OTHERS_MAX = 20
# Node, verdict, held, limit, left_ms, service.
SURVEYED_WORDS = 6


class Surveys:
    def __init__(self, line: RedisLine, keys: Keys, scripts: Scripts, unreadable: UnreadableKeys) -> None:
        self._unreadable = unreadable
        self._line = line
        self._keys = keys
        self._scripts = scripts

    async def look(
        self, shard: int, pools: Sequence[str], excluded: Sequence[str] = (), wide: Sequence[str] = ()
    ) -> list[Candidate]:
        """Members of the pool, and of the wide pools that serve it, then some of the others; changes nothing."""
        keys = self._keys.shard(shard)
        lines = await self._scripts.run(
            "pool_survey",
            keys,
            pool=keys.pool(pools[0]),
            others=[keys.pool(pool) for pool in (*pools[1:], *wide)],
            excluded=" ".join(excluded),
            services=" ".join(services_for(pools[0])),
            most_members=MEMBERS_MAX,
            most_others=OTHERS_MAX,
            wides=len(wide),
            dice=DICE.getrandbits(31),
        )
        found = [words for line in lines if len(words := line.split(" ")) == SURVEYED_WORDS and is_node(words[0])]
        self._unreadable.met("pool", keys.pool(pools[0]), len(lines) - len(found))
        return list(await asyncio.gather(*(self._candidate(shard, *words) for words in found)))

    async def _candidate(
        self, shard: int, node_id: str, verdict: str, held: str, limit: str, left_ms: str, service: str
    ) -> Candidate:
        judged = CandidateVerdict(verdict)
        if judged is CandidateVerdict.DRAINING:
            # It offers no slots and is in no pool of ours; only its profile says whether it was drained.
            state = await self._line.call("HGET", self._keys.shard(shard).node(node_id), "state")
            judged = judged if state == NodeState.DRAINING else CandidateVerdict.NOT_IN_POOL
        return Candidate(node_id, shard, judged, whole(held), slots_of(limit), whole(left_ms), service.strip("-"))
