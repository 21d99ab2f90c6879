"""Nodes in Redis: places, pools, signs of life, and who may say so."""

import asyncio
import re
from typing import Any, cast

import pytest

from lingua_scheduler.domain.jobs.attempts import ADOPTED, Attempt
from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.domain.jobs.quarantine import QuarantineRules
from lingua_scheduler.domain.nodes.nodes import (
    BeatOutcome,
    CheckOutcome,
    DrainOutcome,
    PlaceOutcome,
    RegisterOutcome,
    RemoveOutcome,
    RestoreOutcome,
)
from lingua_scheduler.store.connection import Argument, Line, RedisAway, Waiter
from lingua_scheduler.store.maintenance.checkup import Checkup
from lingua_scheduler.store.nodes.nodes import Nodes, Owner, Place
from lingua_scheduler.store.store import Store
from tests.support.clocks import Clock
from tests.support.fleet import HERE, POOL, RULES, dispatch, entry, join, ledger, order
from tests.support.servers import RedisProcess

ELSEWHERE = Owner("i-elsewhere", "c9")
TEXT = "en:zh:text"


async def members(store: Store, pool: str = POOL) -> set[str]:
    return set(await store.line.call("SMEMBERS", store.keys.shard(0).pool(pool)))


def lost(job_id: str) -> Attempt:
    """A job that its node runs, and of whose lease nothing is known."""
    return Attempt(job_id, ADOPTED, "n1", 0)


async def summary(store: Store) -> dict[str, dict[int, int]]:
    return {pool: dict(shards) for pool, shards in (await store.pools.build_map()).nodes.items()}


