"""Jobs looked up: one by its id wherever it went, the latest, those without an attempt, and cancelled ones."""

import asyncio

import msgspec
import pytest

from lingua_scheduler.domain.access.visibility import Visibility
from lingua_scheduler.domain.jobs.attempts import (
    AdvanceOutcome,
    Attempt,
    CancelOutcome,
    DispatchOutcome,
    EndOutcome,
    NoteOutcome,
)
from lingua_scheduler.domain.jobs.history import JobStep
from lingua_scheduler.domain.jobs.jobs import JobEvent, JobState
from lingua_scheduler.store.jobs.jobs import JobNote
from lingua_scheduler.store.jobs.records import JobFilter, JobRecord
from lingua_scheduler.store.store import Store
from tests.support.clocks import Clock
from tests.support.fleet import HERE, POOL, RULES, RUN_MS, dispatch, entry, join, ledger, order

KEEP_MS = 60_000
BACK = "zh:en:speech"


def note(
    serial: str | int, *, shard: int = 0, session: str = "s-00000001", error: str = "", detail: str = ""
) -> JobNote:
    return JobNote(f"job-{shard}-{serial}", (POOL,), session, 3, "i-here", error, detail)


async def found(store: Store, job_id: str) -> JobRecord:
    record = await store.jobs.find(job_id)
    assert record is not None
    return record


async def move(store: Store, attempt: Attempt, shard: int) -> Attempt:
    """Lose the attempt here, and go on in another shard."""
    await store.jobs.end(attempt, "", JobEvent.LOSE_ATTEMPT, "lost")
    wanted = order("x", attempt=attempt.number + 1)
    moved, _ = await dispatch(store, msgspec.structs.replace(wanted, job_id=attempt.job_id), shard)
    assert await store.jobs.leave_pointer(attempt.shard, attempt.job_id, attempt.number, shard)
    return moved


async def ids(store: Store, limit: int = 50, **wanted: object) -> list[str]:
    return [record.job_id for record in await store.jobs.latest(JobFilter(**wanted), limit)]  # type: ignore[arg-type]


# Jobs without an attempt


async def test_a_job_that_found_nobody_has_a_record(store: Store, clock: Clock) -> None:
    refused = note(1, error="NO_CAPABLE_NODE", detail="no node speaks French")
    assert await store.jobs.note(0, refused, KEEP_MS) is NoteOutcome.NOTED
    record = await found(store, "job-0-1")
    assert (record.state, record.attempt, record.node_id) == (JobState.FAILED, 0, "")
    assert (record.reason, record.detail) == ("NO_CAPABLE_NODE", "no node speaks French")
    assert (record.pools, record.session_id, record.utterance_index) == ((POOL,), "s-00000001", 3)
    assert record.owner == "i-here"
    assert record.times_ms == {"ended": clock.now_ms}
    assert record.history == (JobStep(JobState.FAILED, clock.now_ms, 0, "", "NO_CAPABLE_NODE"),)
    assert 0 < await store.line.call("PTTL", store.keys.shard(0).job("job-0-1")) <= KEEP_MS


async def test_a_job_that_waits_is_there_and_goes_on_from_there(store: Store) -> None:
    await store.jobs.note(0, note(1), KEEP_MS)
    assert (await found(store, "job-0-1")).state == JobState.CREATED
    await join(store, entry("n1"))
    await dispatch(store, order(1))
    assert (await found(store, "job-0-1")).state == JobState.DISPATCHED
    # A note that comes late, or twice, changes nothing.
    assert await store.jobs.note(0, note(1), KEEP_MS) is NoteOutcome.STALE
    assert await store.jobs.note(0, note(1, error="NO_CAPABLE_NODE"), KEEP_MS) is NoteOutcome.STALE
    assert (await found(store, "job-0-1")).state == JobState.DISPATCHED
    assert await ids(store) == ["job-0-1"]


async def test_a_job_that_waited_in_vain_fails(store: Store) -> None:
    await store.jobs.note(0, note(1), KEEP_MS)
    assert await store.jobs.note(0, note(1, error="E", detail="all busy"), KEEP_MS) is NoteOutcome.NOTED
    record = await found(store, "job-0-1")
    assert (record.state, record.reason, record.detail) == (JobState.FAILED, "E", "all busy")
    assert [step.state for step in record.history] == ["CREATED", "FAILED"]
    assert await ids(store) == ["job-0-1"]
    assert await store.line.call("XLEN", store.keys.shard(0).recent) == 1


