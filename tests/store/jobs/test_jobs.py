"""Jobs and leases in Redis: never oversold, never leaked, never believed twice."""

import asyncio
from collections import Counter
from functools import partial
from itertools import product

import msgspec
import pytest

from lingua_scheduler.domain.jobs.attempts import AdvanceOutcome, Attempt, DispatchOutcome, EndOutcome
from lingua_scheduler.domain.jobs.history import JobStep
from lingua_scheduler.domain.jobs.jobs import JobEvent, JobState, target_of
from lingua_scheduler.domain.nodes.nodes import Features
from lingua_scheduler.domain.nodes.owners import Owner
from lingua_scheduler.store.jobs.records import JobFilter
from lingua_scheduler.store.store import Store
from tests.support.clocks import Clock
from tests.support.fleet import HERE, POOL, RULES, RUN_MS, dispatch, entry, history, join, ledger, order

ENDS = (JobEvent.FINISH, JobEvent.FIND_NO_TEXT, JobEvent.LOSE_ATTEMPT, JobEvent.FAIL, JobEvent.CANCEL)


async def outcome_of(store: Store, wanted) -> DispatchOutcome:  # type: ignore[no-untyped-def]
    return (await store.jobs.dispatch(0, wanted, RULES)).outcome


async def test_fifty_racing_callers_on_three_slots_leave_three_winners(store: Store) -> None:
    await join(store, entry("n1", max_jobs=3))
    outcomes = await asyncio.gather(*(outcome_of(store, order(i)) for i in range(50)))
    assert Counter(outcomes) == {DispatchOutcome.DISPATCHED: 3, DispatchOutcome.FULL: 47}
    assert await ledger(store, "n1") == (3, 0, 3)


async def test_the_record_is_written_with_the_lease(store: Store, clock: Clock) -> None:
    registered = await join(store, entry("n1"))
    attempt, placed = await dispatch(store, order(1))
    assert placed.owner == HERE
    assert placed.epoch == registered.epoch
    record = await store.jobs.read(0, attempt.job_id)
    assert record == {
        "state": "DISPATCHED",
        "attempt": "1",
        "node": "n1",
        "epoch": registered.epoch,
        "run_ms": str(RUN_MS),
        "dispatched_ms": str(clock.now_ms),
        "steps": f"DISPATCHED {clock.now_ms} 1 n1 ",
        "pool": POOL,
        "session": "s-00000001",
        "utterance": "0",
        "owner": "i-here",
    }
    assert await store.line.call("PTTL", store.keys.shard(0).job(attempt.job_id)) > 0


async def test_the_least_loaded_node_wins(store: Store) -> None:
    await join(store, entry("big", max_jobs=8))
    await join(store, entry("small", max_jobs=2))
    chosen = [(await dispatch(store, order(i)))[0].node_id for i in range(10)]
    # A slot of the small one counts as much as four of the big one.
    assert Counter(chosen) == {"big": 8, "small": 2}
    assert set(chosen[:2]) == {"big", "small"}


async def test_jobs_that_wait_for_a_nodes_gpu_are_load(store: Store) -> None:
    await join(store, entry("idle", max_jobs=8))
    await join(store, entry("queue", max_jobs=8))
    await store.nodes.beat(0, HERE, "queue", 45_000, queue=3)
    chosen = [(await dispatch(store, order(serial)))[0].node_id for serial in range(3)]
    assert chosen == ["idle"] * 3
    # It is load, not a limit: a node with a queue still takes what no other can.
    chosen = [(await dispatch(store, order(f"more-{serial}")))[0].node_id for serial in range(13)]
    assert Counter(chosen) == {"idle": 5, "queue": 8}


async def test_a_queue_that_is_over_or_unreadable_is_no_load(store: Store) -> None:
    await join(store, entry("a", max_jobs=8))
    await join(store, entry("b", max_jobs=8))
    await store.nodes.beat(0, HERE, "a", 45_000, queue=3)
    await store.nodes.beat(0, HERE, "a", 45_000)
    keys = store.keys.shard(0)
    assert await store.line.call("HGETALL", keys.queues) == ["a", "3"]
    await store.nodes.beat(0, HERE, "a", 45_000, queue=0)
    assert await store.line.call("EXISTS", keys.queues) == 0
    await store.line.call("HSET", keys.queues, "a", "rubbish", "b", "rubbish")
    assert {(await dispatch(store, order(serial)))[0].node_id for serial in range(8)} == {"a", "b"}
    await store.nodes.remove(0, HERE, "a", frozenset({POOL}))
    assert await store.line.call("HEXISTS", keys.queues, "a") == 0


