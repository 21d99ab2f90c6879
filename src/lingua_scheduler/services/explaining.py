"""Why nobody serves a pair, in words: which ability is missing."""

import asyncio

import msgspec

from lingua_scheduler.domain.pools import Admission, Languages, missing_abilities, pools_for
from lingua_scheduler.store.nodes import Nodes

# A look at this many nodes is enough for a sentence, and cheap enough to be asked for by anybody.
MAX_NODES = 200
CACHE_S = 2.0


class Explainer:
    def __init__(self, nodes: Nodes, admission: Admission) -> None:
        self._nodes = nodes
        self._admission = admission
        self._fleet: list[tuple[Languages, str]] = []
        self._looked_at = float("-inf")

    async def missing(self, pool: str) -> str:
        src, tgt, facet = pool.split(":")
        now = asyncio.get_running_loop().time()
        if now - self._looked_at > CACHE_S:
            self._looked_at = now
            placed = await self._nodes.some_places(MAX_NODES)
            views = await asyncio.gather(*(self._nodes.view_one(node_id, place.shard) for node_id, place in placed))
            self._fleet = [(_languages(view.profile), view.state) for view in views if view is not None]
        able = [state for languages, state in self._fleet if pool in pools_for(languages, self._admission)]
        if able:
            return f"no node takes work for {src}→{tgt}: those that serve it are {' and '.join(sorted(set(able)))}"
        return missing_abilities(src, tgt, facet, self._admission, [languages for languages, _ in self._fleet])


def _languages(profile: str) -> Languages:
    return msgspec.json.decode(profile, type=_Said).languages


class _Said(msgspec.Struct):
    languages: Languages = Languages()
