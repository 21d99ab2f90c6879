"""The nodes connected to this instance, and all that may happen to them."""

from typing import NamedTuple

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.services.attempts.ending import Endings
from lingua_scheduler.services.cluster.pool_map import PoolMapCopy
from lingua_scheduler.services.nodes.departures import Departures
from lingua_scheduler.services.nodes.heartbeats import Heartbeats
from lingua_scheduler.services.nodes.holders import Holders
from lingua_scheduler.services.nodes.links import NodeLinks
from lingua_scheduler.services.nodes.node_writer import NodeWriter
from lingua_scheduler.services.nodes.reassertion import Reassertion
from lingua_scheduler.services.nodes.registry import Registry
from lingua_scheduler.services.nodes.running_jobs import RunningJobs
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.store import Store


class ConnectedNodes(NamedTuple):
    links: NodeLinks
    registry: Registry
    heartbeats: Heartbeats
    reassertion: Reassertion
    departures: Departures


def connected_nodes(
    store: Store,
    links: NodeLinks,
    pool_map: PoolMapCopy,
    endings: Endings,
    settings: Settings,
    holders: Holders | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> ConnectedNodes:
    """Wired to each other, and to the same links."""
    running = RunningJobs(store.ledger, endings, settings, clock)
    writer = NodeWriter(store, links, pool_map, running, settings, clock)
    return ConnectedNodes(
        links,
        Registry(links, store.owners, writer, holders, settings, clock),
        Heartbeats(links, writer, running, settings.nodes, clock),
        Reassertion(store, links, writer, settings.pools, clock),
        Departures(store, links, pool_map, endings, holders, clock),
    )