async def test_what_a_node_announced_comes_back_with_every_job(store: Store) -> None:
    features = Features(lid=True, turns=True)
    await join(store, entry("n1")._replace(features=features))
    _, placed = await dispatch(store, order(1))
    assert placed.features == features


@pytest.mark.parametrize("switches", list(product([False, True], repeat=len(Features._fields))))
def test_features_are_written_so_that_older_releases_read_the_acknowledgement(switches: tuple[bool, ...]) -> None:
    features = Features(*switches)
    word = str(features)
    assert Features.parse(word) == features
    assert (word[0], " " in word) == (str(int(features.acknowledges)), False)


async def test_equal_load_is_settled_by_chance(store: Store) -> None:
    nodes = [f"n{i}" for i in range(3)]
    for node in nodes:
        await join(store, entry(node))
    chosen: Counter[str] = Counter()
    for i in range(300):
        attempt, placed = await dispatch(store, order(i))
        chosen[attempt.node_id] += 1
        await store.jobs.end(attempt, placed.epoch, JobEvent.FINISH)
    assert all(60 < chosen[node] < 140 for node in nodes), chosen


async def test_dispatching_again_gives_the_same_answer(store: Store) -> None:
    await join(store, entry("n1"))
    first = await store.jobs.dispatch(0, order(1), RULES)
    assert await store.jobs.dispatch(0, order(1), RULES) == first
    assert await ledger(store, "n1") == (1, 1, 1)


@pytest.mark.parametrize("end", ENDS)
async def test_an_attempt_ends_once_and_frees_one_slot(store: Store, end: JobEvent) -> None:
    await join(store, entry("n1"))
    attempt, placed = await dispatch(store, order(1))
    await dispatch(store, order(2))
    ended = await store.jobs.end(attempt, placed.epoch, end)
    assert (ended.outcome, ended.owner, ended.session_id) == (EndOutcome.ENDED, "i-here", "s-00000001")
    assert await ledger(store, "n1") == (1, 1, 1)
    for again in ENDS:
        # Whoever says the same once more may have missed the answer.
        expected = EndOutcome.REPEATED if target_of(again) == target_of(end) else EndOutcome.STALE
        assert (await store.jobs.end(attempt, placed.epoch, again)).outcome is expected
        assert (await store.jobs.end(attempt, "", again)).outcome is EndOutcome.STALE
        assert (await store.jobs.end(attempt, "1", again)).outcome is EndOutcome.STALE
    assert await ledger(store, "n1") == (1, 1, 1)


async def test_a_result_counts_only_from_its_own_node_attempt_and_epoch(store: Store) -> None:
    await join(store, entry("n1", max_jobs=1))
    await join(store, entry("n2", pools=frozenset()))
    attempt, placed = await dispatch(store, order(1))
    liars = [
        (attempt._replace(node_id="n2"), placed.epoch),
        (attempt._replace(number=2), placed.epoch),
        (attempt, "12345"),
    ]
    for lie, epoch in liars:
        assert (await store.jobs.end(lie, epoch, JobEvent.FINISH)).outcome is EndOutcome.STALE
        assert await store.jobs.advance(lie, epoch, JobEvent.ACCEPT) is AdvanceOutcome.STALE
    assert await ledger(store, "n1") == (1, 0, 1)


async def test_a_result_may_overtake_its_acknowledgement(store: Store) -> None:
    await join(store, entry("n1", acknowledges=True))
    attempt, placed = await dispatch(store, order(1))
    assert (await store.jobs.end(attempt, placed.epoch, JobEvent.FINISH)).outcome is EndOutcome.ENDED
    assert await store.jobs.advance(attempt, placed.epoch, JobEvent.ACCEPT) is AdvanceOutcome.STALE
    assert await ledger(store, "n1") == (0, 2, 0)


async def test_an_acknowledgement_extends_the_lease(store: Store, clock: Clock) -> None:
    await join(store, entry("n1", acknowledges=True))
    attempt, placed = await dispatch(store, order(1))
    clock.pass_ms(RULES.ack_ms - 1)
    assert await store.jobs.advance(attempt, placed.epoch, JobEvent.ACCEPT) is AdvanceOutcome.ADVANCED
    assert await store.jobs.advance(attempt, placed.epoch, JobEvent.ACCEPT) is AdvanceOutcome.REPEATED
    clock.pass_ms(RUN_MS - 1)
    assert await store.jobs.overdue(0, 10) == []
    clock.pass_ms(1)
    assert await store.jobs.overdue(0, 10) == [attempt]


