"""Nodes in Redis: pools, signs of life, and who may say so."""

import pytest

from lingua_scheduler.domain.jobs.attempts import ADOPTED, Attempt
from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.domain.jobs.quarantine import QuarantineRules
from lingua_scheduler.domain.nodes.nodes import (
    BeatOutcome,
    CheckOutcome,
    DrainOutcome,
    RegisterOutcome,
    ReleaseOutcome,
    RemoveOutcome,
)
from lingua_scheduler.domain.nodes.owners import Owner
from lingua_scheduler.domain.nodes.places import Place
from lingua_scheduler.store.maintenance.checkup import Checkup
from lingua_scheduler.store.store import Store
from tests.support.clocks import Clock
from tests.support.fleet import HERE, POOL, dispatch, entry, join, ledger, order

ELSEWHERE = Owner("i-elsewhere", "c9")
TEXT = "en:zh:text"


async def members(store: Store, pool: str = POOL) -> set[str]:
    return set(await store.line.call("SMEMBERS", store.keys.shard(0).pool(pool)))


def lost(job_id: str) -> Attempt:
    """A job that its node runs, and of whose lease nothing is known."""
    return Attempt(job_id, ADOPTED, "n1", 0)


async def summary(store: Store) -> dict[str, dict[int, int]]:
    return {pool: dict(shards) for pool, shards in (await store.pools.build_map()).nodes.items()}


async def test_a_node_joins_its_pools_and_the_summary_counts_it(store: Store) -> None:
    await join(store, entry("n1", pools=frozenset({POOL, TEXT})))
    await join(store, entry("n2"))
    assert await members(store) == {"n1", "n2"}
    assert await summary(store) == {POOL: {0: 2}, TEXT: {0: 1}}


async def test_an_update_moves_a_node_between_pools(store: Store) -> None:
    await join(store, entry("n1", pools=frozenset({POOL, TEXT})))
    moved = entry("n1", pools=frozenset({TEXT, "zh:en:text"}))
    registered = await store.nodes.update(0, HERE, moved, frozenset({POOL, TEXT}))
    assert registered.outcome is RegisterOutcome.REGISTERED
    assert await summary(store) == {TEXT: {0: 1}, "zh:en:text": {0: 1}}


async def test_a_wrong_belief_about_pools_is_corrected(store: Store) -> None:
    await join(store, entry("n1", pools=frozenset({POOL})))
    await store.nodes.update(0, HERE, entry("n1", pools=frozenset({TEXT})), was=frozenset({"fr:de:text"}))
    assert await summary(store) == {TEXT: {0: 1}}


async def test_only_the_owner_may_update_beat_or_remove(store: Store) -> None:
    await join(store, entry("n1"))
    assert (
        await store.nodes.update(0, ELSEWHERE, entry("n1"), frozenset({POOL}))
    ).outcome is RegisterOutcome.SUPERSEDED
    assert (await store.nodes.beat(0, ELSEWHERE, "n1", 45_000)).outcome is BeatOutcome.SUPERSEDED
    assert (await store.nodes.remove(0, ELSEWHERE, "n1", frozenset({POOL})))[0] is RemoveOutcome.SUPERSEDED
    assert await members(store) == {"n1"}


async def test_an_old_sockets_cleanup_does_not_remove_the_new_one(store: Store) -> None:
    await join(store, entry("n1"), Owner("i-here", "c1"))
    await join(store, entry("n1"), Owner("i-here", "c2"), over=Owner("i-here", "c1"))
    assert (await store.nodes.remove(0, Owner("i-here", "c1"), "n1", frozenset({POOL})))[0] is RemoveOutcome.SUPERSEDED
    assert (await store.nodes.beat(0, Owner("i-here", "c2"), "n1", 45_000)).outcome is BeatOutcome.ALIVE


