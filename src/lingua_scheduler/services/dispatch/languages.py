"""Matches the languages that are asked for to those that nodes serve, once for each fleet."""

from contextlib import suppress

import msgspec

from lingua_scheduler.domain.pools.lookup import nearest
from lingua_scheduler.domain.pools.selection import PoolMap
from lingua_scheduler.domain.sessions.matching import matched
from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.services.attempts.work import Work
from lingua_scheduler.services.cluster.pool_map import PoolMapCopy
from lingua_scheduler.services.dispatch.explaining import Explainer
from lingua_scheduler.store.connection import RedisAway

# What is asked for under another name than it is served.
REMEMBERED_MAX = 10_000


class LanguageLookup:
    """Terms that are served as they are cost one look into the pool map; the others are looked up and remembered."""

    def __init__(self, pool_map: PoolMapCopy, explainer: Explainer) -> None:
        self._pool_map = pool_map
        self._explainer = explainer
        self._map: PoolMap | None = None
        self._found: dict[Terms, Terms | None] = {}
        # The last match of each: its nodes may be away for a moment, and are waited for under that name.
        self._latest: dict[Terms, Terms] = {}

    def is_served(self, pools: tuple[str, ...]) -> bool:
        return self._pool_map.map.serves_all(pools)

    def used(self, terms: Terms) -> Terms | None:
        """The terms in the tags of the nodes that serve them; None if none does."""
        served = self._pool_map.map
        if served is not self._map or len(self._found) >= REMEMBERED_MAX:
            self._map, self._found = served, {}
        key = terms._replace(features=None)
        if key not in self._found:
            self._found[key] = matched(key, served.tags, served.__contains__)
        found = self._found[key]
        return None if found is None else found._replace(features=terms.features)

    async def look_up(self, terms: Terms) -> Terms | None:
        """As `used`; if there is none, the shards are read again, because our copy may be older than a node."""
        used = self.used(terms)
        if used is None:
            with suppress(RedisAway):
                await self._pool_map.look_again()
                used = self.used(terms)
        return used

    async def unserved(self, terms: Terms) -> str | None:
        """Why no connected node serves these terms now, in any spelling of their tags; None if one does."""
        return None if self.used(terms) else await self._explainer.unserved(terms.pools()) or None

    async def matched(self, work: Work) -> Work:
        """The work in the tags of the nodes that serve it; unchanged if none does, or if they are the same."""
        if self.is_served(work.pools):
            return work
        used = self._remembered(work.terms, await self.look_up(work.terms))
        return work if used is None else msgspec.structs.replace(work, terms=used, pools=used.pools(), asked=work.terms)

    def nearest(self, pool: str) -> str:
        """The pool whose nodes serve what is asked for under this name."""
        served = self._pool_map.map
        return pool if pool in served else nearest(pool, served.tags, served.__contains__)

    def _remembered(self, terms: Terms, used: Terms | None) -> Terms | None:
        key = terms._replace(features=None)
        if used is None:
            known = self._latest.get(key)
            return None if known is None else known._replace(features=terms.features)
        if key not in self._latest and len(self._latest) >= REMEMBERED_MAX:
            self._latest.clear()
        self._latest[key] = used._replace(features=None)
        return used