async def test_a_node_that_asks_for_more_time_gets_it_up_to_the_limit(store: Store, clock: Clock) -> None:
    await join(store, entry("n1"))
    attempt, placed = await dispatch(store, order(1))
    clock.pass_ms(RUN_MS - 1)
    extend = partial(store.jobs.extend, attempt, placed.epoch, limit_ms=3 * RUN_MS)
    assert await extend(more_ms=RUN_MS) is AdvanceOutcome.ADVANCED
    # Less than it has takes nothing away, also when it comes twice.
    assert await extend(more_ms=1) is AdvanceOutcome.ADVANCED
    clock.pass_ms(RUN_MS - 1)
    assert await store.jobs.overdue(0, 10) == []
    assert await extend(more_ms=10 * RUN_MS) is AdvanceOutcome.ADVANCED
    clock.pass_ms(RUN_MS + 1)
    assert await store.jobs.overdue(0, 10) == []
    clock.pass_ms(1)
    assert await store.jobs.overdue(0, 10) == [attempt]
    # Its time is over, so it is not extended any more; and the record says nothing of all that.
    assert await extend(more_ms=RUN_MS) is AdvanceOutcome.STALE
    assert (await store.jobs.read(0, attempt.job_id))["state"] == "DISPATCHED"


async def test_more_time_is_given_only_to_the_node_of_the_live_attempt_in_its_epoch(store: Store, clock: Clock) -> None:
    await join(store, entry("n1"))
    attempt, placed = await dispatch(store, order(1))
    liars = [
        (attempt._replace(node_id="n2"), placed.epoch),
        (attempt._replace(number=2), placed.epoch),
        (attempt._replace(job_id="nonsense"), placed.epoch),
        (attempt, "12345"),
    ]
    for lie, epoch in liars:
        assert await store.jobs.extend(lie, epoch, 10 * RUN_MS, 10 * RUN_MS) is AdvanceOutcome.STALE
    clock.pass_ms(RUN_MS)
    assert await store.jobs.overdue(0, 10) == [attempt]
    await store.jobs.end(attempt, "", JobEvent.LOSE_ATTEMPT)
    assert await store.jobs.extend(attempt, placed.epoch, RUN_MS, RUN_MS) is AdvanceOutcome.STALE
    assert await ledger(store, "n1") == (0, 2, 0)


async def test_a_late_acknowledgement_is_stale(store: Store, clock: Clock) -> None:
    await join(store, entry("n1", acknowledges=True))
    attempt, placed = await dispatch(store, order(1))
    clock.pass_ms(RULES.ack_ms)
    assert await store.jobs.advance(attempt, placed.epoch, JobEvent.ACCEPT) is AdvanceOutcome.STALE


async def test_a_node_that_never_acknowledges_has_the_execution_deadline(store: Store, clock: Clock) -> None:
    await join(store, entry("n1", acknowledges=False))
    attempt, _ = await dispatch(store, order(1))
    clock.pass_ms(RUN_MS - 1)
    assert await store.jobs.overdue(0, 10) == []
    clock.pass_ms(1)
    assert await store.jobs.overdue(0, 10) == [attempt]


async def test_a_dead_holder_frees_its_slot(store: Store, clock: Clock) -> None:
    await join(store, entry("n1", max_jobs=1))
    attempt, placed = await dispatch(store, order(1))
    early = await store.jobs.end(attempt, "", JobEvent.LOSE_ATTEMPT, "lease_over", if_overdue=True)
    assert early.outcome is EndOutcome.ALIVE
    clock.pass_ms(RUN_MS)
    late = await store.jobs.end(attempt, "", JobEvent.LOSE_ATTEMPT, "lease_over", if_overdue=True)
    assert late.outcome is EndOutcome.ENDED
    assert await ledger(store, "n1") == (0, 1, 0)
    # Its own result comes too late now.
    assert (await store.jobs.end(attempt, placed.epoch, JobEvent.FINISH)).outcome is EndOutcome.STALE
    assert (await store.jobs.read(0, attempt.job_id))["state"] == JobState.RETRYING


async def test_a_retry_is_another_attempt_and_needs_the_former_to_be_over(store: Store) -> None:
    await join(store, entry("n1"))
    await join(store, entry("n2"))
    first, placed = await dispatch(store, order(1))
    assert await outcome_of(store, order(1, attempt=2)) is DispatchOutcome.STALE
    await store.jobs.end(first, placed.epoch, JobEvent.LOSE_ATTEMPT)
    assert await outcome_of(store, order(1, attempt=1)) is DispatchOutcome.STALE
    second, _ = await dispatch(store, order(1, attempt=2, excluded=(first.node_id,)))
    assert second.node_id != first.node_id
    assert (await store.jobs.end(first, placed.epoch, JobEvent.FINISH)).outcome is EndOutcome.STALE


async def test_a_job_that_has_ended_is_not_dispatched_again(store: Store) -> None:
    await join(store, entry("n1"))
    attempt, placed = await dispatch(store, order(1))
    await store.jobs.end(attempt, placed.epoch, JobEvent.FINISH)
    assert await outcome_of(store, order(1, attempt=2)) is DispatchOutcome.STALE