async def test_a_job_that_had_an_attempt_is_not_noted_as_if_it_had_none(store: Store) -> None:
    await join(store, entry("n1"))
    attempt, _ = await dispatch(store, order(1))
    await store.jobs.end(attempt, "", JobEvent.LOSE_ATTEMPT)
    assert await store.jobs.note(0, note(1, error="E"), KEEP_MS) is NoteOutcome.STALE
    assert (await found(store, "job-0-1")).state == JobState.RETRYING


# Finding


@pytest.mark.parametrize("job_id", ["job-0-1", "job-999-1", "nonsense", "", "job-x-1", "job-0-" + "9" * 500])
async def test_what_is_not_there_is_not_found(store: Store, job_id: str) -> None:
    assert await store.jobs.find(job_id) is None


async def test_a_job_is_found_wherever_it_went(store: Store) -> None:
    for shard in (0, 1, 2):
        await join(store, entry(f"n{shard}"), shard=shard)
    first, _ = await dispatch(store, order(1))
    await store.jobs.explain(0, first.job_id, "{}")
    second = await move(store, first, 1)
    assert (await found(store, first.job_id)).node_id == "n1"
    third = await move(store, second, 2)
    record = await found(store, first.job_id)
    assert (record.shard, record.attempt, record.node_id) == (2, 3, "n2")
    assert record.explanation == "{}"  # kept where it was written
    # And back again to where it began.
    await move(store, third, 0)
    record = await found(store, first.job_id)
    assert (record.shard, record.attempt, record.node_id) == (0, 4, "n0")


async def test_a_job_that_came_back_and_lost_again_is_where_it_was_last(store: Store) -> None:
    for shard in (0, 1):
        await join(store, entry(f"n{shard}"), shard=shard)
    first, _ = await dispatch(store, order(1))
    back = await move(store, await move(store, first, 1), 0)
    await store.jobs.end(back, "", JobEvent.LOSE_ATTEMPT, "lost")
    record = await found(store, first.job_id)
    assert (record.shard, record.attempt, record.state) == (0, 3, JobState.RETRYING)
    assert (await store.jobs.cancel(record, 0))[0] is CancelOutcome.CANCELLED


async def test_pointers_in_a_circle_end(store: Store) -> None:
    for shard, other in ((0, 1), (1, 2), (2, 0)):
        await store.line.call(
            "SET",
            store.keys.shard(shard).job("job-0-1"),
            f"RETRYING 1 - - - - 0 i-here zh:en:s s-1\nmoved_to {other}",
        )
    assert (await found(store, "job-0-1")).shard == 0


# The latest


async def test_the_latest_jobs_come_first(store: Store) -> None:
    await join(store, entry("n1", max_jobs=10))
    for serial in range(5):
        await dispatch(store, order(serial))
    assert await ids(store) == [f"job-0-{serial}" for serial in (4, 3, 2, 1, 0)]
    assert await ids(store, limit=2) == ["job-0-4", "job-0-3"]


async def test_jobs_of_all_shards_are_listed_once_each(store: Store) -> None:
    await store.placements.assign("n0", 1, 1000)
    await store.placements.assign("n1", 1, 1000)
    for shard in (0, 1):
        await store.nodes.register(shard, HERE, entry(f"n{shard}"))
    await store.jobs.note(0, note("waits"), KEEP_MS)
    moved, _ = await dispatch(store, msgspec.structs.replace(order("x"), job_id="job-0-waits"), 1)
    await store.jobs.leave_pointer(0, moved.job_id, 0, 1)
    await store.jobs.note(1, note(2, shard=1, error="E"), KEEP_MS)
    assert await ids(store) == ["job-1-2", "job-0-waits"]
    assert (await store.jobs.latest())[1].state == JobState.DISPATCHED


async def test_jobs_are_chosen_by_state_and_session(store: Store) -> None:
    await join(store, entry("n1", max_jobs=10))
    await dispatch(store, order("runs"))
    await store.jobs.note(0, note("a", error="E"), KEEP_MS)
    await store.jobs.note(0, note("b", session="s-other", error="E"), KEEP_MS)
    assert await ids(store, state="FAILED") == ["job-0-b", "job-0-a"]
    assert await ids(store, state="DISPATCHED") == ["job-0-runs"]
    assert await ids(store, session="s-other") == ["job-0-b"]
    assert await ids(store, state="DONE") == []


