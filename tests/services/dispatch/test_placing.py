"""Placing a job: the node that was asked for, the one that is remembered, and what happens when it cannot."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest

from lingua_scheduler.domain.jobs.attempts import Attempt, DispatchOutcome, Try
from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.domain.pools.lanes import Lane, Lanes, Whose
from lingua_scheduler.domain.pools.pools import Admission
from lingua_scheduler.domain.pools.selection import PoolMap
from lingua_scheduler.services.attempts.assignments import Assignments
from lingua_scheduler.services.attempts.ending import Endings
from lingua_scheduler.services.attempts.work import NO_WISH as WITHOUT_WISH
from lingua_scheduler.services.attempts.work import Binding, Wish, Work
from lingua_scheduler.services.cluster.leadership import Leadership
from lingua_scheduler.services.cluster.pool_map import PoolMapCopy
from lingua_scheduler.services.dispatch import placing, recording
from lingua_scheduler.services.dispatch.explaining import Explainer
from lingua_scheduler.services.dispatch.placing import Placed, Placer
from lingua_scheduler.services.dispatch.recording import Recorder
from lingua_scheduler.services.dispatch.waiting import WaitingRoom, node_queue, retry_queue
from lingua_scheduler.store.connection import NotDone, RedisAway
from lingua_scheduler.store.jobs.jobs import Dispatched, JobNote, JobOrder
from lingua_scheduler.store.jobs.records import JobFilter
from lingua_scheduler.store.store import Store
from tests.support.fleet import HERE, POOL, RULES, entry, join, ledger, order
from tests.support.schedulers import settings_with
from tests.support.speech import work
from tests.support.waiting import until

NODES = ("n1", "n2", "n3")
NO_WISH = Wish()


class Desk:
    """A placer on a real Redis, with what it needs around it."""

    def __init__(self, store: Store, **settings: object) -> None:
        self.store = store
        self.waiting = WaitingRoom(100, 10.0)
        pool_map = PoolMapCopy(store.pools, Leadership("i-here", store.pools, 1_000))
        explainer = Explainer(store, pool_map, Admission.STRICT)
        self.recorder = Recorder("i-here", store, pool_map, explainer, 60_000)
        given = settings_with(**settings)
        endings = Endings("i-here", store.jobs, Assignments(lambda _step, _assignment: None), given.nodes)
        self.placer = Placer("i-here", store, pool_map, self.waiting, self.recorder, endings, given)
        self._serial = 0

    async def place(
        self,
        wish: Wish = NO_WISH,
        binding: Binding | None = None,
        tried: tuple[str, ...] = (),
        wanted: Try | None = None,
    ) -> Placed:
        self._serial += 1
        wanted = wanted or Try(1 + len(tried), f"x-{self._serial}", 30_000, tried=tried)
        return await self.placer.place(work(binding=binding, wish=wish), wanted)

    async def end(self, placed: Placed) -> None:
        assert placed.attempt is not None
        assert placed.dispatched is not None
        await self.store.jobs.end(placed.attempt, placed.dispatched.epoch, JobEvent.FINISH)
        self.waiting.slot_freed(placed.attempt.node_id, {POOL})


def node_of(placed: Placed) -> str:
    assert placed.attempt is not None, placed.outcome
    return placed.attempt.node_id


@pytest.fixture
async def desk(store: Store) -> Desk:
    for node in NODES:
        await join(store, entry(node, max_jobs=1))
    return Desk(store, dispatch__queue_wait_ms=200)


async def test_the_node_that_was_asked_for_is_taken(desk: Desk) -> None:
    for node in NODES:
        assert node_of(await desk.place(Wish(preferred_node=node))) == node


async def test_a_preference_that_is_busy_is_served_elsewhere(desk: Desk) -> None:
    await desk.place(Wish(preferred_node="n1"))
    assert node_of(await desk.place(Wish(preferred_node="n1"))) != "n1"
    assert node_of(await desk.place(Wish(preferred_node="nobody"))) in NODES


async def test_a_strict_preference_waits_for_its_node_and_for_no_other(desk: Desk) -> None:
    strict = Wish(preferred_node="n1", is_strict=True)
    first = await desk.place(strict)
    second = asyncio.create_task(desk.place(strict))
    await until(lambda: len(desk.waiting) == 1)
    await desk.end(first)
    assert node_of(await second) == "n1"
    assert (await desk.place(strict)).outcome is DispatchOutcome.FULL  # its wait is over
    missing = Wish(preferred_node="nobody", is_strict=True)
    assert (await desk.place(missing)).outcome is DispatchOutcome.UNFIT


async def test_an_affinity_key_remembers_its_node(desk: Desk) -> None:
    first = await desk.place(Wish(affinity_key="anna"))
    for _ in range(5):
        await desk.end(first)
        first, before = await desk.place(Wish(affinity_key="anna")), node_of(first)
        assert node_of(first) == before
    assert node_of(await desk.place(Wish(affinity_key="anna"))) != node_of(first)  # busy, so elsewhere


async def test_an_affinity_key_is_bound_anew_when_its_node_is_gone(desk: Desk) -> None:
    bound = node_of(await desk.place(Wish(affinity_key="anna")))
    await desk.store.nodes.remove(0, HERE, bound, frozenset({POOL}))
    other = node_of(await desk.place(Wish(affinity_key="anna")))
    assert other != bound
    assert await desk.store.affinity.read("anna") == (other, 0)


async def test_a_slot_is_used_though_its_affinity_key_could_not_be_bound(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise RedisAway("gone at that moment")

    monkeypatch.setattr(desk.store.affinity, "bind", fail)
    placed = await desk.place(Wish(affinity_key="anna"))
    assert placed.outcome is DispatchOutcome.DISPATCHED
    await desk.end(placed)
    assert await ledger(desk.store, node_of(placed)) == (0, 1, 0)


async def test_a_binding_expires(store: Store) -> None:
    await join(store, entry("n1"))
    desk = Desk(store, selection__affinity_ttl_ms=50)
    await desk.place(Wish(affinity_key="anna"))
    assert await store.affinity.read("anna") == ("n1", 0)

    async def is_forgotten() -> bool:
        return await store.affinity.read("anna") is None

    await until(is_forgotten)


async def test_two_keys_share_nothing(desk: Desk) -> None:
    await desk.place(Wish(affinity_key="anna"))
    assert await desk.store.affinity.read("bert") is None


async def test_a_turn_waits_for_its_node_while_others_are_free(desk: Desk) -> None:
    turn = Binding()
    first = await desk.place(binding=turn)
    assert turn.node_id == node_of(first)
    second = asyncio.create_task(desk.place(binding=turn))
    await until(lambda: len(desk.waiting) == 1)
    await desk.end(first)
    assert node_of(await second) == node_of(first)


async def test_a_turn_whose_node_failed_the_job_is_bound_to_another(desk: Desk) -> None:
    turn = Binding()
    failed = node_of(await desk.place(binding=turn))
    other = node_of(await desk.place(binding=turn, tried=(failed,)))
    assert other != failed
    assert turn.node_id == other


@pytest.mark.parametrize(
    ("bound", "tried", "queue"),
    [
        ("", (), POOL),
        ("", ("n1",), retry_queue(POOL)),
        ("n2", (), node_queue("n2")),
        ("n2", ("n1",), node_queue("n2")),
        ("n1", ("n1",), retry_queue(POOL)),
    ],
)
async def test_a_job_waits_behind_those_that_wait_for_the_same_nodes(
    desk: Desk, bound: str, tried: tuple[str, ...], queue: str
) -> None:
    """A retry excludes some nodes: a slot that is of no use to it must not go to it alone."""
    busy = [await desk.place() for _ in NODES]
    waiting = asyncio.create_task(desk.place(binding=Binding(bound, 0 if bound else -1), tried=tried))
    await until(lambda: len(desk.waiting) == 1)
    assert list(desk.waiting._queues) == [queue]
    for placed in busy:
        await desk.end(placed)
    assert node_of(await waiting) not in tried


async def test_slots_freed_by_another_instance_serve_the_whole_line_at_the_next_poke(store: Store) -> None:
    await join(store, entry("n1", max_jobs=5))
    desk = Desk(store)
    held = [await desk.place() for _ in range(5)]
    waiting = [asyncio.create_task(desk.place()) for _ in range(5)]
    await until(lambda: len(desk.waiting) == 5)
    for placed in held:  # as somebody else would: nobody tells this waiting room
        assert placed.attempt is not None
        await store.jobs.end(placed.attempt, "", JobEvent.FINISH)
    desk.waiting.poke()
    async with asyncio.timeout(9):  # by themselves they would go after ten
        assert [node_of(placed) for placed in await asyncio.gather(*waiting)] == ["n1"] * 5


async def test_a_quarantined_node_alone_in_its_shard_is_left_alone_while_others_serve(store: Store) -> None:
    await join(store, entry("bad"), shard=0)
    await join(store, entry("good", max_jobs=20), shard=1)
    for shard in (0, 1):
        await store.line.call("ZADD", store.keys.load, 1, shard)
    await store.line.call("ZADD", store.keys.shard(0).sick, int(time.time() * 1000) + 60_000, "bad")
    desk = Desk(store, dispatch__queue_wait_ms=50)
    assert {node_of(await desk.place()) for _ in range(20)} == {"good"}
    # Busy or not, the good one is worth waiting for; when it has failed this very job, the bad one is better than none.
    assert (await desk.place()).outcome is DispatchOutcome.FULL
    assert node_of(await desk.place(tried=("good",))) == "bad"
    await store.nodes.remove(1, HERE, "good", frozenset({POOL}))
    assert node_of(await desk.place()) == "bad"


async def in_two_shards(store: Store) -> Desk:
    """Shard 0 has no slot left, shard 1 has one."""
    for shard in (0, 1):
        await store.placements.assign(f"n{shard}", 1, 1000)
        await store.nodes.register(shard, HERE, entry(f"n{shard}", max_jobs=1))
    await store.jobs.dispatch(0, order("other"), RULES)
    return Desk(store)


async def test_a_job_that_waited_goes_on_in_another_shard_and_is_found_there(store: Store) -> None:
    desk = await in_two_shards(store)
    await store.jobs.note(0, JobNote("job-0-w", (POOL,), "s-00000001", 0, "i-here"), 60_000)
    wanted = Try(1, "w", 30_000, job_id="job-0-w", shard=0)
    assert node_of(await desk.place(wanted=wanted)) == "n1"
    found = await store.jobs.find("job-0-w")
    assert found is not None
    assert (found.shard, found.node_id, found.state) == (1, "n1", "DISPATCHED")


@pytest.mark.parametrize("number", [1, 2])
async def test_a_job_cancelled_where_it_was_is_not_placed_in_another_shard(store: Store, number: int) -> None:
    """The signal may be lost, and the other shard knows nothing of the job."""
    desk = await in_two_shards(store)
    job_id = "job-0-w"
    if number == 1:
        await store.jobs.note(0, JobNote(job_id, (POOL,), "s-00000001", 0, "i-here"), 60_000)
    else:
        await store.jobs.end(Attempt("job-0-other", 1, "n0", 0), "", JobEvent.LOSE_ATTEMPT)
        job_id = "job-0-other"
        await store.jobs.dispatch(0, order("third"), RULES)  # so that shard 1 has the only slot
    record = await store.jobs.find(job_id)
    assert record is not None
    await store.jobs.cancel(record, 0)
    tried = ("n0",) if number == 2 else ()
    placed = await desk.place(wanted=Try(number, "w", 30_000, job_id=job_id, shard=0, tried=tried))
    assert placed.outcome is DispatchOutcome.STALE
    assert placed.attempt is None
    assert await ledger(store, "n1", 1) == (0, 1, 0)
    assert (await store.jobs.find(job_id)) is not None


@pytest.mark.parametrize("error", [RedisAway, NotDone])
@pytest.mark.parametrize("call", ["leave_pointer", "is_cancelled"])
async def test_a_slot_in_another_shard_is_used_though_the_former_shard_is_away(
    store: Store, monkeypatch: pytest.MonkeyPatch, error: type[RedisAway], call: str
) -> None:
    async def fail(*_: object) -> None:
        raise error("the server of the former shard is gone")

    for shard in (1, 2):
        await store.placements.assign(f"n{shard}", 1, 1000)
        await store.nodes.register(shard, HERE, entry(f"n{shard}", max_jobs=1))
        await store.line.call("ZADD", store.keys.load, 1, shard)
    monkeypatch.setattr(store.jobs, call, fail)
    wanted = Try(2, "w", 30_000, job_id="job-0-w", shard=0, tried=("n0",))
    placed = await Desk(store).place(wanted=wanted)
    assert placed.outcome is DispatchOutcome.DISPATCHED
    assert sorted([await ledger(store, "n1", 1), await ledger(store, "n2", 2)]) == [(0, 1, 0), (1, 0, 1)]
    assert wanted.doubtful == ()


async def test_a_cancelled_job_whose_slot_could_not_be_freed_leaves_it_to_be_freed_later(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise RedisAway("gone at that moment")

    await store.placements.assign("n1", 1, 1000)
    await store.nodes.register(1, HERE, entry("n1", max_jobs=1))
    await store.line.call("ZADD", store.keys.load, 1, 1)
    await store.jobs.note(0, JobNote("job-0-w", (POOL,), "s-00000001", 0, "i-here"), 60_000)
    record = await store.jobs.find("job-0-w")
    assert record is not None
    await store.jobs.cancel(record, 0)
    monkeypatch.setattr(store.jobs, "end", fail)
    wanted = Try(1, "w", 30_000, job_id="job-0-w", shard=0)
    assert (await Desk(store).place(wanted=wanted)).outcome is DispatchOutcome.STALE
    assert wanted.doubtful == (1,)


async def test_a_job_that_waits_can_be_sent_away_by_its_id(store: Store) -> None:
    await join(store, entry("n1", max_jobs=1))
    desk = Desk(store)
    await desk.place()
    wanted = Try(1, "w", 30_000)
    waiting = asyncio.create_task(desk.place(wanted=wanted))
    await until(lambda: len(desk.waiting) == 1)
    assert wanted.job_id == "job-0-w"
    desk.waiting.dismiss("job-0-somebody-else")
    assert len(desk.waiting) == 1
    desk.waiting.dismiss(wanted.job_id)
    async with asyncio.timeout(9):  # by itself it would go after ten
        assert (await waiting).outcome is DispatchOutcome.FULL
    assert len(desk.waiting) == 0


async def test_a_flood_of_waiting_jobs_is_written_down_only_in_part(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "RECORDS_PER_S", 2)
    await join(store, entry("n1", max_jobs=1))
    desk = Desk(store, dispatch__queue_wait_ms=100)
    await desk.place()
    tries = [Try(1, f"w{serial}", 30_000) for serial in range(10)]
    await asyncio.gather(*(desk.place(wanted=wanted) for wanted in tries))
    assert 2 <= sum(wanted.job_id != "" for wanted in tries) < 10
    assert len(await store.jobs.latest(JobFilter("CREATED"))) == sum(wanted.job_id != "" for wanted in tries)


# When the last node of a pair has gone


async def leave(store: Store, *nodes: str) -> None:
    for node in nodes:
        await store.nodes.remove(0, HERE, node, frozenset({POOL}))


async def poked(desk: Desk, placing: "asyncio.Task[Placed]") -> Placed:
    """Now and then, as the scheduler does."""

    def poke() -> bool:
        desk.waiting.poke()
        return placing.done()

    await until(poke)
    return await placing


async def test_a_pair_nobody_ever_served_is_refused_at_once(store: Store) -> None:
    desk = Desk(store)
    assert (await desk.place()).outcome is DispatchOutcome.NOBODY


async def test_a_pair_that_was_served_lately_is_waited_for(store: Store) -> None:
    await join(store, entry("n1"))
    desk = Desk(store)
    await desk.end(await desk.place())
    await leave(store, "n1")
    placing = asyncio.create_task(desk.place())
    await until(lambda: len(desk.waiting) == 1)
    await join(store, entry("n1"))
    assert node_of(await poked(desk, placing)) == "n1"


async def test_who_has_waited_in_vain_for_a_pair_is_told_that_nobody_serves_it(desk: Desk, store: Store) -> None:
    await desk.end(await desk.place())
    await leave(store, *NODES)
    assert (await desk.place()).outcome is DispatchOutcome.NOBODY


async def test_a_session_of_an_instance_that_is_gone_waits_for_its_nodes_too(store: Store) -> None:
    desk = Desk(store)
    adopted = work(node_session_id="s-00000001-1", is_adopted=True)
    placing = asyncio.create_task(desk.placer.place(adopted, Try(1, "x-1", 30_000)))
    await until(lambda: len(desk.waiting) == 1)
    await join(store, entry("n1"))
    assert node_of(await poked(desk, placing)) == "n1"


async def test_of_too_many_pairs_that_were_served_all_are_forgotten_and_no_sooner(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placing, "MAX_REMEMBERED_POOLS", 2)
    for name in ("a", "b", "b", "a"):
        desk.placer._remember((name,))
    assert set(desk.placer._served_at_s) == {("a",), ("b",)}
    desk.placer._remember(("c",))
    assert set(desk.placer._served_at_s) == {("c",)}


# Settling, and what is worth waiting for


async def test_nothing_is_placed_until_redis_knows_again_what_our_nodes_run(desk: Desk) -> None:
    desk.placer.settled.clear()
    placing_it = asyncio.create_task(desk.place())
    await asyncio.sleep(0.05)
    assert not placing_it.done()
    desk.placer.settled.set()
    assert (await placing_it).outcome is DispatchOutcome.DISPATCHED


async def test_it_is_placed_though_redis_does_not_settle_in_time(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placing, "SETTLE_S", 0.01)
    desk.placer.settled.clear()
    assert (await desk.place()).outcome is DispatchOutcome.DISPATCHED


@pytest.mark.parametrize(
    ("outcome", "number", "is_adopted", "ago_s", "is_worth"),
    [
        (DispatchOutcome.FULL, 1, False, None, True),
        (DispatchOutcome.BUSY, 1, False, None, True),
        (DispatchOutcome.EXHAUSTED, 2, True, 0.0, False),
        (DispatchOutcome.NOBODY, 1, False, None, False),
        (DispatchOutcome.NOBODY, 2, False, None, True),
        (DispatchOutcome.NOBODY, 1, True, None, True),
        (DispatchOutcome.NOBODY, 1, False, 30.0 - 0.1, True),
        (DispatchOutcome.NOBODY, 1, False, 30.0, False),
    ],
)
def test_what_is_worth_waiting_for(
    desk: Desk, outcome: DispatchOutcome, number: int, is_adopted: bool, ago_s: float | None, is_worth: bool
) -> None:
    asked, now_s = work(is_adopted=is_adopted), 1_000.0
    desk.placer._clock = lambda: now_s
    if ago_s is not None:
        desk.placer._remember(asked.pools)
        now_s += ago_s
    assert desk.placer._is_worth_waiting(outcome, asked, Try(number, "x-1", 30_000)) is is_worth


async def test_a_record_is_kept_longer_than_the_longest_attempt(store: Store) -> None:
    short = Desk(store, job__keep_ms=60_000, job__timeout_max_ms=50_000, job__deadline_ms=70_000)
    settings = settings_with(job__keep_ms=60_000, job__timeout_max_ms=50_000, job__deadline_ms=70_000).job
    assert short.placer._rules.keep_ms == settings.reservation_ttl_ms + 70_000 + 60_000
    assert short.placer._rules.ack_ms == settings.reservation_ttl_ms
    assert short.placer._queue_wait_s == settings_with().dispatch.queue_wait_ms / 1000
    long = Desk(store, job__keep_ms=86_400_000)
    assert long.placer._rules.keep_ms == 86_400_000


async def test_the_binding_of_a_turn_follows_the_node_that_took_the_job(desk: Desk) -> None:
    binding = Binding()
    placed = await desk.place(binding=binding)
    assert placed.attempt is not None
    assert (binding.node_id, binding.shard) == (placed.attempt.node_id, placed.attempt.shard)
    # What sticks to a node that is gone finds another one.
    gone = Binding("nobody", 0)
    placed = await desk.place(binding=gone)
    assert placed.attempt is not None
    assert gone.node_id == placed.attempt.node_id


async def test_a_node_that_is_nowhere_is_not_waited_for(desk: Desk) -> None:
    placed = await desk.place(Wish(preferred_node="nobody", is_strict=True))
    assert (placed.outcome, placed.attempt) == (DispatchOutcome.UNFIT, None)
    assert (await desk.place(Wish(preferred_node="nobody"))).attempt is not None


# From shard to shard, as each answers


class Shards:
    """A pool map and the answers of its shards, one after the other; it keeps who was asked and how."""

    def __init__(self, *shards: int) -> None:
        self.map = self.pools = self.jobs = self
        self.shards = shards
        self.has_private = False
        self.answers: dict[int, list[DispatchOutcome | Exception]] = {}
        self.asked: list[tuple[int, str, bool, bool]] = []
        self.wide: list[str] = []
        self.looks = 0
        self.on_look: Callable[[], None] = lambda: None

    def lanes(self, _whose: Whose) -> Lanes:
        return (self.lane,)

    @property
    def lane(self) -> Lane:
        return Lane(cast("PoolMap", self))

    def first_shard(self, _pool: str, _dice: float) -> tuple[int, bool] | None:
        return (self.shards[0], len(self.shards) == 1) if self.shards else None

    def other_shards(self, _pool: str, first: int) -> list[int]:
        return [shard for shard in self.shards if shard != first]

    def wide_in(self, _shard: int, _pools: object) -> list[str]:
        return list(self.wide)

    async def look_again(self) -> None:
        self.looks += 1
        self.on_look()

    look_anew = look_again

    async def dispatch(self, shard: int, order: JobOrder, _rules: object) -> Dispatched:
        self.asked.append((shard, order.preferred, order.only_preferred, order.is_last_resort))
        answer = self.answers[shard].pop(0) if self.answers.get(shard) else DispatchOutcome.DISPATCHED
        if isinstance(answer, Exception):
            raise answer
        return Dispatched(answer, node_id=f"n{shard}")


FULL, SICK, NOBODY_HERE = DispatchOutcome.FULL, DispatchOutcome.SICK, DispatchOutcome.NOBODY
DISPATCHED, BUSY, UNFIT = DispatchOutcome.DISPATCHED, DispatchOutcome.BUSY, DispatchOutcome.UNFIT
AWAY = NotDone("away")


def placer_on(desk: Desk, shards: Shards) -> Placer:
    placer: Any = desk.placer
    placer._pool_map = shards
    placer._store = shards
    result: Placer = placer
    return result


@pytest.mark.parametrize(
    ("answers", "asked", "outcome", "node_id"),
    [
        ({}, [1], DISPATCHED, "n1"),
        ({1: [FULL]}, [1, 2], DISPATCHED, "n2"),
        ({1: [NOBODY_HERE]}, [1, 2], DISPATCHED, "n2"),
        ({1: [FULL], 2: [NOBODY_HERE], 3: [NOBODY_HERE]}, [1, 2, 3], FULL, None),
        ({1: [NOBODY_HERE], 2: [FULL], 3: [NOBODY_HERE]}, [1, 2, 3], FULL, None),
        # The first that is only sick is asked again, when no other has a better node, busy or not.
        ({1: [NOBODY_HERE], 2: [SICK], 3: [SICK]}, [1, 2, 3, 2], DISPATCHED, "n2"),
        ({1: [SICK], 2: [NOBODY_HERE], 3: [NOBODY_HERE]}, [1, 2, 3, 1], DISPATCHED, "n1"),
        ({1: [SICK], 2: [FULL], 3: [NOBODY_HERE]}, [1, 2, 3], FULL, None),
        # A shard whose server is away is passed over.
        ({1: [AWAY], 2: [NOBODY_HERE]}, [1, 2, 3], DISPATCHED, "n3"),
        ({1: [FULL], 2: [AWAY]}, [1, 2, 3], DISPATCHED, "n3"),
    ],
)
async def test_the_shards_of_a_pool_are_asked_until_one_has_a_node(
    desk: Desk, answers: dict[int, list[Any]], asked: list[int], outcome: DispatchOutcome, node_id: str | None
) -> None:
    shards = Shards(1, 2, 3)
    shards.answers = {shard: list(given) for shard, given in answers.items()}
    placed = await placer_on(desk, shards)._shard_by_shard(shards.lane, work(), Try(1, "x-1", 30_000))
    assert (placed.outcome, placed.attempt.node_id if placed.attempt else None) == (outcome, node_id)
    assert [shard for shard, *_ in shards.asked] == asked
    # Only the last to be asked may give it to a node that is sick.
    again = len(asked) - len(set(asked))
    assert [is_last for *_, is_last in shards.asked] == [False] * len(set(asked)) + [True] * again


@pytest.mark.parametrize(
    "answers", [{1: [AWAY]}, {1: [AWAY], 2: [NOBODY_HERE]}, {1: [FULL], 2: [AWAY]}, {1: [AWAY], 2: [AWAY]}]
)
async def test_a_shard_that_is_away_is_told_when_no_other_has_a_node(desk: Desk, answers: dict[int, list[Any]]) -> None:
    shards = Shards(*sorted(answers))
    shards.answers = {shard: list(given) for shard, given in answers.items()}
    with pytest.raises(NotDone):
        await placer_on(desk, shards)._shard_by_shard(shards.lane, work(), Try(1, "x-1", 30_000))
    assert len(shards.asked) == len(answers)


async def test_the_only_shard_may_use_a_sick_node_and_an_outcome_names_its_shard(desk: Desk) -> None:
    shards = Shards(7)
    shards.answers = {7: [BUSY]}
    placed = await placer_on(desk, shards)._shard_by_shard(shards.lane, work(), Try(1, "x-1", 30_000))
    assert (placed.outcome, placed.shard, shards.asked) == (BUSY, 7, [(7, "", False, True)])
    nowhere = await placer_on(desk, Shards())._shard_by_shard(Shards().lane, work(), Try(1, "x-1", 30_000))
    assert (nowhere.outcome, nowhere.shard) == (NOBODY_HERE, -1)


async def test_an_answer_that_got_lost_makes_its_shard_doubtful(desk: Desk) -> None:
    shards, wanted = Shards(7), Try(1, "x-1", 30_000)
    shards.answers = {7: [RedisAway("lost"), NotDone("refused")]}
    placer = placer_on(desk, shards)
    with pytest.raises(RedisAway):
        await placer._shard_by_shard(shards.lane, work(), wanted)
    assert wanted.doubtful == (7,)
    with pytest.raises(NotDone):
        await placer._shard_by_shard(shards.lane, work(), wanted)
    assert wanted.doubtful == (7,)


@pytest.mark.parametrize(("recalls", "looks", "outcome"), [(False, 1, NOBODY_HERE), (True, 2, DISPATCHED)])
async def test_before_it_says_that_nobody_is_there_the_map_is_read_and_nodes_are_recalled(
    desk: Desk, recalls: bool, looks: int, outcome: DispatchOutcome
) -> None:
    shards = Shards(1)
    shards.answers = {1: [NOBODY_HERE, NOBODY_HERE]}
    placer = placer_on(desk, shards)

    async def recall(pools: tuple[str, ...]) -> bool:
        assert pools == work().pools
        return recalls

    placer.recall = recall
    placed = await placer._anywhere(work(), Try(1, "x-1", 30_000))
    assert (placed.outcome, shards.looks) == (outcome, looks)


async def test_a_map_that_was_old_is_read_again_before_nodes_are_recalled(desk: Desk) -> None:
    shards = Shards()
    placer = placer_on(desk, shards)

    def come() -> None:
        shards.shards = (4,)

    shards.on_look = come
    placed = await placer._anywhere(work(), Try(1, "x-1", 30_000))
    assert (placed.outcome, shards.looks) == (DISPATCHED, 1)


@pytest.mark.parametrize(
    ("wish", "is_new", "answers", "asked"),
    [
        # A wide node that came a moment ago: asked again only if the map has changed for it.
        (Wish("n5"), True, [UNFIT, DISPATCHED], [(5, "n5", True, True)] * 2),
        (Wish("n5"), False, [UNFIT], [(5, "n5", True, True)]),
        (Wish(affinity_key="k"), True, [UNFIT], [(5, "n5", True, True)]),
        # One that is busy is passed over, unless it must be that one.
        (Wish("n5"), False, [BUSY], [(5, "n5", True, True), (1, "", False, True)]),
        (Wish(affinity_key="k"), False, [BUSY], [(5, "n5", True, True), (1, "", False, True)]),
        (Wish("n5", is_strict=True), False, [BUSY], [(5, "n5", True, True)]),
        (NO_WISH, False, [BUSY], [(5, "n5", True, True)]),
    ],
)
async def test_the_node_that_is_bound_is_asked_first(
    desk: Desk, wish: Wish, is_new: bool, answers: list[Any], asked: list[Any]
) -> None:
    shards = Shards(1)
    shards.answers = {5: list(answers)}
    if is_new:
        shards.on_look = lambda: shards.wide.append("wide")
    await placer_on(desk, shards)._on(Binding("n5", 5), work(wish=wish), Try(1, "x-1", 30_000))
    assert shards.asked == asked


# Private nodes

PRIVATE = f"{POOL}@acme"


@pytest.fixture
async def shared(store: Store) -> Desk:
    """A public node, and a private one of acme, each with a slot."""
    await join(store, entry("public", max_jobs=1))
    await join(store, entry("own", pools=frozenset({PRIVATE}), max_jobs=1))
    desk = Desk(store, dispatch__queue_wait_ms=200)
    await desk.placer._pool_map.refresh()
    return desk


def job(tenant: str, wish: Wish = NO_WISH, **more: Any) -> Work:
    return msgspec.structs.replace(work(wish=wish, **more), belongs_to="x", tenant_id=tenant)


async def placed_for(desk: Desk, asked: Work, tried: tuple[str, ...] = ()) -> Placed:
    desk._serial += 1
    return await desk.placer.place(asked, Try(1 + len(tried), f"x-{desk._serial}", 30_000, tried=tried))


async def test_a_tenants_job_goes_to_its_private_node_first_and_then_to_a_public_one(shared: Desk) -> None:
    assert node_of(await placed_for(shared, job("acme"))) == "own"
    assert node_of(await placed_for(shared, job("acme"))) == "public"
    assert (await placed_for(shared, job("acme"))).outcome is DispatchOutcome.FULL


async def test_a_job_of_another_tenant_never_goes_there(shared: Desk) -> None:
    assert node_of(await placed_for(shared, job("beta"))) == "public"
    assert (await placed_for(shared, job("beta"))).outcome is DispatchOutcome.FULL
    # Neither by its name, nor by a tenant that a caller without a credential names.
    for asked in (
        job("beta", Wish("own", is_strict=True)),
        msgspec.structs.replace(job("acme", Wish("own", is_strict=True)), belongs_to=""),
    ):
        assert (await placed_for(shared, asked)).outcome is DispatchOutcome.UNFIT


async def test_the_quick_way_is_for_public_jobs_alone(shared: Desk) -> None:
    assert shared.placer.aim(job("acme", WITHOUT_WISH)) is None
    assert shared.placer.aim(job("beta", WITHOUT_WISH)) is not None
    assert shared.placer.aim(work(wish=WITHOUT_WISH)) is not None


async def test_a_private_node_is_preferred_bound_and_tried_again_like_any_other(shared: Desk) -> None:
    assert node_of(await placed_for(shared, job("acme", Wish("public")))) == "public"
    assert node_of(await placed_for(shared, job("acme", Wish("own", is_strict=True)))) == "own"
    bound = Binding("own", 0)
    assert (await placed_for(shared, job("acme", binding=bound))).outcome is DispatchOutcome.FULL
    assert (await placed_for(shared, job("acme"), tried=("own", "public"))).outcome is DispatchOutcome.EXHAUSTED


async def test_a_tenant_with_private_nodes_only_never_gets_a_public_one(shared: Desk, store: Store) -> None:
    shared.placer._pool_map.private_only = {"acme", "beta"}
    assert node_of(await placed_for(shared, job("acme"))) == "own"
    assert (await placed_for(shared, job("acme"))).outcome is DispatchOutcome.FULL
    assert (await placed_for(shared, job("beta"))).outcome is DispatchOutcome.NOBODY
    assert (await placed_for(shared, job("acme"), tried=("own",))).outcome is DispatchOutcome.EXHAUSTED
    await store.nodes.remove(0, HERE, "own", frozenset({PRIVATE}))
    await shared.placer._pool_map.look_anew()
    assert (await placed_for(shared, job("acme", wait_s=0.0))).outcome is DispatchOutcome.NOBODY
    assert node_of(await placed_for(shared, job("gamma"))) == "public"


async def test_a_paired_job_goes_to_its_node_and_no_other(shared: Desk, store: Store) -> None:
    await join(store, entry("spare", pools=frozenset({PRIVATE}), max_jobs=1))
    paired = Wish("own", is_strict=True, paired_tenant="acme")
    assert node_of(await placed_for(shared, job("beta", paired))) == "own"
    assert (await placed_for(shared, job("beta", paired))).outcome is DispatchOutcome.FULL
    assert (await placed_for(shared, job("beta", paired), tried=("own",))).outcome is DispatchOutcome.EXHAUSTED
    gone = paired._replace(preferred_node="nowhere")
    assert (await placed_for(shared, job("beta", gone))).outcome is DispatchOutcome.UNFIT


async def test_the_record_of_a_private_job_names_its_pool(shared: Desk, store: Store) -> None:
    placed = await placed_for(shared, job("acme"))
    assert placed.attempt is not None
    record = await store.jobs.find(placed.attempt.job_id)
    assert record is not None
    assert (record.pools, record.tenant) == ((PRIVATE,), "acme")