async def test_excluded_nodes_are_not_chosen(store: Store) -> None:
    for node in ("n1", "n2"):
        await join(store, entry(node))
    assert await outcome_of(store, order(1, excluded=("n1", "n2"))) is DispatchOutcome.EXHAUSTED
    attempt, _ = await dispatch(store, order(2, excluded=("n1",)))
    assert attempt.node_id == "n2"


async def test_a_dead_node_is_never_chosen(store: Store, clock: Clock) -> None:
    await join(store, entry("n1", alive_ms=1_000))
    clock.pass_ms(1_000)
    assert await outcome_of(store, order(1)) is DispatchOutcome.FULL


async def test_one_living_node_is_found_among_many_dead_ones(store: Store, clock: Clock) -> None:
    for i in range(99):
        await join(store, entry(f"dead{i}", alive_ms=1_000))
    await join(store, entry("alive", max_jobs=50))
    clock.pass_ms(1_000)
    for i in range(50):
        attempt, _ = await dispatch(store, order(i))
        assert attempt.node_id == "alive"


async def test_an_empty_pool_says_so(store: Store) -> None:
    assert await outcome_of(store, order(1)) is DispatchOutcome.NOBODY


async def test_a_preferred_node_is_taken_while_it_can(store: Store) -> None:
    for i in range(10):
        await join(store, entry(f"n{i}", max_jobs=1))
    attempt, _ = await dispatch(store, order(1, preferred="n7"))
    assert attempt.node_id == "n7"
    other, _ = await dispatch(store, order(2, preferred="n7"))
    assert other.node_id != "n7"
    assert await outcome_of(store, order(3, preferred="n7", only_preferred=True)) is DispatchOutcome.BUSY
    assert await outcome_of(store, order(4, preferred="nobody", only_preferred=True)) is DispatchOutcome.UNFIT


async def test_a_conversation_both_ways_needs_a_node_that_serves_both(store: Store) -> None:
    back = "zh:en:speech"
    for i in range(5):
        await join(store, entry(f"one-way-{i}"))
    assert await outcome_of(store, order(1, pools=(POOL, back))) is DispatchOutcome.NOBODY
    await join(store, entry("both", pools=frozenset({POOL, back})))
    attempt, _ = await dispatch(store, order(2, pools=(POOL, back)))
    assert attempt.node_id == "both"


async def test_a_job_without_a_live_attempt_can_be_closed(store: Store) -> None:
    await join(store, entry("n1"))
    attempt, placed = await dispatch(store, order(1))
    await store.jobs.end(attempt, placed.epoch, JobEvent.LOSE_ATTEMPT)
    assert await store.jobs.close(0, attempt.job_id, 1, JobEvent.FAIL, "no other node")
    assert not await store.jobs.close(0, attempt.job_id, 1, JobEvent.FAIL, "again")
    assert (await store.jobs.read(0, attempt.job_id))["state"] == JobState.FAILED


async def test_a_job_redis_knows_nothing_of_is_gone(store: Store) -> None:
    unknown = Attempt("job-0-77", 1, "n1", 0)
    assert (await store.jobs.end(unknown, "5", JobEvent.FINISH)).outcome is EndOutcome.GONE


async def test_a_lease_whose_record_was_forgotten_still_gives_its_slot_back(store: Store, clock: Clock) -> None:
    await join(store, entry("n1", max_jobs=1))
    attempt, _ = await dispatch(store, order(1))
    await store.line.call("DEL", store.keys.shard(0).job(attempt.job_id))
    clock.pass_ms(RUN_MS)
    await store.jobs.end(attempt, "", JobEvent.LOSE_ATTEMPT, if_overdue=True)
    assert await ledger(store, "n1") == (0, 1, 0)


async def test_two_sweeps_of_the_same_lease_free_one_slot(store: Store, clock: Clock) -> None:
    await join(store, entry("n1"), Owner("i-here", "c1"))
    attempt, _ = await dispatch(store, order(1))
    await dispatch(store, order(2))
    clock.pass_ms(RUN_MS)
    ends = await asyncio.gather(
        *(store.jobs.end(attempt, "", JobEvent.LOSE_ATTEMPT, "sweep", if_overdue=True) for _ in range(5))
    )
    assert Counter(end.outcome for end in ends) == {EndOutcome.ENDED: 1, EndOutcome.STALE: 4}
    assert await ledger(store, "n1") == (1, 1, 1)


