"""Random lives of nodes and jobs on a real Redis, step by step compared with a small model.

Few nodes and few jobs, so that they meet often. STEPS=100000 in the environment makes it a long run.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from lingua_scheduler.domain.jobs.attempts import ADOPTED, Attempt
from lingua_scheduler.domain.jobs.jobs import JobEvent, target_of
from lingua_scheduler.domain.nodes.owners import Owner
from lingua_scheduler.store.jobs import jobs
from lingua_scheduler.store.jobs.jobs import DispatchRules, JobOrder
from lingua_scheduler.store.nodes.nodes import NodeEntry
from lingua_scheduler.store.reading import fields_of
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.errors import ErrorCode
from tests.models.world import ACK_MS, LIVE, QUARANTINE, ModelJob, ModelNode, World
from tests.support.clocks import Clock
from tests.support.fleet import entry, wide_entry
from tests.support.servers import RedisProcess

T = TypeVar("T")

NODES = ("a", "b", "c")
POOLS = ("en:zh:speech", "en:zh:text")
(WIDE,) = wide_entry("any").pools
RULES = DispatchRules(sample=3, sample_k=20, ack_ms=ACK_MS, keep_ms=3_600_000)
STEPS = int(os.environ.get("STEPS", "2000"))
STEPS_PER_LIFE = 50

nodes = st.sampled_from(NODES)
# Weighted towards a fleet that works, because that is where leases meet.
pool_sets = st.sampled_from([POOLS, POOLS, POOLS, POOLS[:1], POOLS[1:], (), (WIDE,), (WIDE,)]).map(frozenset)
takes_work = st.sampled_from([True, True, True, True, False])
links = st.sampled_from(["c1", "c1", "c1", "c2"])


class LedgerMachine(RuleBasedStateMachine):
    server: ClassVar[RedisProcess]
    loop: ClassVar[asyncio.AbstractEventLoop]
    store: ClassVar[Store]
    clock: ClassVar[Clock]

    def __init__(self) -> None:
        super().__init__()
        self.server.flush()
        # A life that is lived again must go the same way.
        jobs.DICE.seed(0)
        self.clock.now_ms = 1_000_000
        self.world = World()
        self.serial = 0
        # Every attempt that ever was, so that late and lying messages can be about any of them.
        self.attempts: list[tuple[Attempt, str]] = []

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def ask(self, call: Callable[[], Awaitable[T]]) -> T:
        """For calls that need the loop to be running when they are made."""

        async def asked() -> T:
            return await call()

        return self.run(asked())

    @property
    def now(self) -> int:
        return self.clock.now_ms

    @rule(
        node_id=nodes,
        pools=pool_sets,
        limit=st.sampled_from([1, 2, 4, 4]),
        boot_id=st.sampled_from(["", "b1", "b2"]),
        link=links,
        acknowledges=st.booleans(),
        takes=takes_work,
        is_doubted=st.booleans(),
    )
    def register(
        self,
        node_id: str,
        pools: frozenset[str],
        limit: int,
        boot_id: str,
        link: str,
        acknowledges: bool,
        takes: bool,
        is_doubted: bool = True,
    ) -> None:
        self.run(self.store.placements.assign(node_id, 100, 1000))
        new = entry(
            node_id,
            pools=pools,
            max_jobs=limit,
            boot_id=boot_id,
            acknowledges=acknowledges,
            takes_jobs=takes,
            alive_ms=10_000,
        )
        before = self.world.nodes.get(node_id)
        is_same = before is not None and boot_id != "" and before.boot_id == boot_id
        over = Owner("i", before.link) if before is not None and is_doubted else None
        registered = self.run(self.store.nodes.register(0, Owner("i", link), defined(new), over))
        if before is not None and before.link != link and before.alive_until > self.now and not (is_same or over):
            assert registered.outcome == "held"
            return
        if before is None:
            self.world.come_back(node_id)
        handed_back: set[Attempt] = set()
        if is_same and before is not None:
            assert registered.epoch == before.epoch
        else:
            handed_back = self.world.hand_back(node_id)
            assert before is None or int(registered.epoch) > int(before.epoch)
        assert set(registered.handed_back) == handed_back
        was_drained = self.world.drained.pop(node_id, "") == boot_id != "" if before is None else before.is_drained
        drained = was_drained if before is None else is_same and was_drained
        self.world.nodes[node_id] = ModelNode(
            registered.epoch, boot_id, link, limit, pools, acknowledges, takes, self.now + 10_000, drained
        )

    @rule(node_id=nodes, pools=pool_sets, limit=st.sampled_from([1, 2, 4, 4]), link=links, takes=takes_work)
    def change(self, node_id: str, pools: frozenset[str], limit: int, link: str, takes: bool) -> None:
        node = self.world.nodes.get(node_id)
        acks, boot_id = (node.acknowledges, node.boot_id) if node else (False, "")
        new = entry(
            node_id, pools=pools, max_jobs=limit, boot_id=boot_id, acknowledges=acks, takes_jobs=takes, alive_ms=10_000
        )
        belief = frozenset(POOLS)  # often wrong
        registered = self.run(self.store.nodes.update(0, Owner("i", link), defined(new), belief))
        if node is None:
            assert registered.outcome == "gone"
        elif node.link != link:
            assert registered.outcome == "superseded"
        else:
            assert (registered.outcome, registered.epoch, registered.handed_back) == ("registered", node.epoch, ())
            node.pools, node.limit, node.takes, node.alive_until = pools, limit, takes, self.now + 10_000

    @rule(node_id=nodes, link=links)
    def beat(self, node_id: str, link: str) -> None:
        outcome = self.run(self.store.nodes.beat(0, Owner("i", link), node_id, 10_000)).outcome
        node = self.world.nodes.get(node_id)
        assert outcome == ("gone" if node is None else "alive" if node.link == link else "superseded")
        if node is not None and node.link == link:
            node.alive_until = self.now + 10_000

    @rule(node_id=nodes, resume=st.booleans())
    def drain(self, node_id: str, resume: bool) -> None:
        outcome, running = self.run(self.store.nodes.drain(node_id, resume=resume))
        node = self.world.nodes.get(node_id)
        if node is None:
            assert outcome == "gone"
        elif node.is_drained != resume:
            assert (outcome, running) == ("kept", self.world.held(node_id))
        else:
            assert outcome == ("resumed" if resume else "drained")
            node.is_drained = not resume

    @rule(node_id=nodes, link=links)
    def close(self, node_id: str, link: str) -> None:
        outcome, attempts = self.run(self.store.nodes.remove(0, Owner("i", link), node_id, frozenset()))
        node = self.world.nodes.get(node_id)
        assert outcome == ("gone" if node is None else "removed" if node.link == link else "superseded")
        if outcome == "removed":
            assert set(attempts) == self.world.hand_back(node_id)
            self.world.remove(node_id)

    @rule()
    def sweep_nodes(self) -> None:
        overdue = self.run(self.store.nodes.overdue(0, 100))
        silent = {node_id for node_id, node in self.world.nodes.items() if node.alive_until <= self.now}
        assert set(overdue) == silent
        for node_id in silent:
            outcome, attempts = self.run(self.store.nodes.remove(0, Owner("", ""), node_id, frozenset()))
            assert (outcome, set(attempts)) == ("removed", self.world.hand_back(node_id))
            self.world.remove(node_id)

    @rule(pool=st.sampled_from(POOLS), both=st.booleans())
    def dispatch(self, pool: str, both: bool) -> None:
        self.serial += 1
        self._dispatch(f"job-0-{self.serial}", 1, (pool, *(set(POOLS) - {pool} if both else ())), ())

    @precondition(lambda self: len(self.world.nodes) > 1)
    @rule(excluded=st.sets(nodes, max_size=2).map(sorted).map(tuple))
    def dispatch_to_some(self, excluded: tuple[str, ...]) -> None:
        self.serial += 1
        self._dispatch(f"job-0-{self.serial}", 1, (POOLS[0],), excluded)

    @precondition(lambda self: self.world.jobs)
    @rule(pick=st.integers(0, 1000), raise_by=st.sampled_from([0, 1, 1, 1]), exclude=st.booleans())
    def dispatch_again(self, pick: int, raise_by: int, exclude: bool) -> None:
        job_id = sorted(self.world.jobs)[pick % len(self.world.jobs)]
        job = self.world.jobs[job_id]
        excluded = (job.attempt.node_id,) if exclude else ()
        self._dispatch(job_id, job.attempt.number + raise_by, (POOLS[0],), excluded)

    def _dispatch(self, job_id: str, number: int, pools: tuple[str, ...], excluded: tuple[str, ...]) -> None:
        wanted = JobOrder(job_id, number, pools, "s-1", 0, "i", 20_000, excluded=excluded, wide=(WIDE,))
        placed = self.ask(lambda: self.store.jobs.dispatch(0, wanted, RULES))
        job = self.world.jobs.get(job_id)
        is_live = job is not None and job.state in LIVE and job.attempt in self.world.leases
        if job is not None and is_live and job.attempt.number == number and job.attempt.node_id in self.world.nodes:
            # The same question gets the same answer.
            assert (placed.outcome, placed.node_id) == ("dispatched", job.attempt.node_id)
            return
        if job is not None and (job.state != "RETRYING" or job.attempt.number >= number):
            assert placed.outcome == "stale"
            return
        fit = self.world.choices(pools, excluded, self.now)
        if not fit:
            able = set.intersection(*(self.world.serving(pool) for pool in pools))
            expected = "nobody" if not able else "full" if able - set(excluded) else "exhausted"
            assert placed.outcome == expected
            return
        assert placed.outcome == "dispatched"
        assert placed.node_id in fit, "a dead, full, drained, quarantined or excluded node was chosen"
        assert self.world.load(placed.node_id) == min(map(self.world.load, fit)), "not the least loaded"
        node = self.world.nodes[placed.node_id]
        assert (placed.epoch, placed.owner) == (node.epoch, Owner("i", node.link))
        attempt = Attempt(job_id, number, placed.node_id, 0)
        self.world.jobs[job_id] = ModelJob("DISPATCHED", attempt, node.epoch, 20_000, self.now)
        self.world.leases[attempt] = self.now + (ACK_MS if node.acknowledges else 20_000)
        self.attempts.append((attempt, node.epoch))
        if self.world.sick.get(placed.node_id, self.now + 1) <= self.now:
            # The one probe.
            self.world.sick[placed.node_id] = self.now + 20_000

    @precondition(lambda self: self.world.leases)
    @rule(
        pick=st.integers(0, 1000),
        event=st.sampled_from([JobEvent.ACCEPT, JobEvent.FINISH, JobEvent.LOSE_ATTEMPT]),
        lie=st.sampled_from([False, False, True]),
    )
    def a_holder_speaks(self, pick: int, event: JobEvent, lie: bool) -> None:
        """Most messages are about a lease that is still there, even if it is overdue."""
        self._says(sorted(self.world.leases)[pick % len(self.world.leases)], event, lie)

    @precondition(lambda self: self.world.leases)
    @rule(pick=st.integers(0, 1000))
    def an_owner_gives_up(self, pick: int) -> None:
        """The node may still be at it, so its slot stays taken for a while."""
        attempt = sorted(self.world.leases)[pick % len(self.world.leases)]
        said = self.ask(lambda: self.store.jobs.end(attempt, "", JobEvent.LOSE_ATTEMPT, linger_ms=7_000))
        assert said.outcome == self.world.end(attempt, "", "RETRYING", if_overdue=False, linger_ms=7_000, now=self.now)

    def _says(self, attempt: Attempt, event: JobEvent, lie: bool) -> None:
        job = self.world.jobs.get(attempt.job_id)
        epoch = job.epoch if job is not None and job.attempt == attempt and not lie else "77"
        if event is JobEvent.ACCEPT:
            outcome = self.ask(lambda: self.store.jobs.advance(attempt, epoch, event))
            assert outcome == self.world.advance(attempt, epoch, "ACCEPTED", self.now)
        else:
            self._ends(attempt, epoch, event, if_overdue=False, linger_ms=0)

    def _ends(self, attempt: Attempt, epoch: str, event: JobEvent, *, if_overdue: bool, linger_ms: int) -> None:
        """An end the node is judged by."""
        reason = "" if event in (JobEvent.FINISH, JobEvent.FIND_NO_TEXT) else ErrorCode.PROCESSING_ERROR.value
        said = self.ask(
            lambda: self.store.jobs.end(
                attempt, epoch, event, reason, if_overdue=if_overdue, linger_ms=linger_ms, quarantine=QUARANTINE
            )
        )
        state = target_of(event).value
        outcome = self.world.end(attempt, epoch, state, if_overdue=if_overdue, linger_ms=linger_ms, now=self.now)
        assert said.outcome == outcome
        verdict = ""
        if outcome == "ended" and event is not JobEvent.FAIL:
            given_ms = self.world.jobs[attempt.job_id].given_ms
            verdict = self.world.judge(attempt.node_id, not reason, given_ms, self.now)
        assert said.verdict == verdict

    @precondition(lambda self: self.attempts)
    @rule(pick=st.integers(0, 1000), event=st.sampled_from([JobEvent.ACCEPT, JobEvent.START]), lie=st.booleans())
    def advance(self, pick: int, event: JobEvent, lie: bool) -> None:
        attempt, epoch = self._pick(pick)
        epoch = "77" if lie else epoch
        outcome = self.ask(lambda: self.store.jobs.advance(attempt, epoch, event))
        assert outcome == self.world.advance(attempt, epoch, target_of(event).value, self.now)

    @precondition(lambda self: self.attempts)
    @rule(
        pick=st.integers(0, 1000),
        event=st.sampled_from([JobEvent.FINISH, JobEvent.FIND_NO_TEXT, JobEvent.LOSE_ATTEMPT, JobEvent.FAIL]),
        who=st.sampled_from(["node", "node", "liar", "owner"]),
        if_overdue=st.booleans(),
        linger_ms=st.sampled_from([0, 0, 7_000]),
    )
    def end(self, pick: int, event: JobEvent, who: str, if_overdue: bool, linger_ms: int) -> None:
        attempt, epoch = self._pick(pick)
        epoch = {"node": epoch, "liar": "77", "owner": ""}[who]
        self._ends(attempt, epoch, event, if_overdue=if_overdue, linger_ms=linger_ms)

    @rule()
    def sweep_leases(self) -> None:
        overdue = self.run(self.store.jobs.overdue(0, 1000))
        assert set(overdue) == {attempt for attempt, deadline in self.world.leases.items() if deadline <= self.now}
        for attempt in overdue:
            end = partial(self.store.jobs.end, attempt, "", JobEvent.LOSE_ATTEMPT, "lease_over", if_overdue=True)
            said = self.ask(end)
            assert said.outcome == self.world.end(attempt, "", "RETRYING", if_overdue=True, linger_ms=0, now=self.now)

    @rule(node_id=nodes, job=st.integers(1, 4), link=links)
    def adopt(self, node_id: str, job: int, link: str) -> None:
        job_id = f"job-0-{job}"
        reported = [Attempt(job_id, ADOPTED, node_id, 0)]
        adopted = self.run(self.store.ledger.adopt(0, Owner("i", link), node_id, reported, 6_000))
        node = self.world.nodes.get(node_id)
        current = {a for a, deadline in self.world.leases.items() if deadline > self.now}
        accounted = any(a.job_id == job_id and a.node_id == node_id for a in current)
        own = Attempt(job_id, 0, node_id, 0)
        if node is None or node.link != link:
            assert adopted is None
            return
        assert adopted == ([] if accounted else [job_id])
        if not accounted or own in current:
            self.world.leases[own] = self.now + 6_000

    @rule(ms=st.sampled_from([1, 1, 999, 4_999, 5_000, 5_000, 10_000, 30_000]))
    def time_passes(self, ms: int) -> None:
        self.clock.pass_ms(ms)

    @precondition(lambda self: any(node.in_pools and node.takes for node in self.world.nodes.values()))
    @rule(late_ms=st.integers(0, 1))
    def a_working_node_falls_silent(self, late_ms: int) -> None:
        """Time passes up to the moment when it counts as dead; then somebody wants a node."""
        working = [node.alive_until for node in self.world.nodes.values() if node.in_pools and node.takes]
        self.clock.pass_ms(max(0, max(working) - 1 + late_ms - self.now))
        self.dispatch(POOLS[0], both=False)

    @rule(node_id=nodes)
    def a_busy_node_lowers_its_limit(self, node_id: str) -> None:
        """It fills up, then allows less than it holds, then lets go of one."""
        self.register(node_id, frozenset(POOLS), 4, "", "c1", acknowledges=False, takes=True)
        for _ in range(4 - self.world.held(node_id)):
            self.dispatch_to_some(tuple(other for other in NODES if other != node_id))
        self.change(node_id, frozenset(POOLS), 1, "c1", takes=True)
        attempt = min(attempt for attempt in self.world.leases if attempt.node_id == node_id)
        self._says(attempt, JobEvent.FINISH, lie=False)

    def teardown(self) -> None:
        assert self.run(self.store.ledger.rebuild(0)) == 0, "the ledger had drifted"

    def _pick(self, pick: int) -> tuple[Attempt, str]:
        """Any attempt that ever was, more often a late one."""
        return self.attempts[-1 - pick % len(self.attempts)]

    @invariant()
    def redis_agrees(self) -> None:
        self.run(self._compare())

    async def _compare(self) -> None:
        keys, line, world = self.store.keys.shard(0), self.store.line, self.world
        leases, held, free, limits, seen, summary, sick, trouble, wide, *members = await asyncio.gather(
            line.call("ZRANGE", keys.leases, 0, -1, "WITHSCORES"),
            line.call("ZRANGE", keys.held, 0, -1, "WITHSCORES"),
            line.call("ZRANGE", keys.free, 0, -1, "WITHSCORES"),
            line.call("HGETALL", keys.limits),
            line.call("ZRANGE", keys.seen, 0, -1, "WITHSCORES"),
            line.call("HGETALL", keys.summary),
            line.call("ZRANGE", keys.sick, 0, -1, "WITHSCORES"),
            line.call("HGETALL", keys.trouble),
            line.call("HKEYS", keys.wide),
            *(line.call("SMEMBERS", keys.pool(pool)) for pool in (*POOLS, WIDE)),
        )
        assert as_numbers(leases) == {attempt.lease: deadline for attempt, deadline in world.leases.items()}
        holders = {attempt.node_id for attempt in world.leases}
        assert as_numbers(held) == {node_id: world.held(node_id) for node_id in holders}
        assert as_numbers(free) == {n: world.free(n) for n in world.nodes if world.free(n) is not None}
        assert as_numbers(limits) == {node_id: node.limit for node_id, node in world.nodes.items()}
        assert as_numbers(seen) == {node_id: node.alive_until for node_id, node in world.nodes.items()}
        assert [set(found) for found in members] == [world.members(pool) for pool in (*POOLS, WIDE)]
        assert wide == ([WIDE] if world.members(WIDE) else []), (
            "a wide pool without a definition, or the other way round"
        )
        assert as_numbers(summary) == {pool: len(world.members(pool)) for pool in (*POOLS, WIDE) if world.members(pool)}
        assert as_numbers(sick) == world.sick
        assert dict(zip(trouble[::2], trouble[1::2], strict=True)) == {
            node_id: f"{entry.outcomes} {entry.times} {entry.since}" for node_id, entry in world.trouble.items()
        }
        live = [job for job in world.jobs.values() if job.state in LIVE]
        records = await asyncio.gather(*(line.call("GET", keys.job(job.attempt.job_id)) for job in live))
        assert [fields_of(record)["state"] for record in records] == [job.state for job in live]


def defined(node: NodeEntry) -> NodeEntry:
    return node._replace(reach=wide_entry("any").reach) if WIDE in node.pools else node


def as_numbers(flat: list[str]) -> dict[str, int]:
    return {name: int(float(value)) for name, value in zip(flat[::2], flat[1::2], strict=True)}


@contextmanager
def machine_on(server: RedisProcess) -> Iterator[type[LedgerMachine]]:
    """The machine, ready to live on this server."""
    loop = asyncio.new_event_loop()
    clock = Clock()
    store = Store(server.url, key_prefix="model:v1", clock=clock)
    loop.run_until_complete(store.open())
    LedgerMachine.server, LedgerMachine.loop, LedgerMachine.store, LedgerMachine.clock = server, loop, store, clock
    try:
        yield LedgerMachine
    finally:
        loop.run_until_complete(store.close())
        loop.close()


@pytest.mark.timeout(3600)
def test_redis_agrees_with_the_model_whatever_happens(shipped_server: RedisProcess) -> None:
    with machine_on(shipped_server) as machine:
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=max(1, STEPS // STEPS_PER_LIFE),
                stateful_step_count=STEPS_PER_LIFE,
                deadline=None,
                print_blob=True,
                suppress_health_check=list(HealthCheck),
            ),
        )
