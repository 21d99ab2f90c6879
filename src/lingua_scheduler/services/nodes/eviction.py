"""Evicts a node from outside of any instance, as a command does."""

from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.protocol.signals import PoolsChanged
from lingua_scheduler.services.nodes.holders import Holders
from lingua_scheduler.store.store import Store


async def evict_from_outside(store: Store, holders: Holders, node_id: str, caller: str) -> list[Attempt] | None:
    """Remove a node and close its connection; None if there is no such node.

    Its attempts are overdue from then on: the next sweep of any instance ends them, and their owners retry.
    """
    place = await store.placements.find(node_id)
    view = None if place is None else await store.node_views.one(node_id, place.shard)
    if place is None or view is None:
        return None
    owner = view.owner.owner
    _, attempts = await store.nodes.remove(place.shard, owner, node_id, frozenset(view.pools))
    await store.placements.release(node_id, place)
    store.signals.publish(PoolsChanged(caller))
    await holders.evict(owner, node_id)
    return attempts