async def test_an_attempt_given_up_keeps_its_slot_until_the_node_lets_go(store: Store, clock: Clock) -> None:
    await join(store, entry("n1", max_jobs=1))
    attempt, placed = await dispatch(store, order(1))
    clock.pass_ms(RUN_MS)
    given_up = await store.jobs.end(attempt, "", JobEvent.LOSE_ATTEMPT, "job_timeout", if_overdue=True, linger_ms=9_000)
    assert given_up.outcome is EndOutcome.ENDED
    assert await ledger(store, "n1") == (1, 0, 1)
    assert (await store.jobs.read(0, attempt.job_id))["state"] == JobState.RETRYING
    # The node is done with it after all: too late for the job, but the slot is free.
    assert (await store.jobs.end(attempt, placed.epoch, JobEvent.FINISH)).outcome is EndOutcome.STALE
    assert await ledger(store, "n1") == (0, 1, 0)


async def test_a_slot_nobody_lets_go_of_comes_back_when_the_bound_passes(store: Store, clock: Clock) -> None:
    await join(store, entry("n1", max_jobs=1, alive_ms=1_000_000))
    attempt, _ = await dispatch(store, order(1))
    clock.pass_ms(RUN_MS)
    await store.jobs.end(attempt, "", JobEvent.LOSE_ATTEMPT, "job_timeout", if_overdue=True, linger_ms=9_000)
    # The lingering lease is no live attempt: the same try again is not answered with it.
    assert await outcome_of(store, order(1)) is DispatchOutcome.STALE
    clock.pass_ms(9_000)
    assert await store.jobs.overdue(0, 10) == [attempt]
    await store.jobs.end(attempt, "", JobEvent.LOSE_ATTEMPT, "lease_over", if_overdue=True)
    assert await ledger(store, "n1") == (0, 1, 0)


async def test_a_result_with_another_epoch_does_not_free_the_slot_of_the_current_one(store: Store) -> None:
    await join(store, entry("n1", max_jobs=1))
    attempt, _ = await dispatch(store, order(1))
    assert (await store.jobs.end(attempt, "1", JobEvent.FINISH)).outcome is EndOutcome.STALE
    assert await ledger(store, "n1") == (1, 0, 1)


async def test_a_job_that_goes_on_in_another_shard_leaves_a_pointer(store: Store) -> None:
    await join(store, entry("n1"))
    attempt, placed = await dispatch(store, order(1))
    await store.jobs.leave_pointer(0, attempt.job_id, 1, 5)
    assert "moved_to" not in await store.jobs.read(0, attempt.job_id)  # it is still here
    await store.jobs.end(attempt, placed.epoch, JobEvent.LOSE_ATTEMPT)
    await store.jobs.leave_pointer(0, attempt.job_id, 1, 5)
    assert (await store.jobs.read(0, attempt.job_id))["moved_to"] == "5"


async def test_an_acknowledgement_timeout_and_a_failure_end_an_attempt_once(store: Store, clock: Clock) -> None:
    await join(store, entry("n1", acknowledges=True))
    for serial in range(20):
        attempt, placed = await dispatch(store, order(serial))
        clock.pass_ms(RULES.ack_ms)
        ends = await asyncio.gather(
            store.jobs.end(attempt, "", JobEvent.LOSE_ATTEMPT, "ack_timeout", if_overdue=True),
            store.jobs.end(attempt, placed.epoch, JobEvent.LOSE_ATTEMPT, "PROCESSING_ERROR"),
        )
        assert sorted(end.outcome for end in ends) == [EndOutcome.ENDED, EndOutcome.REPEATED]
        await store.nodes.beat(0, HERE, "n1", 45_000)


async def test_a_record_remembers_every_move_of_its_job(store: Store, clock: Clock) -> None:
    await join(store, entry("n1", acknowledges=True))
    began_ms = clock.now_ms
    attempt, placed = await dispatch(store, order(1))
    for event in (JobEvent.ACCEPT, JobEvent.ACCEPT, JobEvent.START):
        clock.pass_ms(1)
        await store.jobs.advance(attempt, placed.epoch, event)
    clock.pass_ms(1)
    await store.jobs.end(attempt, placed.epoch, JobEvent.LOSE_ATTEMPT, "NMT_TIMEOUT")
    await store.jobs.end(attempt, placed.epoch, JobEvent.FINISH)  # stale
    await store.jobs.close(0, attempt.job_id, 1, JobEvent.FAIL, "no other node")
    assert await history(store, attempt.job_id) == [
        JobStep(JobState.DISPATCHED, began_ms, 1, "n1", ""),
        JobStep(JobState.ACCEPTED, began_ms + 1, 1, "n1", ""),
        JobStep(JobState.RUNNING, began_ms + 3, 1, "n1", ""),
        JobStep(JobState.RETRYING, began_ms + 4, 1, "n1", "NMT_TIMEOUT"),
        JobStep(JobState.FAILED, began_ms + 4, 1, "n1", "no other node"),
    ]


