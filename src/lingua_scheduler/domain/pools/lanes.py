"""Lanes: among which nodes a job looks for one, and in which order. Private ones, public ones, or both."""

from collections.abc import Collection
from typing import NamedTuple

from lingua_scheduler.domain.access.credentials import DEFAULT_TENANT
from lingua_scheduler.domain.pools.names import private_names
from lingua_scheduler.domain.pools.selection import PoolMap

_NO_NODES = PoolMap({})


class Whose(NamedTuple):
    """Whose job it is: the tenant, and whether only private nodes of that tenant will do."""

    tenant: str = DEFAULT_TENANT
    is_private_only: bool = False


class Lane(NamedTuple):
    map: PoolMap
    # To whom its nodes are private; empty if they are for all.
    tenant: str = ""

    def names(self, pools: tuple[str, ...]) -> tuple[str, ...]:
        """The pools of this lane that serve what these do."""
        return private_names(pools, self.tenant) if self.tenant else pools


Lanes = tuple[Lane, ...]


def lanes_of(whose: Whose, pool_map: PoolMap, private_only: Collection[str]) -> Lanes:
    """In the order in which they are tried. `private_only`: tenants whose jobs never go to public nodes.

    Every other tenant goes on to the public nodes if its private ones are full, or do not serve what is asked for.
    """
    own = pool_map.private.get(whose.tenant)
    if whose.is_private_only or whose.tenant in private_only:
        return (Lane(own or _NO_NODES, whose.tenant),)
    public = Lane(pool_map)
    return (public,) if own is None else (Lane(own, whose.tenant), public)
