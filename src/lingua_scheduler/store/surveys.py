"""A look at the nodes of a shard as a dispatch would see them."""

import asyncio
from collections.abc import Sequence

from lingua_scheduler.domain.candidates import Candidate, Verdict, services_for
from lingua_scheduler.domain.nodes import NodeState
from lingua_scheduler.store.connection import Line
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import Scripts

MEMBERS_MAX = 50
OTHERS_MAX = 20


class Surveys:
    def __init__(self, line: Line, keys: Keys, scripts: Scripts) -> None:
        self._line = line
        self._keys = keys
        self._scripts = scripts

    async def look(self, shard: int, pools: Sequence[str], excluded: Sequence[str] = ()) -> list[Candidate]:
        """Members of the pool first, then some of the others; changes nothing."""
        keys = self._keys.shard(shard)
        lines = await self._scripts.run(
            "pool_survey",
            keys,
            pool=keys.pool(pools[0]),
            also=[keys.pool(pool) for pool in pools[1:]],
            excluded=" ".join(excluded),
            services=" ".join(services_for(pools[0])),
            most_members=MEMBERS_MAX,
            most_others=OTHERS_MAX,
        )
        return list(await asyncio.gather(*(self._candidate(shard, line) for line in lines)))

    async def _candidate(self, shard: int, line: str) -> Candidate:
        node_id, verdict, held, limit, left_ms, service = line.split(" ")
        judged = Verdict(verdict)
        if judged is Verdict.DRAINING:
            # It offers no slots and is in no pool of ours; only its profile says whether it was drained.
            state = await self._line.call("HGET", self._keys.shard(shard).node(node_id), "state")
            judged = judged if state == NodeState.DRAINING else Verdict.NOT_IN_POOL
        return Candidate(node_id, shard, judged, int(held), int(limit), int(left_ms), service.strip("-"))