async def test_a_history_is_bounded_and_keeps_what_came_last(store: Store, clock: Clock) -> None:
    await join(store, entry("n1", alive_ms=1_000_000))
    for number in range(1, 41):
        attempt, placed = await dispatch(store, order(1, attempt=number))
        await store.jobs.end(attempt, placed.epoch, JobEvent.LOSE_ATTEMPT, f"try {number}")
        clock.pass_ms(1)
    steps = await history(store, "job-0-1")
    assert [(step.attempt, step.reason) for step in steps[1::2]] == [(n, f"try {n}") for n in range(29, 41)]
    assert len(steps) == 24


async def test_a_history_goes_on_in_the_shard_the_job_went_to_and_back(store: Store) -> None:
    await join(store, entry("n1"))
    await join(store, entry("n2"), shard=1)
    for number, shard, other in ((1, 0, 1), (2, 1, 0), (3, 0, 1)):
        attempt, placed = await dispatch(store, order(1, attempt=number), shard)
        await store.jobs.end(attempt, placed.epoch, JobEvent.LOSE_ATTEMPT)
        await store.jobs.leave_pointer(shard, attempt.job_id, number, other)
    steps = await history(store, "job-0-1")
    assert [(step.attempt, step.node_id, step.state) for step in steps] == [
        (number, node, state)
        for number, node in ((1, "n1"), (2, "n2"), (3, "n1"))
        for state in (JobState.DISPATCHED, JobState.RETRYING)
    ]


async def test_a_job_nobody_knows_has_no_history(store: Store) -> None:
    assert await history(store, "job-0-none") == []


async def test_the_record_of_a_usual_job_stays_compact(store: Store) -> None:
    await join(store, entry("node-1A2B3C4D", acknowledges=True))
    attempt, placed = await dispatch(store, order(1))
    await store.jobs.advance(attempt, placed.epoch, JobEvent.ACCEPT)
    await store.jobs.end(attempt, placed.epoch, JobEvent.FINISH)
    assert await store.line.call("STRLEN", store.keys.shard(0).job(attempt.job_id)) < 300


@pytest.mark.parametrize(
    "session_id", ["two words", "a line\nstep DONE 1 1 n1 ", "tab\tand\rreturn", "", "-", "ß→\u2028"]
)
async def test_a_session_may_call_itself_anything(store: Store, session_id: str) -> None:
    await join(store, entry("n1"))
    attempt, placed = await dispatch(store, msgspec.structs.replace(order(1), session_id=session_id))
    ended = await store.jobs.end(attempt, placed.epoch, JobEvent.FINISH)
    assert ended.outcome is EndOutcome.ENDED
    record = await store.jobs.find(attempt.job_id)
    assert record is not None
    assert (record.state, record.owner, len(record.history)) == ("DONE", "i-here", 2)
    assert ended.session_id.split() == session_id.split()
    if session_id:
        assert [one.session_id for one in await store.jobs.latest(JobFilter(session=session_id))] == [record.session_id]


@pytest.mark.parametrize("preferred", ["n1 1", "n1\n", "-", "n 1"])
async def test_a_strange_wish_is_for_a_node_that_is_not_there(store: Store, preferred: str) -> None:
    await join(store, entry("n1"))
    wish = msgspec.structs.replace(order(1), preferred=preferred, only_preferred=True)
    assert await outcome_of(store, wish) is DispatchOutcome.UNFIT


@pytest.mark.parametrize("job_id", ["W\n", "two words", "a#b#c", "#", "", " "])
async def test_a_node_that_speaks_of_strange_jobs_disturbs_nobody(store: Store, job_id: str) -> None:
    await join(store, entry("n1"))
    attempt, placed = await dispatch(store, order(1))
    strange = Attempt(job_id, 1, "n1", 0)
    calls = [store.jobs.end(one, placed.epoch, JobEvent.FINISH) for one in (strange, attempt)]
    moves = [store.jobs.advance(one, placed.epoch, JobEvent.ACCEPT) for one in (strange, attempt)]
    assert await asyncio.gather(*moves) == [AdvanceOutcome.STALE, AdvanceOutcome.ADVANCED]
    assert [ended.outcome for ended in await asyncio.gather(*calls)] == [EndOutcome.GONE, EndOutcome.ENDED]


async def two_jobs(store: Store, *, acknowledges: bool = False) -> tuple[Attempt, Attempt, str]:
    """The only two slots of a node are taken; its epoch too."""
    await join(store, entry("n1", acknowledges=acknowledges))
    first, placed = await dispatch(store, order(1))
    second, _ = await dispatch(store, order(2))
    return first, second, placed.epoch