async def test_shards_fill_from_the_lowest_and_are_reused(store: Store) -> None:
    async def place(node_id: str) -> tuple[PlaceOutcome, Place]:
        return await store.nodes.place(node_id, 2, 2)

    assert [await place(f"n{i}") for i in range(4)] == [(PlaceOutcome.PLACED, Place(i // 2, 1)) for i in range(4)]
    assert await place("n1") == (PlaceOutcome.KEPT, Place(0, 2))
    assert await place("n5") == (PlaceOutcome.WORLD_FULL, Place())
    await store.nodes.unplace("n0", Place(0, 1))
    await store.nodes.unplace("n0", Place(0, 1))  # twice is harmless
    assert await place("n5") == (PlaceOutcome.PLACED, Place(0, 1))
    assert await place("n6") == (PlaceOutcome.WORLD_FULL, Place())


async def test_the_cleanup_of_a_former_life_does_not_take_the_place_of_a_new_one(store: Store) -> None:
    _, before = await store.nodes.place("n1", 2, 2)
    _, after = await store.nodes.place("n1", 2, 2)
    await store.nodes.unplace("n1", before)
    assert await store.nodes.place_of("n1") == after
    await store.nodes.unplace("n1", after)
    assert await store.nodes.place_of("n1") is None


async def test_racing_placements_never_overfill_a_shard(store: Store) -> None:
    placed = await asyncio.gather(*(store.nodes.place(f"n{i}", 10, 5) for i in range(60)))
    shards = [place.shard for outcome, place in placed if outcome is PlaceOutcome.PLACED]
    assert sorted(shards) == sorted(list(range(5)) * 10)


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
    await store.nodes.unplace("n1", Place(0, 1))
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
    assert (await store.nodes.view())[0].state == "draining"
    await store.jobs.end(attempt, placed.epoch, JobEvent.FINISH)
    assert await store.nodes.drain("n1", resume=True) == (DrainOutcome.RESUMED, 0)
    assert await summary(store) == {POOL: {0: 1}}
    assert await ledger(store, "n1") == (0, 5, 0)
    assert (await store.nodes.view())[0].state == "ready"


async def test_draining_lasts_for_the_life_of_the_process(store: Store) -> None:
    await join(store, entry("n1", boot_id="b1"))
    await store.nodes.drain("n1")
    await join(store, entry("n1", boot_id="b1"), ELSEWHERE)
    assert await summary(store) == {}
    await join(store, entry("n1", boot_id="b2"), over=ELSEWHERE)
    assert await summary(store) == {POOL: {0: 1}}


async def test_draining_a_node_that_is_not_there_says_so(store: Store) -> None:
    assert await store.nodes.drain("nobody") == (DrainOutcome.GONE, 0)
    await store.nodes.place("placed-only", 100, 1000)
    assert await store.nodes.drain("placed-only") == (DrainOutcome.GONE, 0)


async def test_a_job_the_ledger_lost_is_accounted_for_when_its_node_reports_it(store: Store, clock: Clock) -> None:
    await join(store, entry("n1", max_jobs=2))
    attempt, _ = await dispatch(store, order(1))
    jobs = [attempt, lost("job-0-lost")]
    assert await store.nodes.adopt(0, ELSEWHERE, "n1", jobs, 9_000) is None
    assert await store.nodes.adopt(0, HERE, "n1", jobs, 9_000) == ["job-0-lost"]
    assert await store.nodes.adopt(0, HERE, "n1", jobs, 9_000) == []  # twice is harmless
    assert await ledger(store, "n1") == (2, 0, 2)
    clock.pass_ms(9_000)
    (adopted,) = await store.jobs.overdue(0, 10)
    assert (adopted.job_id, adopted.number) == ("job-0-lost", 0)
    await store.jobs.end(adopted, "", JobEvent.LOSE_ATTEMPT, "lease_over", if_overdue=True)
    assert await ledger(store, "n1") == (1, 1, 1)


async def test_what_a_busy_node_runs_is_compared_without_reading_the_ledger(store: Store, clock: Clock) -> None:
    async def reads() -> int:
        texts = [await line.call("INFO", "commandstats") for line in store.line.servers()]
        return sum(int(found[1]) for text in texts for found in re.finditer(r"cmdstat_zrange:calls=(\d+)", text))

    await join(store, entry("n1", max_jobs=3, acknowledges=True))
    attempts = [(await dispatch(store, order(i)))[0] for i in range(2)]
    await store.nodes.adopt(0, HERE, "n1", [lost("job-0-lost")], 2_000)
    before = await reads()
    clock.pass_ms(1_000)
    # Under the name it was adopted by, or by that of an attempt that is over.
    for known in (lost("job-0-lost"), Attempt("job-0-lost", 7, "n1", 0)):
        assert await store.nodes.adopt(0, HERE, "n1", [*attempts, known], 2_000) == []
    assert await reads() == before
    deadlines = {view.attempt: view.deadline_ms - clock() for view in await store.nodes.leases("n1", 0)}
    assert deadlines == dict.fromkeys(attempts, RULES.ack_ms - 1_000) | {lost("job-0-lost"): 2_000}
    # One that is overdue accounts for nothing.
    clock.pass_ms(RULES.ack_ms)
    assert await store.nodes.adopt(0, HERE, "n1", attempts, 2_000) == [attempt.job_id for attempt in attempts]
    assert await ledger(store, "n1") == (5, 0, 5)


async def test_more_jobs_than_slots_never_turn_negative(store: Store) -> None:
    await join(store, entry("n1", max_jobs=1))
    await store.nodes.adopt(0, HERE, "n1", list(map(lost, ("job-0-a", "job-0-b", "job-0-c"))), 9_000)
    assert await ledger(store, "n1") == (3, 0, 3)


async def test_a_ledger_that_was_tampered_with_is_rebuilt_from_the_leases(store: Store) -> None:
    for node in ("n1", "n2", "n3"):
        await join(store, entry(node, max_jobs=2))
    for i in range(3):
        await dispatch(store, order(i))
    before = [await ledger(store, node) for node in ("n1", "n2", "n3")]
    assert await store.nodes.rebuild(0) == 0
    keys = store.keys.shard(0)
    await store.line.call("ZADD", keys.free, 7, "n1")
    await store.line.call("DEL", keys.held)
    await store.line.call("ZADD", keys.held, 5, "ghost")
    assert await store.nodes.rebuild(0) > 0
    assert [await ledger(store, node) for node in ("n1", "n2", "n3")] == before
    assert await store.nodes.rebuild(0) == 0


async def test_a_fleet_larger_than_the_line_may_have_waiting_can_be_looked_at(server: RedisProcess) -> None:
    store = Store(server.url, key_prefix="large:v1", max_pending=1_000)
    await store.open()
    for node in range(300):
        await join(store, entry(f"n{node}"), shard=node // 100)
    assert len(await store.nodes.view()) == 300
    assert len(await store.nodes.owned_by({"i-here"})) == 300
    assert await store.nodes.owned_by({"i-elsewhere"}) == []
    assert len(await store.nodes.some_places(50)) == 50
    await store.close()


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
        await store.nodes.rebuild(0)
        outcome, missing = await store.nodes.check(0, HERE, "n1", [POOL])
        assert (missing or outcome.value) == what
        if what in ("limits", "gone"):
            assert await store.nodes.beat(0, HERE, "n1", 45_000, "", None) == (BeatOutcome.GONE, "")
        await store.nodes.restore(0, HERE, entry("n1", max_jobs=7), pools, registered.epoch)
        assert (await store.nodes.check(0, HERE, "n1", [POOL]))[0] is CheckOutcome.WHOLE
        assert await store.line.call("HGET", *where) == honest[what]
        assert await ledger(store, "n1") == (0, 7, 0)


async def test_scores_without_end_count_as_missing(store: Store) -> None:
    keys = store.keys.shard(0)
    registered = await join(store, entry("n1"))
    for key, what in ((keys.seen, "seen"), (keys.free, "free"), (keys.held, "held")):
        await store.line.call("ZADD", key, "inf", "n1")
        assert await store.nodes.check(0, HERE, "n1", [POOL]) == (CheckOutcome.TORN, what)
        await store.nodes.restore(0, HERE, entry("n1"), frozenset({POOL}), registered.epoch)
        assert (await store.nodes.check(0, HERE, "n1", [POOL]))[0] is CheckOutcome.WHOLE


async def test_the_ledger_takes_no_slots_from_a_node_whose_limit_cannot_be_read(store: Store) -> None:
    await join(store, entry("n1", max_jobs=7))
    await store.line.call("HSET", store.keys.shard(0).limits, "n1", "a#b")
    await store.nodes.rebuild(0)
    assert await ledger(store, "n1") == (0, 7, 0)


@pytest.mark.parametrize("stored", ["garbage", "9999 1", "20 1", "0 " + "9" * 400, "99999999999 1"])
async def test_a_place_nobody_can_read_is_replaced_and_makes_no_shards(store: Store, stored: str) -> None:
    await store.line.call("HSET", store.keys.placement, "n1", stored)
    place = Place(1, 7)
    for outcome in (RestoreOutcome.RESTORED, RestoreOutcome.KEPT):
        assert await store.nodes.restore_place("n1", place, 100, 20) == (outcome, place)
    assert await store.nodes.place_of("n1") == place
    assert await store.nodes.misplaced({"n1": place}) == set()
    assert await store.line.call("ZRANGE", store.keys.load, 0, -1, "WITHSCORES") == ["1", "1"]


@pytest.mark.parametrize("stored", ["0 " + "9" * 400, "0 inf", "9999 1"])
async def test_a_place_nobody_can_read_is_assigned_anew(store: Store, stored: str) -> None:
    await store.line.call("HSET", store.keys.placement, "n1", stored)
    assert await store.nodes.place("n1", 100, 20) == (PlaceOutcome.PLACED, Place(0, 1))
    assert await store.nodes.place("n1", 100, 20) == (PlaceOutcome.KEPT, Place(0, 2))


async def test_a_wrong_place_makes_no_shards(store: Store) -> None:
    await join(store, entry("n1"))
    await store.line.call("HSET", store.keys.placement, "lost", "999 1")
    await store.nodes.recount_places(1_000, 100)
    assert await store.nodes.shards() == [0]
    await store.nodes.unplace("lost", Place(999, 1))
    assert await store.nodes.place_of("lost") is None
    assert await store.nodes.shards() == [0]
    assert await store.line.call("ZRANGE", store.keys.room, 0, -1) == ["0"]


async def test_a_wrong_place_of_a_registered_node_makes_one_shard(store: Store) -> None:
    await store.nodes.place("n1", 100, 1_000)
    await store.line.call("HSET", store.keys.placement, "n2", "999 1")
    await store.nodes.restore_place("n2", Place(0, 1), 100, 1_000)
    await store.nodes.recount_places(1_000, 100)
    assert await store.nodes.shards() == [0, 999]


async def test_a_wrong_shard_makes_no_others(store: Store) -> None:
    await store.nodes.place("n1", 100, 1_000)
    await store.line.call("ZADD", store.keys.load, 1, 999, 1, 5_000, 1, "nan")
    await store.nodes.recount_places(1_000, 100)
    assert await store.nodes.shards() == [0, 999, 5_000]


async def test_forgotten_shards_that_have_nodes_are_known_again(store: Store) -> None:
    for i in range(4):
        await store.nodes.place(f"n{i}", 1, 1_000)
    await store.line.call("DEL", store.keys.load, store.keys.room)
    await store.nodes.recount_places(1_000, 2, registered=[0, 2, 4_000])
    assert await store.line.call("ZRANGE", store.keys.load, 0, -1, "WITHSCORES") == ["0", "1", "2", "1"]
    assert await store.line.call("ZRANGE", store.keys.room, 0, -1) == ["0", "2"]


async def test_a_node_gets_the_lowest_shard_that_nobody_knows_when_all_known_ones_are_full(store: Store) -> None:
    await store.line.call("ZADD", store.keys.load, 1, 0, 1, 2)
    places = [await store.nodes.place(f"n{i}", 1, 4) for i in range(3)]
    assert [place.shard for _, place in places] == [1, 3, -1]
    assert places[2][0] is PlaceOutcome.WORLD_FULL


class Deaf:
    """A line on which what is remembered of nodes that left cannot be asked for: its server is away."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def call(self, *command: Argument) -> Waiter:
        if str(command[1]).endswith(":past"):
            raise RedisAway("the server of another slot is away")
        return self._line.call(*command)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._line, name)


async def test_nodes_come_and_go_while_nobody_can_be_asked_about_their_past(store: Store) -> None:
    nodes = Nodes(cast("Line", Deaf(store.line)), store.keys, store.scripts, store.unreadable)
    believed = entry("n1", max_jobs=50)._replace(believed_slots=8)
    for _ in range(2):
        assert (await nodes.register(0, HERE, believed)).outcome is RegisterOutcome.REGISTERED
        assert (await nodes.restore(0, HERE, believed, believed.pools, "1")).outcome is RegisterOutcome.REGISTERED
        assert (await nodes.remove(0, HERE, "n1", frozenset()))[0] is RemoveOutcome.REMOVED


async def test_a_node_whose_owner_cannot_be_read_is_held_by_nobody(store: Store) -> None:
    await join(store, entry("n1", boot_id="a"))
    await store.line.call("HSET", store.keys.shard(0).owners, "n1", "garbage")
    assert await store.nodes.holder("n1") is None
    assert store.unreadable.lately == ["owners"]
    assert (await join(store, entry("n1", boot_id="b"))).outcome is RegisterOutcome.REGISTERED


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
    await store.nodes.adopt(0, HERE, "n1", [lost("job-0-lost")], 9_000)
    await store.nodes.rebuild(0)
    assert float(await store.line.call("ZSCORE", keys.free, "n1")) <= 2
    for resume in (False, True):
        await store.nodes.drain("n1", resume=resume)
    assert float(await store.line.call("ZSCORE", keys.free, "n1")) <= 2
    assert [view.max_jobs for view in await store.nodes.view()] == [0]
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
