"""Placing a job on a node with a free slot: the bound node first, then a random shard, then the queue."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

import msgspec

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.jobs.attempts import Attempt, DispatchOutcome, Try
from lingua_scheduler.domain.pools.lanes import Lane, Lanes
from lingua_scheduler.services.attempts.ending import Endings
from lingua_scheduler.services.attempts.work import NO_WISH, Binding, Work
from lingua_scheduler.services.cluster.pool_map import PoolMapCopy
from lingua_scheduler.services.dispatch import selection_log
from lingua_scheduler.services.dispatch.recording import Recorder
from lingua_scheduler.services.dispatch.waiting import WaitingRoom, either_queue, node_queue, retry_queue
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.connection import NotDone, RedisAway
from lingua_scheduler.store.jobs.jobs import Dispatched, DispatchRules, JobOrder
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import logs, metrics

_log = logs.get()

# What nodes run is compared with the ledger after Redis was away; new jobs wait for that, but not for ever.
SETTLE_S = 2.0

# How many members of a pool a dispatch looks at while the fleet is idle.
FIRST_SAMPLE = 3
# How much longer than its attempt a record lives at least.
RECORD_MARGIN_MS = 60_000

_DISPATCHES = metrics.by(metrics.DISPATCHES, *DispatchOutcome, "queue_full", "wait_over")
_RESERVATIONS = metrics.by(metrics.RESERVATIONS, *DispatchOutcome)

# A pair that was served this long ago, or whose session comes from a scheduler that is gone, is worth waiting for:
# its nodes may be coming back.
SERVED_LATELY_S = 30.0
MAX_REMEMBERED_POOLS = 10_000

# A job that was lost with an existing node, the only one of its pair, waits this long for it: such nodes come back
# after 5 s, then after 10 more.
RETURN_WITHIN_S = 20.0

# Another shard may still have a node.
_GO_ON = (DispatchOutcome.FULL, DispatchOutcome.EXHAUSTED, DispatchOutcome.NOBODY, DispatchOutcome.SICK)


class Placed(msgspec.Struct, frozen=True, gc=False):
    outcome: DispatchOutcome
    attempt: Attempt | None = None
    dispatched: Dispatched | None = None
    # Where a job is known that is STALE.
    shard: int = -1


NOBODY = Placed(DispatchOutcome.NOBODY)
UNFIT = Placed(DispatchOutcome.UNFIT)


class Aim(NamedTuple):
    """Where a job is asked for first: at its bound node, or in a shard of its pool."""

    shard: int
    node_id: str
    is_last_resort: bool


class Asked(NamedTuple):
    """A question for a slot that Redis has not answered yet."""

    shard: int
    job_id: str
    reply: asyncio.Future[Dispatched]


class Placer:
    def __init__(
        self,
        instance: str,
        store: Store,
        pool_map: PoolMapCopy,
        waiting: WaitingRoom,
        recorder: Recorder,
        endings: Endings,
        settings: Settings,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._instance = instance
        self._store = store
        self._pool_map = pool_map
        self._waiting = waiting
        self._recorder = recorder
        self._endings = endings
        # Called when no node serves all of the pools: restores connected nodes that Redis has lost.
        self.recall: Callable[[tuple[str, ...]], Awaitable[bool]] = _nobody
        # Set unless Redis was away, and may have forgotten what our nodes run.
        self.settled = asyncio.Event()
        self.settled.set()
        self._served_at_s: dict[tuple[str, ...], float] = {}
        self._queue_wait_s = settings.dispatch.queue_wait_ms / 1000
        self._affinity_ttl_ms = settings.selection.affinity_ttl_ms
        self._rules = DispatchRules(
            sample=FIRST_SAMPLE,
            sample_k=settings.selection.sample_k,
            ack_ms=settings.job.reservation_ttl_ms,
            # Longer than the longest attempt takes: a record that expires under it would make its result stale.
            keep_ms=max(
                settings.job.keep_ms,
                # A node may ask for time until the job's deadline.
                settings.job.reservation_ttl_ms
                + max(settings.job.timeout_max_ms, settings.job.deadline_ms)
                + RECORD_MARGIN_MS,
            ),
        )

    def aim(self, work: Work) -> Aim | None:
        """Where to ask; None if something has to be waited for before, so that only `place` will do."""
        binding, pool = work.binding, work.pools[0]
        if not self.settled.is_set() or work.wish is not NO_WISH:
            return None
        if self._pool_map.has_private and self._pool_map.lanes(work.whose)[0].tenant:
            return None
        if binding is not None and binding.node_id:
            is_free = not self._waiting.must_queue(node_queue(binding.node_id))
            return Aim(binding.shard, binding.node_id, True) if is_free else None
        begin = None if self._waiting.must_queue(pool) else self._pool_map.map.first_shard(pool, random.random())
        return None if begin is None else Aim(begin[0], "", begin[1])

    def ask(self, work: Work, wanted: Try, aim: Aim) -> Asked:
        """Ask once; `asked` takes the reply. Raises RedisAway."""
        order = self._order(aim.shard, work, wanted, aim.node_id, aim.node_id != "", aim.is_last_resort)
        return Asked(aim.shard, order.job_id, self._store.jobs.dispatch(aim.shard, order, self._rules))

    def asked(self, work: Work, wanted: Try, asked: Asked, reply: Dispatched) -> Attempt | None:
        """The attempt, if there is a slot for it. If not, there may be one elsewhere or later: that is for `place`."""
        _RESERVATIONS[reply.outcome].inc()
        if reply.outcome is not DispatchOutcome.DISPATCHED:
            return None
        _DISPATCHES[reply.outcome].inc()
        self._remember(work.pools)
        if work.binding is not None:
            work.binding.node_id, work.binding.shard = reply.node_id, asked.shard
        return Attempt(asked.job_id, wanted.number, reply.node_id, asked.shard)

    async def place(self, work: Work, wanted: Try) -> Placed:
        """Lease a slot. FULL, and NOBODY of a pair that was served lately, only after waiting in line."""
        if not self.settled.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(SETTLE_S):
                    await self.settled.wait()
        has_wish = work.wish.preferred_node or work.wish.affinity_key
        binding = await self._wished(work) if has_wish else None
        binding = binding or work.binding or Binding()
        wait_s = self._queue_wait_s if work.wait_s is None else work.wait_s
        began = self._clock()
        give_up_at = return_by = min(began + wait_s, wanted.give_up_at)
        if wanted.awaits_return and work.wait_s is None:
            return_by = min(began + max(wait_s, RETURN_WITHIN_S), wanted.give_up_at)
        is_unfit = False
        while True:
            must_stick = binding.node_id != "" and binding.node_id not in wanted.tried
            if work.wish.paired_tenant and not must_stick:
                # Other private nodes of that tenant are not for this session.
                return Placed(DispatchOutcome.EXHAUSTED)
            line = _line_of(self._pool_map.lanes(work.whose), work)
            queue = node_queue(binding.node_id) if must_stick else line
            if wanted.tried and not must_stick:
                # A retry excludes some nodes, so no other job queues behind it.
                queue = retry_queue(line)
            placed = await self._in_line(work, wanted, binding if must_stick else None, queue, give_up_at, return_by)
            if must_stick and placed.outcome is DispatchOutcome.UNFIT and not work.wish.is_strict:
                # Its node is gone, so what sticks to it finds another one.
                binding.node_id = ""
                is_unfit = True
                continue
            if placed.attempt is None:
                selection_log.found_none(work, wanted, placed.outcome)
            else:
                if work.wish.preferred_node not in ("", placed.attempt.node_id):
                    selection_log.passed_over(work, wanted, placed.attempt, is_unfit=is_unfit)
                self._remember(self._named(work))
                binding.node_id, binding.shard = placed.attempt.node_id, placed.attempt.shard
                if work.wish.affinity_key:
                    await self._bind(work, binding)
            return placed

    async def _bind(self, work: Work, binding: Binding) -> None:
        """Best effort. The slot is leased already: an exception here would leave the job unsent and the slot taken."""
        try:
            await self._store.affinity.bind(
                work.wish.affinity_key, binding.node_id, binding.shard, self._affinity_ttl_ms, tenant=_tenant(work)
            )
        except RedisAway as error:
            _log.warning("affinity.unbound", node_id=binding.node_id, error=str(error))

    def _remember(self, pools: tuple[str, ...]) -> None:
        if pools not in self._served_at_s and len(self._served_at_s) >= MAX_REMEMBERED_POOLS:
            self._served_at_s.clear()
        self._served_at_s[pools] = self._clock()

    def _is_worth_waiting(self, outcome: DispatchOutcome, work: Work, wanted: Try) -> bool:
        if outcome is not DispatchOutcome.NOBODY:
            return outcome in (DispatchOutcome.FULL, DispatchOutcome.BUSY)
        # A node served the pair a moment ago; it may reconnect, or be replaced, in time.
        served_at_s = self._served_at_s.get(self._named(work), float("-inf"))
        return wanted.number > 1 or work.is_adopted or self._clock() - served_at_s < SERVED_LATELY_S

    def _named(self, work: Work) -> tuple[str, ...]:
        """The pools that are tried last, under their own names."""
        return self._pool_map.lanes(work.whose)[-1].names(work.pools)

    async def _wished(self, work: Work) -> Binding | None:
        """The node to be asked first, before the turn's own: demanded or preferred, or remembered for the key."""
        wish = work.wish
        if wish.preferred_node:
            place = await self._store.placements.find(wish.preferred_node)
            # A node that is nowhere is asked for in shard 0, which says so.
            return Binding(wish.preferred_node, place.shard if place else 0)
        bound = await self._store.affinity.read(wish.affinity_key, tenant=_tenant(work))
        return Binding(*bound) if bound else None

    async def _in_line(
        self, work: Work, wanted: Try, bound: Binding | None, queue: str, give_up_at: float, return_by: float
    ) -> Placed:
        """Try; if every node is busy wait for a slot, first come first served, and try again.

        `give_up_at` ends the wait for a slot of a busy node, `return_by` the wait for a node to come back.
        """
        ticket = self._waiting.ticket()
        queued_since = None
        is_deserted = False
        must_wait = self._waiting.must_queue(queue)
        while True:
            if must_wait:
                is_first = queued_since is None
                if is_first:
                    queued_since = self._clock()
                if not self._may_wait(work, wanted, queue, is_first=is_first):
                    return Placed(DispatchOutcome.FULL)
                left_s = (return_by if is_deserted else give_up_at) - self._clock()
                if not await self._waiting.wait(queue, ticket, left_s, wanted.job_id, work.principal):
                    _DISPATCHES["wait_over"].inc()
                    return Placed(DispatchOutcome.NOBODY if is_deserted else DispatchOutcome.FULL)
            found = False
            if work.trail is not None:
                work.trail.places()
            try:
                placed = await (self._on(bound, work, wanted) if bound else self._anywhere(work, wanted))
                found = placed.attempt is not None
            finally:
                if must_wait:
                    self._waiting.tried(queue, found)
            _DISPATCHES[placed.outcome].inc()
            is_deserted = placed.outcome is DispatchOutcome.NOBODY
            if found or not self._is_worth_waiting(placed.outcome, work, wanted):
                if queued_since is not None:
                    metrics.QUEUE_WAIT.observe(self._clock() - queued_since)
                return placed
            must_wait = True

    def _may_wait(self, work: Work, wanted: Try, queue: str, *, is_first: bool) -> bool:
        """Tell that the job waits in line; False if it may not, because the line is full."""
        if work.trail is not None:
            work.trail.waits()
        if is_first:
            if self._waiting.is_full(queue):
                _DISPATCHES["queue_full"].inc()
                return False
            self._recorder.waits(work, wanted)
            if logs.shows_debug:
                selection_log.waits(wanted, queue)
        return True

    async def _on(self, bound: Binding, work: Work, wanted: Try) -> Placed:
        # If a preferred node is busy, and neither `strict` nor a turn requires it, the job goes elsewhere.
        may_go_elsewhere = bool(work.wish.preferred_node or work.wish.affinity_key) and not work.wish.is_strict
        placed = await self._on_node(bound, work, wanted)
        if placed.outcome is DispatchOutcome.UNFIT and work.wish.preferred_node:
            # A wide or private node that came a moment ago is in a pool that our copy of the map may not have yet.
            known = self._wide_in(bound.shard, work)
            await self._pool_map.look_again()
            if self._wide_in(bound.shard, work) != known:
                placed = await self._on_node(bound, work, wanted)
        if placed.outcome is DispatchOutcome.BUSY and may_go_elsewhere:
            return await self._anywhere(work, wanted)
        return placed

    async def _on_node(self, bound: Binding, work: Work, wanted: Try) -> Placed:
        """It may be private to the tenant, or public."""
        placed = UNFIT
        for lane in self._pool_map.lanes(work.whose):
            placed = await self._try(bound.shard, lane, work, wanted, preferred=bound.node_id, only=True)
            if placed.outcome is not DispatchOutcome.UNFIT:
                break
        return placed

    def _wide_in(self, shard: int, work: Work) -> list[tuple[str, ...]]:
        lanes = self._pool_map.lanes(work.whose)
        return [lane.names(lane.map.wide_in(shard, work.pools)) for lane in lanes]

    async def _anywhere(self, work: Work, wanted: Try) -> Placed:
        """In any shard of the pool."""
        placed = await self._lane_by_lane(work, wanted)
        if placed.outcome is DispatchOutcome.NOBODY:
            # Our copy of the map may be old: the nodes may have come, or gone to another shard, since it was made.
            await self._pool_map.look_anew()
            placed = await self._lane_by_lane(work, wanted)
        if placed.outcome is DispatchOutcome.NOBODY and await self.recall(self._named(work)):
            await self._pool_map.look_again()
            placed = await self._lane_by_lane(work, wanted)
        return placed

    async def _lane_by_lane(self, work: Work, wanted: Try) -> Placed:
        """Private nodes of the tenant first, if it has some. One that is quarantined is worse than any public one."""
        lanes = self._pool_map.lanes(work.whose)
        if len(lanes) == 1:
            return await self._shard_by_shard(lanes[0], work, wanted)
        own, public = lanes
        placed = await self._shard_by_shard(own, work, wanted, may_resort=False)
        if placed.outcome not in _GO_ON:
            return placed
        elsewhere = await self._shard_by_shard(public, work, wanted)
        if placed.outcome is DispatchOutcome.SICK and elsewhere.outcome is DispatchOutcome.NOBODY:
            # Our copy of the map may be older than the public nodes.
            await self._pool_map.look_again()
            elsewhere = await self._shard_by_shard(Lane(self._pool_map.map), work, wanted)
        if elsewhere.outcome not in _GO_ON or elsewhere.outcome is DispatchOutcome.FULL:
            return elsewhere
        if placed.outcome is DispatchOutcome.SICK:
            return await self._shard_by_shard(own, work, wanted)
        return placed if elsewhere.outcome is DispatchOutcome.NOBODY else elsewhere

    async def _shard_by_shard(self, lane: Lane, work: Work, wanted: Try, *, may_resort: bool = True) -> Placed:
        """In one shard, or else in any other. Every node of the pool is equally likely to be looked at first.

        A shard whose server is away is passed over, if another has a node.
        """
        begin = lane.map.first_shard(work.pools[0], random.random())
        if begin is None:
            return NOBODY
        first, is_last = begin
        try:
            placed = await self._try(first, lane, work, wanted, is_last_resort=is_last and may_resort)
        except NotDone:
            placed = NOBODY if is_last else await self._in_others(first, lane, NOBODY, work, wanted, may_resort)
            if placed.attempt is None:
                raise
            return placed
        if placed.outcome not in _GO_ON:
            return placed
        return await self._in_others(first, lane, placed, work, wanted, may_resort)

    async def _in_others(
        self, first: int, lane: Lane, placed: Placed, work: Work, wanted: Try, may_resort: bool
    ) -> Placed:
        """The first shard had no node for it; perhaps another has."""
        sick = [first] if placed.outcome is DispatchOutcome.SICK else []
        away: NotDone | None = None
        for shard in lane.map.other_shards(work.pools[0], first):
            try:
                latest = await self._try(shard, lane, work, wanted, is_last_resort=False)
            except NotDone as error:
                away = error
                continue
            if latest.outcome not in _GO_ON:
                return latest
            if latest.outcome is DispatchOutcome.SICK:
                sick.append(shard)
            if latest.outcome is DispatchOutcome.FULL or placed.outcome is DispatchOutcome.NOBODY:
                placed = latest
        if sick and placed.outcome is not DispatchOutcome.FULL:
            # No other shard has a better node, busy or not.
            return await self._try(sick[0], lane, work, wanted, is_last_resort=may_resort)
        if away is not None:
            raise away
        return placed

    async def _try(
        self,
        shard: int,
        lane: Lane,
        work: Work,
        wanted: Try,
        preferred: str = "",
        only: bool = False,
        is_last_resort: bool = True,
    ) -> Placed:
        order = self._order(shard, work, wanted, preferred, only, is_last_resort)
        if lane.tenant:
            wide = lane.map.wide_in(shard, work.pools)
            order = msgspec.structs.replace(order, pools=lane.names(work.pools), wide=lane.names(wide))
        try:
            reply = await self._store.jobs.dispatch(shard, order, self._rules)
        except NotDone:
            raise
        except RedisAway:
            wanted.doubtful = (*wanted.doubtful, shard)
            raise
        _RESERVATIONS[reply.outcome].inc()
        if logs.shows_debug:
            selection_log.step(wanted, shard, reply.outcome, reply.node_id, preferred)
        if reply.outcome is not DispatchOutcome.DISPATCHED:
            return Placed(reply.outcome, shard=shard)
        attempt = Attempt(order.job_id, wanted.number, reply.node_id, shard)
        if wanted.job_id and shard != wanted.shard and not await self._moves(wanted, attempt):
            return Placed(DispatchOutcome.STALE)
        return Placed(reply.outcome, attempt, reply)

    def _order(self, shard: int, work: Work, wanted: Try, preferred: str, only: bool, is_last_resort: bool) -> JobOrder:
        return JobOrder(
            job_id=wanted.id_in(shard),
            attempt=wanted.number,
            pools=work.pools,
            session_id=work.session_id,
            utterance_index=work.utterance_index,
            owner=self._instance,
            run_ms=wanted.run_ms,
            preferred=preferred,
            only_preferred=only,
            excluded=wanted.tried,
            needs=work.terms.pipeline.needs,
            is_last_resort=is_last_resort,
            wide=self._pool_map.map.wide_in(shard, work.pools),
            belongs_to=work.belongs_to,
            tenant=_tenant(work),
        )

    async def _moves(self, wanted: Try, attempt: Attempt) -> bool:
        """Leave a pointer where the job was; False when it was cancelled there meanwhile, which ends this attempt.

        Best effort. The slot is leased already: an exception here would leave the job unsent and the slot taken.
        """
        jobs = self._store.jobs
        try:
            if await jobs.leave_pointer(wanted.shard, wanted.job_id, wanted.number - 1, attempt.shard):
                return True
            if not await jobs.is_cancelled(wanted.shard, wanted.job_id):
                return True
        except RedisAway as error:
            _log.warning("job.moved_unseen", job_id=wanted.job_id, shard=attempt.shard, error=str(error))
            return True
        try:
            await self._endings.withdraw(attempt, "cancelled")
        except RedisAway:
            wanted.doubtful = (*wanted.doubtful, attempt.shard)
        return False


def _tenant(work: Work) -> str:
    """Whose affinity key it is. What a caller without a credential names as its tenant proves nothing."""
    return work.tenant_id if work.belongs_to else ""


def _line_of(lanes: Lanes, work: Work) -> str:
    """Where it waits for a slot."""
    first = lanes[0].names(work.pools)[0]
    return first if len(lanes) == 1 else either_queue(first)


async def _nobody(pools: tuple[str, ...]) -> bool:  # noqa: ARG001 - the shape of a question
    return False