async def test_a_node_whose_count_was_lost_is_not_oversold(store: Store) -> None:
    first, second, epoch = await two_jobs(store)
    await store.line.call("DEL", store.keys.shard(0).held)
    assert (await store.jobs.end(first, epoch, JobEvent.FINISH)).outcome is EndOutcome.ENDED
    assert await ledger(store, "n1") == (1, 1, 1)
    assert (await store.jobs.end(second, epoch, JobEvent.FINISH)).outcome is EndOutcome.ENDED
    assert await ledger(store, "n1") == (0, 2, 0)


async def test_a_count_that_is_too_small_is_counted_anew(store: Store) -> None:
    first, second, epoch = await two_jobs(store)
    await store.line.call("ZADD", store.keys.shard(0).held, 1, "n1")
    await asyncio.gather(*(store.jobs.end(attempt, epoch, JobEvent.FINISH) for attempt in (first, second)))
    assert await ledger(store, "n1") == (0, 2, 0)


async def test_a_lease_that_is_put_back_holds_its_slot(store: Store) -> None:
    first, second, epoch = await two_jobs(store, acknowledges=True)
    keys = store.keys.shard(0)
    await store.line.call("DEL", keys.leases, keys.held)
    assert await store.jobs.advance(first, epoch, JobEvent.ACCEPT) is AdvanceOutcome.ADVANCED
    # The other slot is not free, though nothing tells of it any more.
    assert await ledger(store, "n1") == (1, 0, 1)
    assert await store.jobs.advance(second, epoch, JobEvent.ACCEPT) is AdvanceOutcome.ADVANCED
    assert await ledger(store, "n1") == (2, 0, 2)
    await store.jobs.end(first, epoch, JobEvent.FINISH)
    assert await ledger(store, "n1") == (1, 1, 1)


async def test_a_lease_that_is_put_back_after_its_slot_was_given_away_takes_it_again(store: Store) -> None:
    first, _, epoch = await two_jobs(store, acknowledges=True)
    await store.line.call("DEL", store.keys.shard(0).leases)
    await store.ledger.rebuild(0)
    assert await ledger(store, "n1") == (0, 2, 0)
    assert await store.jobs.advance(first, epoch, JobEvent.ACCEPT) is AdvanceOutcome.ADVANCED
    assert await ledger(store, "n1") == (1, 1, 1)


@pytest.mark.parametrize("event", ENDS)
async def test_a_job_whose_lease_was_lost_gives_its_slot_back_and_no_other(store: Store, event: JobEvent) -> None:
    first, second, _ = await two_jobs(store)
    await store.line.call("DEL", store.keys.shard(0).leases)
    for free, attempt in ((1, first), (2, second), (2, second)):
        await store.jobs.end(attempt, "", event)
        assert await ledger(store, "n1") == (0, free, 2 - free)


async def test_a_cancelled_job_whose_lease_was_lost_gives_its_slot_back_and_no_other(store: Store) -> None:
    attempts = await two_jobs(store)
    await store.line.call("DEL", store.keys.shard(0).leases)
    for free, attempt in enumerate(attempts[:2], 1):
        record = await store.jobs.find(attempt.job_id)
        assert record is not None
        await store.jobs.cancel(record, 0)
        await store.jobs.cancel(record, 0)
        assert await ledger(store, "n1") == (0, free, 2 - free)


# More members than Lua passes to one command.
STRANGERS = [f"stranger-{serial}" for serial in range(9_000)]


async def test_a_pool_full_of_strangers_hides_none_of_its_nodes(store: Store) -> None:
    back = "zh:en:speech"
    for node in ("n1", "n2"):
        await join(store, entry(node, pools=frozenset({POOL, back})))
    await join(store, entry("elsewhere", pools=frozenset({"fr:de:speech"}), max_jobs=50))
    await store.line.call("SADD", store.keys.shard(0).pool(POOL), *STRANGERS)
    chosen = [(await dispatch(store, order(serial, pools=(POOL, back))))[0].node_id for serial in range(4)]
    assert Counter(chosen) == {"n1": 2, "n2": 2}
    assert await outcome_of(store, order("full")) is DispatchOutcome.FULL
    assert await outcome_of(store, order("other", excluded=("n1", "n2"))) is DispatchOutcome.EXHAUSTED


async def test_a_pool_of_strangers_alone_has_nobody(store: Store) -> None:
    await store.line.call("SADD", store.keys.shard(0).pool(POOL), *STRANGERS)
    assert await outcome_of(store, order(1)) is DispatchOutcome.NOBODY


