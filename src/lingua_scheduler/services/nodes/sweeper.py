"""The sweep: ends overdue leases and removes silent nodes, as a safety net below all local timers."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Collection, Iterable

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.cluster.clocks import Drift
from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.jobs.jobs import JobEvent, JobState
from lingua_scheduler.domain.nodes.places import Place
from lingua_scheduler.services.attempts.ending import Endings
from lingua_scheduler.services.nodes.connected import ConnectedNodes
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.jobs.records import JobRecord
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import logs
from lingua_sdk.domain.losses import Loss

_log = logs.get()

BATCH = 200
# Results that waited for Redis are taken before the leases of their attempts are given up.
LEASE_GRACE_S = 2.0
# Jobs without an attempt, which only their own instance takes further.
WAITING = (JobState.CREATED, JobState.RETRYING)
# After an instance's death: jobs read per batch, and the delay before running ones are read again.
FORSAKEN_MAX = 500
FORSAKEN_S = 10.0


class Sweeper:
    """`on_jump` is called when Redis's clock has jumped, with how far, in milliseconds."""

    def __init__(
        self,
        store: Store,
        connected: ConnectedNodes,
        endings: Endings,
        patience_s: float,
        run_max_s: float,
        linger_ms: int,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._store = store
        self._connected = connected
        self._endings = endings
        self._patience_s = patience_s
        self._run_max_s = run_max_s
        self._linger_ms = linger_ms
        self._drifts: dict[int, Drift] = {}
        self.on_jump: Callable[[float], None] = lambda _: None
        # Called with each job that ends because its instance is gone.
        self.on_forsaken: Callable[[JobRecord], None] = lambda _: None
        self._judge_nodes_from = 0.0
        self._judge_leases_from = 0.0
        # Dead instances whose nodes were removed already.
        self._buried: set[str] = set()
        # Dead instances whose jobs are looked for; jobs to be read; theirs that run, whose attempt may be lost later.
        self._forsook: set[str] = set()
        self._suspects: list[str] = []
        self._running: set[str] = set()
        self._look_again_at = 0.0
        self._rest_until = 0.0
        self._forgotten_before: set[tuple[str, Place]] = set()

    def suspend_judgement(self) -> None:
        """Redis was unavailable: silence proves nothing until every node had time to send a heartbeat again."""
        now_s = self._clock()
        self._judge_nodes_from = now_s + self._patience_s
        self._judge_leases_from = now_s + LEASE_GRACE_S

    async def sweep(self) -> None:
        """Sweep all shards concurrently. Idempotent, also from several instances."""
        await self._in_every_shard(self._sweep_shard)

    async def _sweep_shard(self, shard: int) -> None:
        silent = await self._store.nodes.overdue(shard, BATCH)
        overdue = await self._store.jobs.overdue(shard, BATCH)
        # Asked after what it judges by: a jump before that shows.
        if not await self._is_steady(shard):
            return
        if self._clock() >= self._judge_nodes_from:
            await asyncio.gather(*(self._connected.departures.remove_overdue(shard, node_id) for node_id in silent))
        if self._clock() < self._judge_leases_from:
            return
        reporting = await self._reporting(shard, overdue)
        lingering = [attempt for attempt in overdue if attempt.node_id in reporting]
        over = [attempt for attempt in overdue if attempt.node_id not in reporting]
        ended = sum(
            await asyncio.gather(
                self._endings.end_overdue(over, Loss.LEASE_OVER),
                self._endings.end_overdue(lingering, Loss.LEASE_OVER, self._linger_ms),
            )
        )
        if ended:
            _log.warning("leases.swept", shard=shard, ended=ended)

    async def _reporting(self, shard: int, overdue: Iterable[Attempt]) -> set[str]:
        """Nodes that tell what they run: they may still be at it, and free their slot when they let go."""
        nodes = sorted({attempt.node_id for attempt in overdue})
        answers = await asyncio.gather(*(self._store.node_views.reports_jobs(node_id, shard) for node_id in nodes))
        return {node_id for node_id, reports in zip(nodes, answers, strict=True) if reports}

    async def _is_steady(self, shard: int) -> bool:
        """Whether the clock there went on as ours did. After a jump, silence and deadlines prove nothing."""
        asked_ms = self._clock() * 1000
        theirs_ms = await self._store.nodes.clock_ms(shard)
        jump_ms = self._drifts.setdefault(shard, Drift()).jump_ms(theirs_ms, asked_ms, self._clock() * 1000)
        if jump_ms:
            _log.warning("redis.clock_jumped", shard=shard, by_ms=round(jump_ms))
            self.suspend_judgement()
            # Deadlines of running jobs were set by the former time; local timers end those that hang.
            self._judge_leases_from = self._clock() + self._run_max_s
            self.on_jump(jump_ms)
        return jump_ms == 0

    async def _in_every_shard(self, chore: Callable[[int], Awaitable[None]]) -> None:
        """A shard whose server is away keeps none of the others waiting."""
        shards = await self._store.placements.shards()
        failures = await asyncio.gather(*map(chore, shards), return_exceptions=True)
        for failure in failures:
            if isinstance(failure, BaseException):
                raise failure

    async def remove_orphans(self, dead: Collection[str]) -> None:
        """Remove the nodes of a dead instance: they are unreachable, and their jobs are retried elsewhere."""
        fresh = set(dead) - self._buried
        self._buried &= set(dead)
        if not fresh:
            return
        orphans = await self._store.owners.owned_by(fresh)
        for first in range(0, len(orphans), BATCH):
            some = orphans[first : first + BATCH]
            await asyncio.gather(*(self._connected.departures.remove_orphan(*orphan) for orphan in some))
        # Only now: if Redis was away in between, the next look does the rest.
        self._buried |= fresh

    async def close_forsaken(self, dead: Collection[str]) -> None:
        """End jobs that wait for an attempt of their dead instance: no other instance continues them.

        A dead instance begins no jobs, so all there are are read once, and after that only those of its own that run.
        """
        now_s = self._clock()
        if now_s < self._rest_until:
            return
        try:
            if not set(dead) <= self._forsook:
                self._suspects = await self._store.jobs.ids()
            self._forsook = set(dead)
            if not dead:
                self._suspects, self._running = [], set()
            if not self._suspects and now_s >= self._look_again_at:
                self._suspects, self._running, self._look_again_at = list(self._running), set(), now_s + FORSAKEN_S
            closed = await self._close_some()
        except RedisAway:
            # Perhaps only a part of a Cluster, for long: the caller continues with the others.
            self._rest_until = now_s + FORSAKEN_S
            raise
        if closed:
            _log.warning("jobs.forsaken", closed=closed)

    async def _close_some(self) -> int:
        some, self._suspects = self._suspects[:FORSAKEN_MAX], self._suspects[FORSAKEN_MAX:]
        closed = 0
        for first in range(0, len(some), BATCH):
            try:
                closed += await self._close_waiting(some[first : first + BATCH])
            except RedisAway:
                self._suspects = some[first:] + self._suspects
                raise
        return closed

    async def _close_waiting(self, jobs: list[str]) -> int:
        records = await asyncio.gather(*map(self._store.jobs.find, jobs))
        theirs = [record for record in records if record is not None and record.owner in self._forsook]
        self._running.update(record.job_id for record in theirs if record.is_live)
        waiting = [record for record in theirs if record.state in WAITING]
        endings = (
            self._store.jobs.close(record.shard, record.job_id, record.attempt, JobEvent.FAIL, Loss.INSTANCE_GONE)
            for record in waiting
        )
        closed = await asyncio.gather(*endings)
        for record in itertools.compress(waiting, closed):
            self.on_forsaken(record)
        return sum(closed)

    async def repair(self) -> None:
        """Repair what a crash or a failover may have left inconsistent."""
        await self._in_every_shard(self._repair_shard)
        await self._connected.reassertion.recount_places(await self._free_forgotten_places())

    async def _repair_shard(self, shard: int) -> None:
        wrong = await self._store.ledger.rebuild(shard)
        if wrong:
            _log.warning("ledger.repaired", shard=shard, nodes=wrong)

    async def _free_forgotten_places(self) -> list[int]:
        """A place whose node is not registered; twice in a row, because a registration takes two steps.

        The shards that were looked at and have registered nodes.
        """
        placed = await self._store.placements.all()
        shards = sorted({place.shard for place in placed.values()})
        known = dict(zip(shards, await asyncio.gather(*map(self._store.owners.known, shards)), strict=True))
        forgotten = {(node_id, place) for node_id, place in placed.items() if node_id not in known[place.shard]}
        for node_id, place in forgotten & self._forgotten_before:
            await self._store.placements.release(node_id, place)
            _log.warning("place.freed", node_id=node_id, shard=place.shard)
        self._forgotten_before = forgotten
        return [shard for shard, nodes in known.items() if nodes]
