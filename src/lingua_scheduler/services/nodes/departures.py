"""Nodes leave: their socket closed, an operator evicted or drained them, or their heartbeats stopped."""

import asyncio
from collections import deque
from collections.abc import Sequence

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.nodes.nodes import DrainOutcome, ReleaseOutcome, RemoveOutcome
from lingua_scheduler.domain.nodes.owners import NOBODY, Owner
from lingua_scheduler.domain.nodes.places import Place
from lingua_scheduler.services.attempts.ending import Endings
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.services.cluster.pool_map import PoolMapCopy
from lingua_scheduler.services.nodes.holders import Holders
from lingua_scheduler.services.nodes.links import NodeLink, NodeLinks
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import logs
from lingua_sdk.domain.losses import Loss

_log = logs.get()

# How long, and for how many nodes at most, it is remembered that a node drained before it left.
GOODBYE_S, MAX_GOODBYES = 60.0, 1_000
# Nodes that left while Redis was away and are to be removed when it is back; a sweep finds the others.
MAX_LEFT_BEHIND = 10_000


class Departures:
    """Without `holders`, other instances are taken for dead."""

    def __init__(
        self,
        store: Store,
        links: NodeLinks,
        pool_map: PoolMapCopy,
        endings: Endings,
        holders: Holders | None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._nodes = store.nodes
        self._placements = store.placements
        self._views = store.node_views
        self._links = links
        self._pool_map = pool_map
        self._endings = endings
        self._holders = holders
        self._goodbyes: deque[tuple[float, str]] = deque(maxlen=MAX_GOODBYES)
        self._left_behind: deque[NodeLink] = deque(maxlen=MAX_LEFT_BEHIND)

    @property
    def goodbyes(self) -> list[str]:
        """Nodes that took no more work and then left, in the last minute."""
        since_s = self._clock() - GOODBYE_S
        return [node_id for left_s, node_id in self._goodbyes if left_s > since_s]

    async def gone(self, link: NodeLink) -> None:
        """The socket closed: the node is gone at once and its work goes elsewhere."""
        if self._links.drop(link) and not link.profile.takes_jobs:
            self._goodbyes.append((self._clock(), link.node_id))
        try:
            await self._remove_link(link)
        except RedisAway:
            # Should this process end before Redis is back, the node's time runs out there, and a sweep finds it.
            self._left_behind.append(link)
            _log.warning("node.left_behind", node_id=link.node_id)

    async def remove_left_behind(self) -> None:
        """Redis is back: nodes whose sockets closed meanwhile look idle there, and must get no jobs."""
        left, self._left_behind = self._left_behind, deque(maxlen=MAX_LEFT_BEHIND)
        await asyncio.gather(*map(self._remove_left_behind, left))

    async def _remove_left_behind(self, link: NodeLink) -> None:
        try:
            await self._remove_link(link, is_left_behind=True)
        except RedisAway:
            self._left_behind.append(link)

    async def evict(self, node_id: str) -> list[Attempt] | None:
        """Out at once, wherever its socket is; its attempts go elsewhere. None: there is no such node."""
        link = self._links.find(node_id)
        if link is not None:
            return await self._evict_here(link)
        place = await self._placements.find(node_id)
        view = None if place is None else await self._views.one(node_id, place.shard)
        link = self._links.find(node_id)
        if link is not None:
            # It came here while Redis was asked: without its place, but with its socket, it would be back at once.
            return await self._evict_here(link)
        if place is None or view is None:
            return None
        owner = view.owner.owner
        lost = await self._remove(place, owner, node_id, frozenset(view.pools), Loss.NODE_EVICTED)
        if self._holders is not None and owner.instance != self._links.instance:
            await self._holders.evict(owner, node_id)
        return lost

    async def _evict_here(self, link: NodeLink) -> list[Attempt]:
        lost = await self._remove(link.place, link.owner, link.node_id, link.pools, Loss.NODE_EVICTED)
        self._links.send_away(link)
        return lost

    def members_of(self, pool: str) -> int:
        """How many nodes are in a pool, by the copy of the pool map."""
        return sum(self._pool_map.map.counts.get(pool, {}).values())

    async def send_elsewhere(self, link: NodeLink, why: str) -> bool:
        """Ask a node that has no jobs to connect again, perhaps to another instance; False if it has some.

        It gets none in between: Redis decides whether it is idle, and removes it, in one step.
        """
        outcome, _ = await self._nodes.remove(link.place.shard, link.owner, link.node_id, link.pools, if_idle=True)
        if outcome is not RemoveOutcome.REMOVED:
            return False
        self._links.drop(link)
        link.peer.close(CloseCode.COME_BACK, why)
        self._pool_map.changed()
        self._goodbyes.append((self._clock(), link.node_id))
        await self._placements.release(link.node_id, link.place)
        return True

    async def drain(self, node_id: str, *, resume: bool = False) -> tuple[DrainOutcome, int]:
        """Out of the pools, or back into them; how many jobs the node still holds."""
        found = await self._nodes.drain(node_id, resume=resume)
        self._pool_map.changed()
        return found

    async def release(self, node_id: str) -> ReleaseOutcome:
        """End a node's quarantine: it gets jobs again."""
        outcome = await self._nodes.release(node_id)
        if outcome is ReleaseOutcome.RELEASED:
            _log.info("node.released", node_id=node_id)
        return outcome

    async def remove_overdue(self, shard: int, node_id: str) -> None:
        """The sweep's way: only if no sign of life came in time."""
        place = await self._placements.find(node_id)
        if place is None or place.shard != shard:
            place = Place(shard)
        await self._remove(place, NOBODY, node_id, frozenset(), Loss.NODE_SILENT)

    async def remove_orphan(self, shard: int, node_id: str, owner: Owner) -> None:
        """Its instance is dead. If it has come back elsewhere meanwhile, the owner differs and nothing happens."""
        outcome, attempts = await self._nodes.remove(shard, owner, node_id, frozenset())
        if outcome is RemoveOutcome.REMOVED:
            self._pool_map.changed()
            await self._endings.end_overdue(attempts, Loss.INSTANCE_GONE)
            _log.info("node.orphaned", node_id=node_id, instance=owner.instance, attempts=len(attempts))

    async def _remove_link(self, link: NodeLink, *, is_left_behind: bool = False) -> None:
        sent = [attempt for attempt, _ in link.sent.values()]
        outcome, _ = await self._take_out(link.place, link.owner, link.node_id, link.pools, Loss.NODE_GONE, sent)
        if is_left_behind and outcome is RemoveOutcome.GONE:
            # Only the reply to the first try was lost: the node was removed, and its place was not. A place that was
            # released is not released again, because the node may be back in it, with the same serial.
            await self._placements.release(link.node_id, link.place)

    async def _remove(
        self, place: Place, owner: Owner, node_id: str, pools: frozenset[str], reason: str
    ) -> list[Attempt]:
        """The attempts that were lost with it."""
        _, attempts = await self._take_out(place, owner, node_id, pools, reason)
        return attempts

    async def _take_out(
        self,
        place: Place,
        owner: Owner,
        node_id: str,
        pools: frozenset[str],
        reason: str,
        sent: Sequence[Attempt] = (),
    ) -> tuple[RemoveOutcome, list[Attempt]]:
        """If Redis has lost the node and cannot name the attempts that were lost with it, `sent` are ended."""
        outcome, attempts = await self._nodes.remove(place.shard, owner, node_id, pools)
        if outcome is RemoveOutcome.GONE:
            await self._endings.end_forgotten(sent, reason)
        if outcome is not RemoveOutcome.REMOVED:
            return outcome, []
        self._pool_map.changed()
        await self._endings.end_overdue(attempts, reason)
        await self._placements.release(node_id, place)
        _log.info("node.removed", node_id=node_id, reason=reason, attempts=len(attempts))
        return outcome, attempts