async def test_a_pool_full_of_strangers_hides_no_node_that_is_quarantined_or_lacks_a_service(store: Store) -> None:
    keys = store.keys.shard(0)
    for node in ("n1", "n2"):
        await join(store, entry(node))
    await store.line.call("SADD", keys.pool(POOL), *STRANGERS)
    await store.line.call("ZADD", keys.sick, 9e15, "n1", 9e15, "n2 tts")
    assert await outcome_of(store, order(1, needs=("asr", "nmt", "tts"), is_last_resort=False)) is DispatchOutcome.SICK
    attempt, _ = await dispatch(store, order(2, needs=("asr", "nmt")))
    assert attempt.node_id == "n2"


async def test_a_node_comes_back_however_many_leases_name_it(store: Store) -> None:
    await join(store, entry("n1"))
    flood = [word for serial in range(9_000) for word in (0, f"job-0-flood{serial}#1#n1")]
    await store.line.call("ZADD", store.keys.shard(0).leases, *flood)
    assert (await store.nodes.register(0, HERE, entry("n1"))).epoch


async def test_a_count_that_was_lost_is_not_begun_anew_by_the_next_job(store: Store) -> None:
    await join(store, entry("n1", max_jobs=4))
    for serial in range(2):
        await dispatch(store, order(serial))
    await store.line.call("DEL", store.keys.shard(0).held)
    await dispatch(store, order("next"))
    assert await ledger(store, "n1") == (3, 1, 3)


@pytest.mark.parametrize("count", ["inf", "-inf", -3, 2.5, 1e9])
async def test_a_count_nobody_can_have_is_none(store: Store, count: str | float) -> None:
    await join(store, entry("n1", max_jobs=4))
    await dispatch(store, order(1))
    await store.line.call("ZADD", store.keys.shard(0).held, count, "n1")
    await dispatch(store, order(2))
    assert await ledger(store, "n1") == (2, 2, 2)


@pytest.mark.parametrize("slots", ["inf", "-inf", 2.5, 1e9])
async def test_free_slots_nobody_can_have_are_not_given_away(store: Store, slots: str | float) -> None:
    await join(store, entry("n1"))
    await store.line.call("ZADD", store.keys.shard(0).free, slots, "n1")
    assert await outcome_of(store, order(1)) is DispatchOutcome.FULL


async def test_a_node_has_no_more_free_slots_than_slots(store: Store) -> None:
    await join(store, entry("n1", max_jobs=2))
    await store.line.call("ZADD", store.keys.shard(0).free, 7, "n1")
    outcomes = [await outcome_of(store, order(serial)) for serial in range(3)]
    assert outcomes == [DispatchOutcome.DISPATCHED] * 2 + [DispatchOutcome.FULL]


@pytest.mark.parametrize("limit", ["nan", "inf", "-1", "0x10", "1e3", " 8", "9" * 400, "rubbish"])
async def test_a_limit_nobody_can_read_counts_as_lost(store: Store, limit: str) -> None:
    await join(store, entry("n1", max_jobs=2))
    await join(store, entry("n2", max_jobs=4))
    for serial in range(3):
        await dispatch(store, order(serial, excluded=("n1",)))
    await store.line.call("HSET", store.keys.shard(0).limits, "n1", limit)
    # As idle as its free slots say.
    attempt, _ = await dispatch(store, order("next"))
    assert attempt.node_id == "n1"


@pytest.mark.parametrize("queue", ["nan", "inf", "-5", "0x10", "9" * 400])
async def test_a_queue_nobody_can_have_is_no_load(store: Store, queue: str) -> None:
    await join(store, entry("a", max_jobs=4))
    await join(store, entry("b", max_jobs=4))
    await store.line.call("HSET", store.keys.shard(0).queues, "a", queue)
    chosen = [(await dispatch(store, order(serial)))[0].node_id for serial in range(4)]
    assert Counter(chosen) == {"a": 2, "b": 2}


@pytest.mark.parametrize(
    ("lease", "is_one"),
    [
        ("job-1234-a#1#n1", True),
        ("job-12345-a#1#n1", False),
        (f"job-0-{'a' * 100}#1#n1", True),
        (f"job-0-{'a' * 101}#1#n1", False),
        ("job-0-a#123456789#n1", True),
        ("job-0-a#1234567890#n1", False),
        (f"job-0-a#1#{'n' * 64}", True),
        (f"job-0-a#1#{'n' * 65}", False),
        ("job-0-a#1", False),
    ],
)
async def test_what_is_longer_than_any_lease_is_none(store: Store, lease: str, is_one: bool) -> None:
    """In Lua as in Python, so that both skip the same."""
    keys = store.keys.shard(0)
    await store.line.call("ZADD", keys.leases, 1, lease)
    skipped, *found = await store.scripts.run("leases_overdue", keys, most=10, pages=1)
    assert (int(skipped), found) == ((0, [lease]) if is_one else (1, []))
    assert len(Attempt.parse_all([lease], 0)) == is_one