async def test_jobs_are_chosen_by_node_pair_and_time(store: Store, clock: Clock) -> None:
    await join(store, entry("n1"))
    await join(store, entry("n2"))
    attempt, _ = await dispatch(store, order("first"))
    await store.jobs.note(0, note("a", error="E"), KEEP_MS)
    assert await ids(store, node_id=attempt.node_id) == ["job-0-first"]
    # Also after it went on elsewhere.
    await store.jobs.end(attempt, "", JobEvent.LOSE_ATTEMPT, "lost")
    clock.now_ms += 1_000
    again, _ = await dispatch(store, order("first", attempt=2, excluded=(attempt.node_id,)))
    assert again.node_id != attempt.node_id
    assert await ids(store, node_id=attempt.node_id) == await ids(store, node_id=again.node_id) == ["job-0-first"]
    assert await ids(store, node_id="n3") == []
    src, tgt, _ = POOL.split(":")
    assert await ids(store, pair=f"{src}:{tgt}") == ["job-0-a", "job-0-first"]
    assert await ids(store, pair=f"{tgt}:{src}") == []
    await store.jobs.note(0, note("late", error="E"), KEEP_MS)
    assert await ids(store, since_ms=clock.now_ms) == ["job-0-late"]


async def test_a_running_job_is_listed_though_it_is_not_recent_any_more(store: Store) -> None:
    await join(store, entry("n1"))
    await dispatch(store, order(1))
    await store.line.call("DEL", store.keys.shard(0).recent)
    assert await ids(store) == await ids(store, state="DISPATCHED") == ["job-0-1"]
    assert await ids(store, session="s-other") == []


async def test_a_forgotten_job_is_not_listed(store: Store) -> None:
    await store.jobs.note(0, note(1, error="E"), KEEP_MS)
    await store.line.call("DEL", store.keys.shard(0).job("job-0-1"))
    assert await ids(store) == []


async def test_only_the_first_attempt_is_recent_news(store: Store) -> None:
    for node in ("n1", "n2"):
        await join(store, entry(node))
    first, _ = await dispatch(store, order(1))
    await store.jobs.dispatch(0, order(1), RULES)
    await store.jobs.end(first, "", JobEvent.LOSE_ATTEMPT)
    second, _ = await dispatch(store, order(1, attempt=2))
    await join(store, entry("n3"), shard=1)
    await move(store, second, 1)
    assert [await store.line.call("XLEN", store.keys.shard(shard).recent) for shard in (0, 1)] == [1, 0]


# Cancelling


async def test_a_running_job_is_cancelled_and_its_slot_is_free(store: Store) -> None:
    await join(store, entry("n1", max_jobs=1))
    attempt, placed = await dispatch(store, order(1))
    record = await found(store, attempt.job_id)
    assert await store.jobs.cancel(record, 0) == (CancelOutcome.CANCELLED, "")
    last = (await found(store, attempt.job_id)).history[-1]
    assert (last.state, last.attempt, last.node_id, last.reason) == (JobState.CANCELLED, 1, "n1", "cancelled")
    assert await ledger(store, "n1") == (0, 1, 0)
    assert (await found(store, attempt.job_id)).state == JobState.CANCELLED
    # What the node still says is stale, and nobody tries again.
    assert (await store.jobs.end(attempt, placed.epoch, JobEvent.FINISH)).outcome is EndOutcome.STALE
    assert await store.jobs.advance(attempt, placed.epoch, JobEvent.ACCEPT) is AdvanceOutcome.STALE
    retried = await store.jobs.dispatch(0, order(1, attempt=2), RULES)
    assert retried.outcome is DispatchOutcome.STALE
    assert not await store.jobs.close(0, attempt.job_id, 1, JobEvent.FAIL, "")
    assert await ledger(store, "n1") == (0, 1, 0)


async def test_a_node_that_may_still_be_at_it_keeps_its_slot_until_it_lets_go(store: Store, clock: Clock) -> None:
    await join(store, entry("n1", max_jobs=1, alive_ms=1_000_000))
    attempt, placed = await dispatch(store, order(1))
    await store.jobs.cancel(await found(store, attempt.job_id), 9_000)
    assert await ledger(store, "n1") == (1, 0, 1)
    assert (await store.jobs.end(attempt, placed.epoch, JobEvent.FINISH)).outcome is EndOutcome.STALE
    assert await ledger(store, "n1") == (0, 1, 0)
    # Another one never lets go: the bound passes, and a sweep frees it.
    other, _ = await dispatch(store, order(2))
    await store.jobs.cancel(await found(store, other.job_id), 9_000)
    clock.pass_ms(9_000)
    assert await store.jobs.overdue(0, 10) == [other]
    await store.jobs.end(other, "", JobEvent.LOSE_ATTEMPT, if_overdue=True)
    assert await ledger(store, "n1") == (0, 1, 0)
    assert (await found(store, other.job_id)).state == JobState.CANCELLED