async def test_a_connection_that_beats_keeps_its_node(store: Store, clock: Clock) -> None:
    first = await join(store, entry("n1", boot_id="b1", alive_ms=10_000))
    attempt, _ = await dispatch(store, order(1))
    for boot_id in ("b2", ""):
        second = await join(store, entry("n1", boot_id=boot_id), ELSEWHERE)
        assert (second.outcome, second.handed_back) == (RegisterOutcome.HELD, ())
    # Somebody asked about another connection than the one that has the node by now.
    assert (await join(store, entry("n1"), ELSEWHERE, over=Owner("i-here", "c0"))).outcome is RegisterOutcome.HELD
    assert (await store.nodes.beat(0, HERE, "n1", 10_000)).outcome is BeatOutcome.ALIVE
    assert await ledger(store, "n1") == (1, 1, 1)
    clock.pass_ms(10_000)
    late = await join(store, entry("n1", boot_id="b2"), ELSEWHERE)
    assert int(late.epoch) > int(first.epoch)
    assert late.handed_back == (attempt,)


async def test_nodes_without_a_process_id_are_told_apart_by_their_connection(store: Store) -> None:
    await join(store, entry("n1"))
    assert (await join(store, entry("n1"), ELSEWHERE)).outcome is RegisterOutcome.HELD
    assert (await join(store, entry("n1"), HERE)).outcome is RegisterOutcome.REGISTERED


async def test_what_is_not_there_is_gone(store: Store) -> None:
    assert (await store.nodes.beat(0, HERE, "n1", 45_000)).outcome is BeatOutcome.GONE
    assert (await store.nodes.update(0, HERE, entry("n1"), frozenset())).outcome is RegisterOutcome.GONE
    assert (await store.nodes.remove(0, HERE, "n1", frozenset()))[0] is RemoveOutcome.GONE


async def test_a_silent_node_is_overdue_and_a_beat_saves_it(store: Store, clock: Clock) -> None:
    await join(store, entry("n1", alive_ms=10_000))
    await join(store, entry("n2", alive_ms=10_000))
    clock.pass_ms(9_000)
    await store.nodes.beat(0, HERE, "n2", 10_000)
    clock.pass_ms(1_000)
    assert await store.nodes.overdue(0, 10) == ["n1"]
    nobody = Owner("", "")
    assert (await store.nodes.remove(0, nobody, "n2", frozenset()))[0] is RemoveOutcome.ALIVE
    assert (await store.nodes.remove(0, nobody, "n1", frozenset()))[0] is RemoveOutcome.REMOVED
    assert await members(store) == {"n2"}


async def test_removing_a_node_leaves_nothing_but_its_overdue_leases(store: Store) -> None:
    await join(store, entry("n1"))
    attempt, _ = await dispatch(store, order(1))
    outcome, attempts = await store.nodes.remove(0, HERE, "n1", frozenset({POOL}))
    assert (outcome, attempts) == (RemoveOutcome.REMOVED, [attempt])
    assert await store.jobs.overdue(0, 10) == [attempt]
    await store.jobs.end(attempt, "", JobEvent.LOSE_ATTEMPT, "node_gone", if_overdue=True)
    await store.placements.release("n1", Place(0, 1))
    keys = await store.line.call("KEYS", "test:v1:{s0}:*")
    # What is left tells of the job, not of the node.
    assert set(keys) == {store.keys.shard(0).job(attempt.job_id), store.keys.shard(0).recent}
    assert await store.line.call("HGETALL", store.keys.placement) == []


async def test_registering_again_raises_the_epoch_and_hands_the_old_leases_back(store: Store, clock: Clock) -> None:
    first = await join(store, entry("n1"))
    attempt, _ = await dispatch(store, order(1))
    again = await join(store, entry("n1"))
    assert int(again.epoch) > int(first.epoch)
    assert again.handed_back == (attempt,)
    assert await store.jobs.overdue(0, 10) == [attempt]
    # Until it is ended the old lease still counts: undersold for a moment, never oversold.
    assert await ledger(store, "n1") == (1, 1, 1)


