"""The net below every timer: leases and nodes whose time is up, whoever was watching them."""

import asyncio
from collections.abc import Awaitable, Callable, Collection

from lingua_scheduler.domain.losses import Loss
from lingua_scheduler.services.recovery import Recovery
from lingua_scheduler.services.registry import Registry
from lingua_scheduler.store.nodes import Place
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import logs

_log = logs.get()

BATCH = 200


class Sweeper:
    def __init__(self, store: Store, registry: Registry, recovery: Recovery, patience_s: float) -> None:
        self._store = store
        self._registry = registry
        self._recovery = recovery
        self._patience_s = patience_s
        self._judge_nodes_from = 0.0
        # Dead instances whose nodes were removed already.
        self._buried: set[str] = set()
        self._forgotten_before: set[tuple[str, Place]] = set()

    def suspend_judgement(self) -> None:
        """Redis was away: silence proves nothing until every node had time to beat again."""
        self._judge_nodes_from = asyncio.get_running_loop().time() + self._patience_s

    async def sweep(self) -> None:
        """All shards at once; sweeping twice, or from several instances, is harmless."""
        await self._in_every_shard(self._sweep_shard)

    async def _sweep_shard(self, shard: int) -> None:
        if asyncio.get_running_loop().time() >= self._judge_nodes_from:
            silent = await self._store.nodes.overdue(shard, BATCH)
            await asyncio.gather(*(self._registry.remove_overdue(shard, node_id) for node_id in silent))
        ended = await self._recovery.end_overdue(await self._store.jobs.overdue(shard, BATCH), Loss.LEASE_OVER)
        if ended:
            _log.warning("leases.swept", shard=shard, ended=ended)

    async def _in_every_shard(self, chore: Callable[[int], Awaitable[None]]) -> None:
        """A shard whose server is away keeps none of the others waiting."""
        shards = await self._store.nodes.shards()
        failures = await asyncio.gather(*map(chore, shards), return_exceptions=True)
        for failure in failures:
            if isinstance(failure, BaseException):
                raise failure

    async def remove_orphans(self, dead: Collection[str]) -> None:
        """Nodes that hung on an instance that is dead: they are not reached any more, and their work goes elsewhere."""
        fresh = set(dead) - self._buried
        self._buried = set(dead)
        if not fresh:
            return
        orphans = await self._store.nodes.owned_by(fresh)
        for first in range(0, len(orphans), BATCH):
            some = orphans[first : first + BATCH]
            await asyncio.gather(*(self._registry.remove_orphan(*orphan) for orphan in some))

    async def repair(self) -> None:
        """Put right what a crash in the middle of something, or a failover, may have left behind."""
        await self._in_every_shard(self._repair_shard)
        await self._free_forgotten_places()

    async def _repair_shard(self, shard: int) -> None:
        wrong = await self._store.nodes.rebuild(shard)
        if wrong:
            _log.warning("ledger.repaired", shard=shard, nodes=wrong)

    async def _free_forgotten_places(self) -> None:
        """A place whose node is not registered; twice in a row, because a registration takes two steps."""
        placed = await self._store.nodes.placed()
        shards = sorted({place.shard for place in placed.values()})
        known = dict(zip(shards, await asyncio.gather(*map(self._store.nodes.known, shards)), strict=True))
        forgotten = {(node_id, place) for node_id, place in placed.items() if node_id not in known[place.shard]}
        for node_id, place in forgotten & self._forgotten_before:
            await self._store.nodes.unplace(node_id, place)
            _log.warning("place.freed", node_id=node_id, shard=place.shard)
        self._forgotten_before = forgotten