async def test_a_job_that_waits_is_cancelled_and_never_placed(store: Store) -> None:
    await join(store, entry("n1"))
    await store.jobs.note(0, note(1), KEEP_MS)
    assert (await store.jobs.cancel(await found(store, "job-0-1"), 0))[0] is CancelOutcome.CANCELLED
    assert (await store.jobs.dispatch(0, order(1), RULES)).outcome is DispatchOutcome.STALE
    # In another shard there is no record, but the pointer cannot be left.
    assert not await store.jobs.leave_pointer(0, "job-0-1", 0, 1)


@pytest.mark.parametrize("end", [JobEvent.FINISH, JobEvent.FIND_NO_TEXT, JobEvent.FAIL])
async def test_an_ended_job_cannot_be_cancelled(store: Store, end: JobEvent) -> None:
    await join(store, entry("n1"))
    attempt, placed = await dispatch(store, order(1))
    record = await found(store, attempt.job_id)
    await store.jobs.end(attempt, placed.epoch, end)
    state = (await found(store, attempt.job_id)).state
    assert await store.jobs.cancel(record, 0) == (CancelOutcome.ENDED, state)
    assert (await found(store, attempt.job_id)).state == state


async def test_a_job_that_moved_on_is_not_cancelled_where_it_was(store: Store) -> None:
    for shard in (0, 1):
        await join(store, entry(f"n{shard}"), shard=shard)
    first, _ = await dispatch(store, order(1))
    before = await found(store, first.job_id)
    await move(store, first, 1)
    assert (await store.jobs.cancel(before, 0))[0] is CancelOutcome.MOVED
    assert (await store.jobs.cancel(await found(store, first.job_id), 0))[0] is CancelOutcome.CANCELLED
    assert await ledger(store, "n1", 1) == (0, 2, 0)


async def test_a_cancel_racing_a_result_leaves_one_winner_and_one_free_slot(store: Store, clock: Clock) -> None:
    await join(store, entry("n1", max_jobs=1))
    for serial in range(20):
        attempt, placed = await dispatch(store, order(serial))
        record = await found(store, attempt.job_id)
        ended, cancelled = await asyncio.gather(
            store.jobs.end(attempt, placed.epoch, JobEvent.FINISH),
            asyncio.gather(*(store.jobs.cancel(record, 0) for _ in range(3))),
        )
        cancels = [outcome for outcome, _ in cancelled].count(CancelOutcome.CANCELLED)
        assert (ended.outcome is EndOutcome.ENDED) + cancels == 1
        assert await ledger(store, "n1") == (0, 1, 0)
    clock.pass_ms(RUN_MS)
    assert await store.jobs.overdue(0, 10) == []


async def test_both_directions_of_a_conversation_are_on_the_record(store: Store) -> None:
    await join(store, entry("n1", pools=frozenset({POOL, BACK})))
    await dispatch(store, order(1, pools=(POOL, BACK)))
    assert (await found(store, "job-0-1")).pools == (POOL, BACK)


async def test_a_job_has_ended_only_when_it_has(store: Store) -> None:
    for node in ("n1", "n2"):
        await join(store, entry(node))
    attempt, _ = await dispatch(store, order(1))
    await store.jobs.end(attempt, "", JobEvent.LOSE_ATTEMPT, "ack_timeout")
    lost = await store.jobs.find(attempt.job_id)
    again, placed = await dispatch(store, order(1, attempt=2))
    running = await store.jobs.find(again.job_id)
    await store.jobs.end(again, placed.epoch, JobEvent.FINISH)
    done = await store.jobs.find(again.job_id)
    assert lost is not None
    assert running is not None
    assert done is not None
    assert (set(lost.times_ms), lost.reason) == ({"dispatched", "retrying"}, "ack_timeout")
    assert (set(running.times_ms), running.reason) == ({"dispatched", "retrying"}, "")
    assert (set(done.times_ms), done.reason) == ({"dispatched", "retrying", "ended"}, "")


# What is no record


