"""Matches the languages that are asked for to those that nodes serve, once for each fleet."""

from contextlib import suppress

import msgspec

from lingua_scheduler.domain.pools.lanes import Whose
from lingua_scheduler.domain.pools.lookup import nearest
from lingua_scheduler.domain.pools.names import Pool
from lingua_scheduler.domain.pools.selection import PoolMap
from lingua_scheduler.domain.sessions.matching import matched
from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.services.attempts.work import Work
from lingua_scheduler.services.cluster.pool_map import PoolMapCopy
from lingua_scheduler.services.dispatch.explaining import Explainer
from lingua_scheduler.store.connection import RedisAway

# What is asked for under another name than it is served.
REMEMBERED_MAX = 10_000
# Of a tenant without private nodes.
ANY_TENANT = Whose("")


class LanguageLookup:
    """Terms that are served as they are cost one look into the pool map; the others are looked up and remembered."""

    def __init__(self, pool_map: PoolMapCopy, explainer: Explainer) -> None:
        self._pool_map = pool_map
        self._explainer = explainer
        self._map: PoolMap | None = None
        self._found: dict[tuple[Terms, Whose], Terms | None] = {}
        # The last match of each: its nodes may be away for a moment, and are waited for under that name.
        self._latest: dict[tuple[Terms, Whose], Terms] = {}

    def is_served(self, work: Work) -> bool:
        if self._pool_map.has_private:
            return any(lane.map.serves_all(work.pools) for lane in self._pool_map.lanes(work.whose))
        return self._pool_map.map.serves_all(work.pools)

    def is_served_privately(self, pools: tuple[str, ...], whose: Whose) -> bool:
        """Whether they are no question of the public nodes."""
        if not self._pool_map.has_private:
            return False
        first = self._pool_map.lanes(whose)[0]
        return bool(first.tenant) and (len(self._pool_map.lanes(whose)) == 1 or first.map.serves_all(pools))

    def used(self, terms: Terms, whose: Whose = ANY_TENANT) -> Terms | None:
        """The terms in the tags of the nodes that serve them; None if none does."""
        served = self._pool_map.map
        if served is not self._map or len(self._found) >= REMEMBERED_MAX:
            self._map, self._found = served, {}
        bare = terms._replace(features=None)
        key = (bare, whose if self._pool_map.has_private else ANY_TENANT)
        if key not in self._found:
            maps = [lane.map for lane in self._pool_map.lanes(whose)]
            found = [matched(bare, one.tags, one.__contains__) for one in maps]
            # What is served as it was asked for is better than any other spelling.
            self._found[key] = bare if bare in found else next(filter(None, found), None)
        match = self._found[key]
        return None if match is None else match._replace(features=terms.features)

    async def look_up(self, terms: Terms, whose: Whose = ANY_TENANT) -> Terms | None:
        """As `used`; if there is none, the shards are read again, because our copy may be older than a node."""
        used = self.used(terms, whose)
        if used is None:
            await self.look_again()
            used = self.used(terms, whose)
        return used

    async def unserved(self, terms: Terms, whose: Whose = ANY_TENANT) -> str | None:
        """Why no connected node serves these terms now, in any spelling of their tags; None if one does."""
        return None if self.used(terms, whose) else await self._explainer.unserved(terms.pools(), whose) or None

    async def matched(self, work: Work) -> Work:
        """The work in the tags of the nodes that serve it; unchanged if none does, or if they are the same."""
        if self.is_served(work):
            return work
        whose = work.whose
        used = self._remembered(work.terms, whose, await self.look_up(work.terms, whose))
        return work if used is None else msgspec.structs.replace(work, terms=used, pools=used.pools(), asked=work.terms)

    def nearest(self, pool: str) -> str:
        """The pool whose nodes serve what is asked for under this name."""
        served = self._pool_map.map
        return pool if pool in served else nearest(pool, served.tags, served.__contains__)

    def find(self, pool: Pool, whose: Whose) -> Pool | None:
        """The pool that serves what is asked for, under the tags of nodes that may do it; None if there is none."""
        name, maps = str(pool), [lane.map for lane in self._pool_map.lanes(whose)]
        # What is served as it was asked for is better than any other spelling.
        if any(name in one for one in maps):
            return pool
        names = ((nearest(name, one.tags, one.__contains__), one) for one in maps)
        return next((Pool.parse(found) for found, one in names if found in one), None)

    async def look_again(self) -> None:
        """Read the shards, because our copy of the map may be older than a node."""
        with suppress(RedisAway):
            await self._pool_map.look_again()

    def _remembered(self, terms: Terms, whose: Whose, used: Terms | None) -> Terms | None:
        key = (terms._replace(features=None), whose if self._pool_map.has_private else ANY_TENANT)
        if used is None:
            known = self._latest.get(key)
            return None if known is None else known._replace(features=terms.features)
        if key not in self._latest and len(self._latest) >= REMEMBERED_MAX:
            self._latest.clear()
        self._latest[key] = used._replace(features=None)
        return used
