"""Writes connected nodes again that Redis has lost, or lost a part of; a sample tells whether it has."""

import asyncio
import random
from collections.abc import Iterable
from contextlib import suppress
from math import gcd

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.nodes.nodes import CheckOutcome
from lingua_scheduler.services.nodes.links import NodeLink, NodeLinks
from lingua_scheduler.services.nodes.node_writer import NodeWriter
from lingua_scheduler.setting_sections.pools import PoolsSettings
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import logs
from lingua_scheduler.telemetry.tasks import SingleFlight

_log = logs.get()

# Nodes that a recall looks up, and the pause after a recall that found nothing missing.
RECALL_SAMPLE = 8
RECALL_AGAIN_S = 5.0
MAX_FRUITLESS = 1_000
# Nodes that are looked up each time stock is taken, one a shard; and how much longer than a look at all of them took
# it is until the next one.
STOCK_SAMPLE = 16
# Maximum nodes skipped in search of those: all nodes of sixteen shards of the usual size.
STOCK_LOOKS = 2_000
REST_FACTOR = 20


class Reassertion:
    def __init__(
        self, store: Store, links: NodeLinks, writer: NodeWriter, pools: PoolsSettings, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._clock = clock
        self._nodes = store.nodes
        self._placements = store.placements
        self._links = links
        self._writer = writer
        self._pools = pools
        self.recalling = SingleFlight[bool]()
        # Pools for which a recall found nothing missing, and until when it need not look again.
        self._nothing_lost_until: dict[tuple[str, ...], float] = {}
        self._reassert_from_s = 0.0
        # Nodes were misplaced, and the nodes of each shard are not counted again yet.
        self._must_recount = False

    async def recall(self, pools: tuple[str, ...]) -> bool:
        """Called when no node in Redis serves all of these pools. True: this instance has such nodes and restored them.

        A drained node serves them too, and is rightly in no pool: such a look finds nothing, and is not
        repeated for every utterance.
        """
        now_s = self._clock()
        if now_s < self._nothing_lost_until.get(pools, 0.0):
            return False
        mine = [link for link in self._links.all() if all(pool in link.serves for pool in pools) and not link.is_silent]
        if not mine:
            return False
        is_own_look = not self.recalling.is_running
        is_lost = await self.recalling.join(lambda: self._recall(mine))
        if is_own_look and not is_lost:
            if len(self._nothing_lost_until) >= MAX_FRUITLESS:
                self._nothing_lost_until.clear()
            self._nothing_lost_until[pools] = now_s + RECALL_AGAIN_S
        return is_lost

    async def _recall(self, links: list[NodeLink]) -> bool:
        """Look up a few nodes first; all nodes are written again only if data of one of them is missing."""
        # Of a wide pool only the definition may be lost: one member of each.
        wide = {(link.shard, link.pools): link for link in links if link.membership.definition}
        is_lost = bool(await self._torn([*links[:RECALL_SAMPLE], *wide.values()]))
        if is_lost:
            await self.reassert()
        return is_lost

    async def reassert(self) -> None:
        """Redis is back, perhaps empty: every node whose socket is open is written again where something is missing."""
        began_s = self._clock()
        links = self._links.all()
        try:
            misplaced = await self._placements.misplaced({link.node_id: link.place for link in links})
        except RedisAway:  # a part of a Cluster; the other parts need not wait for it
            misplaced = set()
        outcomes = await asyncio.gather(
            *(self._assert(link, link.node_id in misplaced) for link in links), return_exceptions=True
        )
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        self._must_recount = self._must_recount or bool(misplaced)
        if self._must_recount:
            with suppress(RedisAway):  # away again; they are counted when it is back
                await self.recount_places()
                self._must_recount = False
        restored = sum(outcome is True for outcome in outcomes)
        self._reassert_from_s = self._clock() + REST_FACTOR * (self._clock() - began_s)
        _log.info("nodes.reasserted", nodes=len(outcomes), restored=restored, failures=len(failures))

    async def recount_places(self, registered: Iterable[int] = ()) -> None:
        """`registered` are shards in which nodes are registered, besides those of ours."""
        shards = {link.shard for link in self._links.all()}.union(registered)
        await self._placements.recount(self._pools.max_shards, self._pools.shard_size, registered=sorted(shards))

    async def take_stock(self) -> None:
        """Look up a node of each shard: where Redis lacks something of one, it may lack the same of all."""
        if self._clock() < self._reassert_from_s:
            return
        # A silent node is rightly gone: that is no loss of data.
        some = [link for link in _one_a_shard(self._links.all()) if not link.is_silent]
        if not some:
            return
        torn, misplaced = await asyncio.gather(
            self._torn(some), self._placements.misplaced({link.node_id: link.place for link in some})
        )
        if torn:
            # It may have been in the middle of a change.
            torn = await self._torn(list(torn))
        if torn or misplaced:
            missing = sorted({*torn.values(), *(["placement"] if misplaced else [])})
            _log.warning("nodes.torn", missing=missing, nodes=len(torn) + len(misplaced))
            await self.reassert()

    async def _torn(self, links: list[NodeLink]) -> dict[NodeLink, str]:
        """Those of which something is missing, and what."""
        found = await asyncio.gather(
            *(self._nodes.check(link.shard, link.owner, link.node_id, link.pools) for link in links)
        )
        return {
            link: what or outcome.value
            for link, (outcome, what) in zip(links, found, strict=True)
            if outcome in (CheckOutcome.TORN, CheckOutcome.GONE) and self._links.is_current(link)
        }

    async def _assert(self, link: NodeLink, is_misplaced: bool) -> bool:
        """Whether something had to be written again."""
        link.forget_old()
        outcome, _ = await self._nodes.check(link.shard, link.owner, link.node_id, link.pools, list(link.sent))
        is_torn = is_misplaced or outcome in (CheckOutcome.TORN, CheckOutcome.GONE)
        if not is_torn:
            await self._writer.beat(link)
        elif self._links.is_current(link):
            await self._writer.restore(link)
        return is_torn


def _one_a_shard(links: list[NodeLink]) -> list[NodeLink]:
    """A link of each of some shards, from a random one on.

    Neighbours are mostly of one shard, so it goes on in long steps, which meet every link once.
    """
    count, found = len(links), dict[int, NodeLink]()
    if not count:
        return []
    # Of all steps, those near the golden ratio spread best.
    place, step = random.randrange(count), max(1, round(count * 0.618))
    while gcd(step, count) > 1:
        step -= 1
    for _ in range(min(count, STOCK_LOOKS)):
        link = links[place]
        found.setdefault(link.shard, link)
        if len(found) == STOCK_SAMPLE:
            break
        place = (place + step) % count
    return list(found.values())