NO_RECORDS = {
    "a word": "garbage",
    "nothing": "",
    "as many words": "a b c d e f g h i j",
    "no utterance": "DONE 1 n1 1 30000 0 x i-here p s-1",
    "a move that is none": "DONE 1 n1 1 30000 0 0 i-here p s-1\nstep what",
    "a shard that is none": "RETRYING 1 n1 1 30000 0 0 i-here p s-1\nmoved_to nowhere",
}


@pytest.mark.parametrize("text", NO_RECORDS.values(), ids=NO_RECORDS.keys())
async def test_what_is_no_record_is_no_job_and_hides_no_other(store: Store, text: str) -> None:
    await join(store, entry("n1"))
    await dispatch(store, order("good"))
    bad, _ = await dispatch(store, order("bad"))
    await store.line.call("SET", store.keys.shard(0).job(bad.job_id), text)
    assert await store.jobs.find(bad.job_id) is None
    assert await ids(store) == ["job-0-good"]


@pytest.mark.parametrize("text", ["garbage", "", "a b c d e f g h i j"])
async def test_scripts_take_what_is_no_record_for_no_job(store: Store, text: str) -> None:
    await join(store, entry("n1"))
    good, _ = await dispatch(store, order("good"))
    bad, placed = await dispatch(store, order("bad"))
    key, before = store.keys.shard(0).job(bad.job_id), await found(store, bad.job_id)
    await store.line.call("SET", key, text)
    assert not await store.jobs.is_over(bad)
    assert not await store.jobs.explain(0, bad.job_id, "{}")
    assert await store.jobs.advance(bad, placed.epoch, JobEvent.ACCEPT) is AdvanceOutcome.STALE
    assert not await store.jobs.leave_pointer(0, bad.job_id, 1, 2)
    assert (await store.jobs.cancel(before, 0))[0] is CancelOutcome.GONE
    told = await asyncio.gather(
        *(store.jobs.end(attempt, "", JobEvent.LOSE_ATTEMPT, "lost") for attempt in (bad, good)),
    )
    assert [ended.outcome for ended in told] == [EndOutcome.GONE, EndOutcome.ENDED]
    assert await ledger(store, "n1") == (0, 2, 0)
    # Whoever has a job of that name may write it down.
    await dispatch(store, order("bad", attempt=2))
    assert (await found(store, bad.job_id)).attempt == 2
    await store.line.call("SET", key, text)
    assert await store.jobs.note(0, note("bad"), KEEP_MS) is NoteOutcome.NOTED
    assert (await found(store, bad.job_id)).state == JobState.CREATED


# Whose jobs they are


async def test_a_job_is_its_tenants_whether_or_not_it_has_an_attempt_and_wherever_it_went(store: Store) -> None:
    await join(store, entry("n1"))
    await join(store, entry("n2"), shard=1)
    owned = msgspec.structs.replace(order("1"), belongs_to="d" * 32, tenant="acme")
    attempt, _ = await dispatch(store, owned)
    await store.jobs.note(0, msgspec.structs.replace(note(2), belongs_to="e" * 32, tenant="beta"), KEEP_MS)
    await store.jobs.note(0, note(3), KEEP_MS)
    assert await ids(store, visible=Visibility(tenant="acme")) == [attempt.job_id]
    assert await ids(store, visible=Visibility(tenant="beta")) == ["job-0-2"]
    # Without a credential it is of the default tenant, whatever the caller names.
    assert await ids(store, visible=Visibility(tenant="default")) == ["job-0-3"]
    assert await ids(store, visible=Visibility(belongs_to="d" * 32)) == [attempt.job_id]
    await store.jobs.end(attempt, "", JobEvent.LOSE_ATTEMPT, "lost")
    again = msgspec.structs.replace(owned, job_id=attempt.job_id, attempt=2)
    await dispatch(store, again, 1)
    assert await store.jobs.leave_pointer(0, attempt.job_id, 1, 1)
    record = await found(store, attempt.job_id)
    assert (record.shard, record.tenant, record.belongs_to) == (1, "acme", "d" * 32)


async def test_a_job_that_a_release_before_wrote_is_of_no_known_tenant(store: Store) -> None:
    await join(store, entry("n1"))
    attempt, _ = await dispatch(store, msgspec.structs.replace(order("1"), belongs_to="d" * 32))
    assert (await found(store, attempt.job_id)).tenant == ""
    assert await ids(store, visible=Visibility(tenant="default")) == []
    assert await ids(store, visible=Visibility(belongs_to="d" * 32)) == await ids(store) == [attempt.job_id]