async def test_the_same_process_coming_back_keeps_its_epoch_and_its_leases(store: Store, clock: Clock) -> None:
    first = await join(store, entry("n1", boot_id="b1"))
    await dispatch(store, order(1))
    clock.pass_ms(1_000)
    again = await join(store, entry("n1", boot_id="b1"), ELSEWHERE)
    assert (again.epoch, again.handed_back) == (first.epoch, ())
    restarted = await join(store, entry("n1", boot_id="b2"), over=ELSEWHERE)
    assert int(restarted.epoch) > int(first.epoch)
    assert len(restarted.handed_back) == 1


async def test_a_lowered_limit_is_respected_and_nothing_turns_negative(store: Store) -> None:
    await join(store, entry("n1", max_jobs=3))
    attempts = [await dispatch(store, order(i)) for i in range(3)]
    await store.nodes.update(0, HERE, entry("n1", max_jobs=1), frozenset({POOL}))
    assert await ledger(store, "n1") == (3, 0, 3)
    for left, (attempt, placed) in enumerate(attempts[:2], start=1):
        await store.jobs.end(attempt, placed.epoch, JobEvent.FINISH)
        assert await ledger(store, "n1") == (3 - left, 0, 3 - left)
    attempt, placed = attempts[2]
    await store.jobs.end(attempt, placed.epoch, JobEvent.FINISH)
    assert await ledger(store, "n1") == (0, 1, 0)


async def test_a_node_that_takes_no_work_has_no_free_slots_to_offer(store: Store) -> None:
    await join(store, entry("n1"))
    attempt, placed = await dispatch(store, order(1))
    await store.nodes.update(0, HERE, entry("n1", pools=frozenset(), takes_jobs=False), frozenset({POOL}))
    await store.jobs.end(attempt, placed.epoch, JobEvent.FINISH)
    assert await ledger(store, "n1") == (0, None, 0)
    await store.nodes.update(0, HERE, entry("n1"), frozenset())
    assert await ledger(store, "n1") == (0, 2, 0)


async def test_a_drained_node_leaves_its_pools_and_finishes_what_it_has(store: Store) -> None:
    await join(store, entry("n1", pools=frozenset({POOL, TEXT})))
    attempt, placed = await dispatch(store, order(1))
    assert await store.nodes.drain("n1") == (DrainOutcome.DRAINED, 1)
    assert await store.nodes.drain("n1") == (DrainOutcome.KEPT, 1)
    assert await summary(store) == {}
    assert await ledger(store, "n1") == (1, None, 1)
    # A heartbeat of its owner that changes something does not bring it back.
    await store.nodes.update(0, HERE, entry("n1", max_jobs=5), frozenset({POOL, TEXT}))
    assert await summary(store) == {}
    assert (await store.node_views.all())[0].state == "draining"
    await store.jobs.end(attempt, placed.epoch, JobEvent.FINISH)
    assert await store.nodes.drain("n1", resume=True) == (DrainOutcome.RESUMED, 0)
    assert await summary(store) == {POOL: {0: 1}}
    assert await ledger(store, "n1") == (0, 5, 0)
    assert (await store.node_views.all())[0].state == "ready"


async def test_draining_lasts_for_the_life_of_the_process(store: Store) -> None:
    await join(store, entry("n1", boot_id="b1"))
    await store.nodes.drain("n1")
    await join(store, entry("n1", boot_id="b1"), ELSEWHERE)
    assert await summary(store) == {}
    await join(store, entry("n1", boot_id="b2"), over=ELSEWHERE)
    assert await summary(store) == {POOL: {0: 1}}


@pytest.mark.parametrize(("boot_id", "stays"), [("b1", True), ("b2", False), ("", False)])
async def test_a_node_that_left_and_comes_back_is_drained_as_long_as_it_is_the_same_process(
    store: Store, boot_id: str, stays: bool
) -> None:
    """Its instance was stopped, or it was evicted: that is no reason to give a broken node jobs again."""
    await join(store, entry("n1", boot_id="b1"))
    await store.nodes.drain("n1")
    for _ in range(2):
        await store.nodes.remove(0, HERE, "n1", frozenset({POOL}))
        await join(store, entry("n1", boot_id=boot_id))
        assert await summary(store) == ({} if stays else {POOL: {0: 1}})
    await store.nodes.drain("n1", resume=True)
    await store.nodes.remove(0, HERE, "n1", frozenset({POOL}))
    await join(store, entry("n1", boot_id=boot_id))
    assert await summary(store) == {POOL: {0: 1}}


async def test_a_drained_node_without_a_name_for_its_process_takes_jobs_when_it_comes_back(store: Store) -> None:
    await join(store, entry("n1", boot_id=""))
    await store.nodes.drain("n1")
    await store.nodes.remove(0, HERE, "n1", frozenset({POOL}))
    await join(store, entry("n1", boot_id=""))
    assert await summary(store) == {POOL: {0: 1}}


async def test_draining_a_node_that_is_not_there_says_so(store: Store) -> None:
    assert await store.nodes.drain("nobody") == (DrainOutcome.GONE, 0)
    await store.placements.assign("placed-only", 100, 1000)
    assert await store.nodes.drain("placed-only") == (DrainOutcome.GONE, 0)


@pytest.mark.parametrize("rubbish", ["a#b", "-1", "", "1e999", "NaN", "9" * 23])
async def test_a_value_nobody_can_read_counts_as_missing_and_is_written_again(store: Store, rubbish: str) -> None:
    keys, pools = store.keys.shard(0), frozenset({POOL})
    registered = await join(store, entry("n1", max_jobs=7))
    soiled = {
        "limits": (keys.limits, "n1"),
        "pairs": (keys.summary, POOL),
        "looks": (keys.looks, "n1"),
        "node": (keys.node("n1"), "takes"),
        "gone": (keys.owners, "n1"),
    }
    honest = {what: await store.line.call("HGET", *where) for what, where in soiled.items()}
    for what, where in soiled.items():
        await store.line.call("HSET", *where, rubbish)
        await store.ledger.rebuild(0)
        outcome, missing = await store.nodes.check(0, HERE, "n1", [POOL])
        assert (missing or outcome.value) == what
        if what in ("limits", "gone"):
            assert await store.nodes.beat(0, HERE, "n1", 45_000, "", None) == (BeatOutcome.GONE, "")
        await store.nodes.restore(0, HERE, entry("n1", max_jobs=7), pools, registered.epoch)
        assert (await store.nodes.check(0, HERE, "n1", [POOL]))[0] is CheckOutcome.WHOLE
        assert await store.line.call("HGET", *where) == honest[what]
        assert await ledger(store, "n1") == (0, 7, 0)


async def test_a_lost_node_comes_back_in_its_epoch_and_one_that_is_there_stays_in_its_own(store: Store) -> None:
    """Results that are on their way name the epoch in which the node got its jobs."""
    pools = frozenset({POOL})
    registered = await join(store, entry("n1"))
    there = await store.nodes.restore(0, HERE, entry("n1"), pools, "7")
    assert there.epoch == registered.epoch
    await store.line.call("FLUSHALL")
    assert (await store.nodes.restore(0, HERE, entry("n1"), frozenset(), registered.epoch)).epoch == registered.epoch
    await store.line.call("FLUSHALL")
    # One that is not known begins as a registration does.
    begun = await store.nodes.restore(0, HERE, entry("n1"), frozenset(), "")
    assert int(begun.epoch) >= int(registered.epoch)


async def test_scores_without_end_count_as_missing(store: Store) -> None:
    keys = store.keys.shard(0)
    registered = await join(store, entry("n1"))
    for key, what in ((keys.seen, "seen"), (keys.free, "free"), (keys.held, "held")):
        await store.line.call("ZADD", key, "inf", "n1")
        assert await store.nodes.check(0, HERE, "n1", [POOL]) == (CheckOutcome.TORN, what)
        await store.nodes.restore(0, HERE, entry("n1"), frozenset({POOL}), registered.epoch)
        assert (await store.nodes.check(0, HERE, "n1", [POOL]))[0] is CheckOutcome.WHOLE


@pytest.mark.parametrize("slots", ["9" * 23, "9" * 5_000, "12345678", "nan", "inf", "1e400", "-0", "0x10"])
async def test_slots_nobody_can_have_are_never_offered(store: Store, slots: str) -> None:
    keys = store.keys.shard(0)
    await join(store, entry("n1", max_jobs=2, acknowledges=True))
    attempts = [await dispatch(store, order(i)) for i in range(2)]
    await store.line.call("HSET", keys.limits, "n1", slots)
    # One that was lost is put back, one ends, and another job is adopted.
    await store.line.call("ZREM", keys.leases, attempts[0][0].lease)
    for attempt, placed in attempts:
        await store.jobs.advance(attempt, placed.epoch, JobEvent.ACCEPT)
    await store.jobs.end(*attempts[0][:1], attempts[0][1].epoch, JobEvent.FINISH)
    await store.ledger.adopt(0, HERE, "n1", [lost("job-0-lost")], 9_000)
    await store.ledger.rebuild(0)
    assert float(await store.line.call("ZSCORE", keys.free, "n1")) <= 2
    for resume in (False, True):
        await store.nodes.drain("n1", resume=resume)
    assert float(await store.line.call("ZSCORE", keys.free, "n1")) <= 2
    assert [view.max_jobs for view in await store.node_views.all()] == [0]
    assert [row.max_jobs async for rows in store.looks.rows() for row in rows] == [0]
    assert await store.nodes.check(0, HERE, "n1", [POOL]) == (CheckOutcome.TORN, "limits")
    found, left = await Checkup(store).put_right(settle_s=0)
    assert "limits" in {finding.detail for finding in found}
    assert not [finding.words for finding in left if finding.is_repairable]


@pytest.mark.parametrize("trust", [f"{'9' * 23} 0 {'9' * 23}", f"2 0 {'9' * 23}", f"2 {'9' * 400} 8", "nan nan nan"])
async def test_trust_nobody_can_have_offers_no_slots(store: Store, trust: str) -> None:
    believed = entry("n1", max_jobs=8, boot_id="a")._replace(believed_slots=2)
    await join(store, believed)
    attempt, placed = await dispatch(store, order(1))
    await store.line.call("HSET", store.keys.shard(0).trust, "n1", trust)
    rules = QuarantineRules(3, 10, 3, 1_000, 60_000, believed_after=1)
    await store.jobs.end(attempt, placed.epoch, JobEvent.FINISH, quarantine=rules)
    assert await ledger(store, "n1") == (0, 2, 0)
    await join(store, believed)
    assert await ledger(store, "n1") == (0, 2, 0)
    assert await store.line.call("HGET", store.keys.shard(0).trust, "n1") == "2 0 8"


async def test_a_node_is_sent_elsewhere_only_if_it_has_no_jobs(store: Store) -> None:
    await join(store, entry("n1"))
    attempt, dispatched = await dispatch(store, order(1))
    assert await store.nodes.remove(0, HERE, "n1", frozenset({POOL}), if_idle=True) == (RemoveOutcome.BUSY, [])
    assert await members(store) == {"n1"}
    await store.jobs.end(attempt, dispatched.epoch, JobEvent.FINISH)
    assert await store.nodes.remove(0, HERE, "n1", frozenset({POOL}), if_idle=True) == (RemoveOutcome.REMOVED, [])
    assert await members(store) == set()


async def test_the_quarantine_of_a_node_ends_when_somebody_says_so(store: Store) -> None:
    await join(store, entry("n1"))
    assert await store.nodes.release("n1") is ReleaseOutcome.KEPT
    await store.line.call("ZADD", store.keys.shard(0).sick, 9e15, "n1")
    assert await store.nodes.release("n1") is ReleaseOutcome.RELEASED
    assert await store.nodes.release("n1") is ReleaseOutcome.KEPT
    assert await store.nodes.release("n9") is ReleaseOutcome.GONE
