"""Waiting for a slot: in the order of the tickets, one try for one slot, and no trace of those who left."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from lingua_scheduler.domain.pools.pools import Admission, reach_of
from lingua_scheduler.domain.pools.reach import Served
from lingua_scheduler.services.dispatch import waiting as module
from lingua_scheduler.services.dispatch.waiting import WaitingRoom, either_queue, node_queue, retry_queue
from lingua_scheduler.telemetry import metrics
from tests.support.clocks import Clock
from tests.support.fleet import wide_languages

POOL, OTHER = "en:zh:speech", "en:fr:speech"
NODE = "node-a"
LONG_S = 60.0
LONGEST_S = 10.0


class Line:
    """People in a waiting room, each known by a name; who was told to try is written down."""

    def __init__(self, queue_max: int = 1000) -> None:
        self.clock = Clock()
        self.room = WaitingRoom(queue_max, LONGEST_S, lambda: self.clock() / 1000)
        self.tried: list[str] = []
        self.gave_up: list[str] = []
        self.tickets: dict[str, int] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def join(self, name: str, pool: str = POOL, timeout_s: float = LONG_S) -> None:
        """Stand in line, with a new ticket unless one is held already."""
        if name not in self.tickets:
            self.tickets[name] = self.room.ticket()
        self.tasks[name] = asyncio.create_task(self._wait(name, pool, timeout_s))
        await asyncio.sleep(0)

    async def free(self, *pools: str) -> None:
        self.room.slot_freed(NODE, pools or (POOL,))
        await settled()

    async def poke(self) -> None:
        self.room.poke()
        await settled()

    async def _wait(self, name: str, pool: str, timeout_s: float) -> None:
        if await self.room.wait(pool, self.tickets[name], timeout_s):
            self.tried.append(name)
        else:
            self.gave_up.append(name)


async def settled() -> None:
    """Let every task that can run do so; nothing here waits for time."""
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.fixture
async def line() -> AsyncIterator[Line]:
    found = Line()
    yield found
    for task in found.tasks.values():
        task.cancel()
    await asyncio.gather(*found.tasks.values(), return_exceptions=True)


class Watched(list[Any]):
    """A line that counts how often somebody went along it."""

    def __init__(self) -> None:
        super().__init__()
        self.searches = 0

    def __contains__(self, one: object) -> bool:
        self.searches += 1
        return super().__contains__(one)

    def __iter__(self) -> Iterator[Any]:
        self.searches += 1
        return super().__iter__()

    def index(self, *one: Any) -> int:
        self.searches += 1
        return super().index(*one)

    def remove(self, one: Any) -> None:
        self.searches += 1
        super().remove(one)


class WatchedLines(dict[str, Any]):
    """Lines by name that count how often somebody went along all of them."""

    searches = 0

    def __iter__(self) -> Iterator[str]:
        self.searches += 1
        return super().__iter__()

    def items(self) -> Any:
        self.searches += 1
        return super().items()


class WatchedPools(frozenset[str]):
    searches = 0

    def __iter__(self) -> Iterator[str]:
        self.searches += 1
        return super().__iter__()


def waiting() -> float:
    return metrics.REGISTRY.get_sample_value("lingua_jobs_waiting") or 0.0


# In order


async def test_first_come_is_first_served(line: Line) -> None:
    for name in ("ann", "bob", "cas"):
        await line.join(name)
    for _ in range(3):
        await line.free()
    assert line.tried == ["ann", "bob", "cas"]


async def test_one_freed_slot_wakes_exactly_one(line: Line) -> None:
    for name in ("ann", "bob", "cas"):
        await line.join(name)
    await line.free()
    assert line.tried == ["ann"]
    assert len(line.room) == 2


async def test_a_freed_slot_wakes_one_of_all_its_pools_the_one_who_waits_longest(line: Line) -> None:
    await line.join("ann", OTHER)
    await line.join("bob", POOL)
    await line.join("cas", OTHER)
    await line.free(POOL, OTHER)
    assert line.tried == ["ann"]
    await line.free(POOL, OTHER)
    assert line.tried == ["ann", "bob"]


async def test_who_is_woken_does_not_search_the_line_for_a_place_it_has_left(line: Line) -> None:
    watched = line.room._queues[POOL] = Watched()
    for number in range(100):
        await line.join(str(number))
    for _ in range(50):
        await line.free()
    assert (len(line.tried), len(watched)) == (50, 50)
    assert watched.searches == 0
    # Only who leaves the line out of turn has to be found in it.
    line.tasks["70"].cancel()
    await settled()
    assert (len(watched), watched.searches) == (49, 1)


async def test_a_slot_of_another_pool_wakes_nobody(line: Line) -> None:
    await line.join("ann", POOL)
    await line.free(OTHER)
    assert line.tried == []
    assert len(line.room) == 1


async def test_a_freed_slot_nobody_waits_for_is_not_kept(line: Line) -> None:
    await line.free()
    await line.join("ann")
    await settled()
    assert line.tried == []


async def test_who_must_come_back_keeps_the_place(line: Line) -> None:
    for name in ("ann", "bob"):
        await line.join(name)
    await line.free()
    assert line.tried == ["ann"]
    await line.join("ann")  # the slot was taken by somebody else
    line.room.tried(POOL)
    await line.free()
    await line.free()
    assert line.tried == ["ann", "ann", "bob"]


async def test_a_poke_lets_the_head_of_every_line_try(line: Line) -> None:
    for name, pool in (("ann", POOL), ("bob", POOL), ("cas", OTHER)):
        await line.join(name, pool)
    await line.poke()
    assert sorted(line.tried) == ["ann", "cas"]


async def test_a_poke_in_an_empty_room_does_nothing(line: Line) -> None:
    await line.poke()
    assert not line.room.must_queue(POOL)


# For one node and no other


async def test_a_slot_goes_first_to_one_who_waits_for_this_very_node(line: Line) -> None:
    await line.join("ann")
    await line.join("bob", node_queue(NODE))
    await line.free()
    assert line.tried == ["bob"]
    await line.free()
    assert line.tried == ["bob", "ann"]


async def test_a_slot_of_another_node_is_not_for_one_who_waits_for_this_one(line: Line) -> None:
    await line.join("ann", node_queue("node-b"))
    await line.free()
    assert line.tried == []


async def test_a_freed_slot_does_not_go_along_the_lines_of_all_other_nodes(line: Line) -> None:
    watched = line.room._queues = WatchedLines()
    for number in range(50):
        await line.join(f"other {number}", node_queue(f"other-{number}"))
    for name, pool in (("ann", POOL), ("bob", OTHER), ("cas", retry_queue(OTHER))):
        await line.join(name, pool)
    await line.free(POOL, OTHER)
    assert line.tried == ["ann", "cas"]
    await line.free(POOL, OTHER)
    assert line.tried == ["ann", "cas", "bob"]
    assert watched.searches == 0


async def test_a_node_of_many_pools_does_not_look_for_each_where_few_lines_are(line: Line) -> None:
    await line.join("ann")
    await line.join("bob", retry_queue(POOL))
    pools = WatchedPools([POOL, *(f"{number}:zh:speech" for number in range(50))])
    line.room.slot_freed(NODE, pools)
    await settled()
    assert (line.tried, pools.searches) == (["ann", "bob"], 0)


# Newcomers


async def test_a_newcomer_stands_behind_those_who_wait_and_those_who_try(line: Line) -> None:
    assert not line.room.must_queue(POOL)
    await line.join("ann")
    assert line.room.must_queue(POOL)
    assert not line.room.must_queue(OTHER)
    await line.free()
    assert line.room.must_queue(POOL)  # ann is trying
    line.room.tried(POOL)
    assert not line.room.must_queue(POOL)


async def test_newcomers_wait_until_all_who_try_have_tried(line: Line) -> None:
    for name in ("ann", "bob"):
        await line.join(name)
    await line.free()
    await line.free()
    line.room.tried(POOL)
    assert line.room.must_queue(POOL)
    line.room.tried(POOL)
    assert not line.room.must_queue(POOL)


async def test_a_try_that_is_over_twice_counts_once(line: Line) -> None:
    line.room.tried(POOL)
    await line.join("ann")
    await line.free()
    assert line.room.must_queue(POOL)


async def test_each_line_has_its_own_limit() -> None:
    line = Line(queue_max=2)
    await line.join("ann")
    assert not line.room.is_full(POOL)
    await line.join("bob")
    assert line.room.is_full(POOL)
    assert not line.room.is_full(OTHER)
    await line.free()
    line.room.tried(POOL, found_a_slot=True)
    assert not line.room.is_full(POOL)
    await line.free()
    assert line.tried == ["ann", "bob"]


async def test_a_job_that_tries_keeps_its_place_until_it_has_a_slot() -> None:
    line = Line(queue_max=1)
    await line.join("ann")
    await line.poke()
    assert line.tried == ["ann"]
    assert line.room.is_full(POOL)
    line.room.tried(POOL)
    assert not line.room.is_full(POOL)


async def test_a_limit_of_none_lets_nobody_wait() -> None:
    assert WaitingRoom(0, LONGEST_S).is_full(POOL)


# Too much work


async def serve(line: Line, seconds: float, joining: int, pool: str = POOL) -> None:
    """Ten slots a second; for each of them so many come, if they may, and one of the line takes it."""
    for _ in range(round(seconds * 10)):
        line.clock.pass_ms(100)
        for _ in range(joining):
            if not line.room.is_full(pool):
                await line.join(f"{pool} {len(line.tasks)}", pool)
        await take_a_slot(line, pool)


async def take_a_slot(line: Line, pool: str = POOL) -> None:
    line.room.slot_freed(pool.removeprefix("node "), (pool.removeprefix("retry "),))
    await settled()
    line.room.tried(pool, found_a_slot=True)


@pytest.mark.parametrize("queue", [POOL, node_queue(NODE)])
async def test_a_line_that_only_grows_is_kept_to_a_tenth_of_the_longest_wait(line: Line, queue: str) -> None:
    await serve(line, 10, joining=2, pool=queue)
    assert 8 <= len(line.room) <= 11
    # In order, and nobody who was let in is sent away.
    assert line.tried == list(line.tasks)[:100]
    assert not line.room.is_full(OTHER)


async def test_a_burst_of_any_size_may_wait_and_so_may_who_comes_meanwhile(line: Line) -> None:
    for number in range(60):
        await line.join(f"early {number}")
    for _ in range(15):
        await serve(line, 0.2, joining=0)
        assert not line.room.is_full(POOL)
        await line.join(f"late {len(line.tasks)}")
    assert len(line.room) > 40


async def test_a_try_that_finds_nothing_is_no_slot(line: Line) -> None:
    """Polls and nudges wake people who then come back to the line."""
    for number in range(50):
        await line.join(f"early {number}")
    for _ in range(100):
        line.clock.pass_ms(100)
        line.room.poke()
        await settled()
        await line.join(line.tried[-1])
        line.room.tried(POOL)
    assert len(line.room) == 50
    assert not line.room.is_full(POOL)


async def test_a_line_that_is_empty_once_begins_anew(line: Line) -> None:
    await serve(line, 10, joining=2)
    while len(line.room):
        await take_a_slot(line)
    assert not line.room._lines
    for number in range(50):
        assert not line.room.is_full(POOL)
        await line.join(f"again {number}")


async def test_jobs_that_were_tried_before_may_always_wait(line: Line) -> None:
    await serve(line, 10, joining=2, pool=retry_queue(POOL))
    assert len(line.room) == 100


# Time


async def test_who_waits_too_long_is_told_so_and_leaves_no_trace(line: Line) -> None:
    before = waiting()
    await line.join("ann", timeout_s=0.01)
    assert waiting() == before + 1
    await line.tasks["ann"]
    assert line.gave_up == ["ann"]
    assert len(line.room) == 0
    assert not line.room.must_queue(POOL)
    assert waiting() == before


async def test_no_time_at_all_is_a_wait_that_fails(line: Line) -> None:
    await line.join("ann", timeout_s=-1)
    await line.tasks["ann"]
    assert line.gave_up == ["ann"]


async def test_one_who_gives_up_does_not_hold_up_the_others(line: Line) -> None:
    await line.join("ann", timeout_s=0)
    await line.join("bob")
    await line.tasks["ann"]
    await line.free()
    assert (line.gave_up, line.tried) == (["ann"], ["bob"])


async def ann_has_no_time_left(line: Line) -> None:
    """Ann stands before bob, and her time is up when the loop goes round once more."""
    line.tickets["ann"] = line.room.ticket()
    await line.join("bob")
    await line.join("ann", timeout_s=0)
    assert len(line.room) == 2


async def test_a_waiter_whose_time_runs_out_in_the_tick_it_is_woken_passes_the_chance_on(line: Line) -> None:
    await ann_has_no_time_left(line)
    line.room.slot_freed(NODE, (POOL,))  # wakes ann, whose time is up before she can move
    await settled()
    assert (line.gave_up, line.tried) == (["ann"], ["bob"])
    line.room.tried(POOL)
    assert not line.room.must_queue(POOL)


async def test_a_slot_freed_for_a_waiter_whose_time_has_just_run_out_goes_to_the_next(line: Line) -> None:
    await ann_has_no_time_left(line)
    await asyncio.sleep(0)  # her time is up, and she has not noticed yet
    assert line.gave_up == []
    line.room.slot_freed(NODE, (POOL,))
    await settled()
    assert (line.gave_up, line.tried) == (["ann"], ["bob"])


async def test_a_waiter_whose_time_has_just_run_out_does_not_count_as_trying(line: Line) -> None:
    await line.join("ann", timeout_s=0)
    await asyncio.sleep(0)
    line.room.slot_freed(NODE, (POOL,))
    await settled()
    assert line.gave_up == ["ann"]
    assert not line.room.must_queue(POOL)


# Leaving


async def test_a_cancelled_waiter_leaves_no_trace(line: Line) -> None:
    before = waiting()
    await line.join("ann")
    await line.join("bob")
    line.tasks["ann"].cancel()
    await settled()
    assert len(line.room) == 1
    assert waiting() == before + 1
    await line.free()
    assert line.tried == ["bob"]
    line.room.tried(POOL)
    assert not line.room.must_queue(POOL)


async def test_a_waiter_that_is_cancelled_in_the_tick_it_is_woken_passes_the_chance_on(line: Line) -> None:
    await line.join("ann")
    await line.join("bob")
    line.room.slot_freed(NODE, (POOL,))
    line.tasks["ann"].cancel()
    await settled()
    assert line.tried == ["bob"]
    line.room.tried(POOL)
    assert not line.room.must_queue(POOL)


async def test_an_empty_room_keeps_nothing(line: Line) -> None:
    for name in ("ann", "bob", "cas"):
        await line.join(name)
    await line.free()
    line.room.tried(POOL)
    line.tasks["bob"].cancel()
    await settled()
    await line.free()
    line.room.tried(POOL)
    assert line.tried == ["ann", "cas"]
    assert (len(line.room), line.room.must_queue(POOL)) == (0, False)


# Sent away, and nudged from elsewhere


async def test_who_is_sent_away_gives_up_and_nobody_loses_a_turn(line: Line) -> None:
    for name in ("anna", "bert"):
        ticket = line.room.ticket()
        line.tasks[name] = asyncio.create_task(_wait_as(line, name, ticket))
    await settled()
    line.room.dismiss("bert")
    line.room.dismiss("bert")
    line.room.dismiss("nobody")
    await settled()
    assert (line.tried, line.gave_up) == ([], ["bert"])
    await line.free()
    assert line.tried == ["anna"]
    line.room.tried(POOL)
    assert not line.room.must_queue(POOL)
    assert not line.room._by_job


async def test_who_is_sent_away_and_leaves_in_the_same_tick_wakes_nobody(line: Line) -> None:
    for name in ("anna", "bert"):
        line.tasks[name] = asyncio.create_task(_wait_as(line, name, line.room.ticket()))
    await settled()
    line.room.dismiss("anna")
    line.tasks["anna"].cancel()
    await settled()
    assert line.tried == []


async def test_who_is_sent_away_in_the_tick_of_a_release_leaves_it_to_the_next(line: Line) -> None:
    for name in ("anna", "bert"):
        line.tasks[name] = asyncio.create_task(_wait_as(line, name, line.room.ticket()))
    await settled()
    line.room.dismiss("anna")
    line.room.slot_freed(NODE, (POOL,))
    await settled()
    assert (line.tried, line.gave_up) == (["bert"], ["anna"])


async def _wait_as(line: Line, name: str, ticket: int) -> None:
    (line.tried if await line.room.wait(POOL, ticket, LONG_S, name) else line.gave_up).append(name)


async def test_a_nudge_is_for_the_pool_it_names_and_its_retries(line: Line) -> None:
    await line.join("anna")
    await line.join("bert", retry_queue(POOL))
    await line.join("carl", OTHER)
    assert line.room.pools(10) == [POOL, OTHER]
    assert line.room.pools(1) == [POOL]
    line.room.poke_pool(POOL)
    await settled()
    assert sorted(line.tried) == ["anna", "bert"]


async def test_a_nudge_goes_on_as_long_as_it_finds_slots(line: Line) -> None:
    for name in ("anna", "bert", "carl"):
        await line.join(name)
    line.room.poke_pool(POOL)
    await settled()
    line.room.tried(POOL, found_a_slot=True)
    await settled()
    assert line.tried == ["anna", "bert"]
    line.room.tried(POOL, found_a_slot=False)
    await settled()
    assert line.tried == ["anna", "bert"]


async def test_only_a_slot_that_nobody_here_takes_is_told_to_others(line: Line) -> None:
    unclaimed: list[object] = []
    line.room.on_unclaimed = unclaimed.append
    await line.join("anna")
    await line.free()
    assert unclaimed == []
    await line.free()
    assert unclaimed == [(POOL,)]


async def test_a_slot_of_a_wide_node_is_for_whoever_waits_longest_for_any_of_its_pairs(line: Line) -> None:
    served = Served(reach_of(wide_languages(), Admission.STRICT))
    await line.join("stranger", "fr:de:speech")
    await line.join("first", "xaa:xab:text")
    await line.join("second", POOL)
    await line.join("again", retry_queue("xac:xad:speech"))
    line.room.slot_freed(NODE, served)
    await settled()
    assert line.tried == ["first", "again"]
    line.room.slot_freed(NODE, served)
    await settled()
    assert line.tried == ["first", "again", "second"]


async def test_a_job_that_was_dismissed_before_it_began_to_wait_does_not_wait() -> None:
    room = WaitingRoom(10, 10.0)
    room.dismiss("job-0-1")
    assert not await room.wait("en:zh:speech", room.ticket(), 60.0, "job-0-1")


async def test_of_many_that_were_dismissed_too_early_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DISMISSED_MAX", 2)
    room = WaitingRoom(10, 10.0)
    for job_id in ("j1", "j2", "j3"):
        room.dismiss(job_id)
    assert list(room._dismissed) == ["j2", "j3"]


async def test_who_waits_is_counted_by_pool_and_who_waits_for_a_node_is_not() -> None:
    room = WaitingRoom(10, 10.0)
    queues = ("en:zh:speech", "retry en:zh:speech", "en:fr:text", "node n1")
    waiters = [asyncio.create_task(room.wait(queue, room.ticket(), 60.0)) for queue in queues]
    await asyncio.sleep(0)
    assert len(room) == 4
    assert room.by_pool() == {"en:zh:speech": 2, "en:fr:text": 1}
    assert room.pools(9) == ["en:zh:speech", "en:fr:text"]
    assert room.pools(1) == ["en:zh:speech"]
    assert [room.must_queue(queue) for queue in (*queues, "en:de:text")] == [True, True, True, True, False]
    for waiter in waiters:
        waiter.cancel()
    await asyncio.gather(*waiters, return_exceptions=True)
    assert (len(room), room.by_pool()) == (0, {})


async def test_a_slot_that_no_waiting_job_can_use_is_offered_to_others(line: Line) -> None:
    unclaimed: list[object] = []
    line.room.on_unclaimed = unclaimed.append
    await line.free(OTHER)
    assert unclaimed == [(OTHER,)]
    await line.join("a")
    await line.free(OTHER)
    assert unclaimed == [(OTHER,)] * 2
    await line.free(POOL)
    assert unclaimed == [(OTHER,)] * 2
    await asyncio.gather(*line.tasks.values())
    assert line.tried == ["a"]


def test_a_thousand_that_were_dismissed_too_early_are_remembered() -> None:
    room = WaitingRoom(10, LONGEST_S)
    for number in range(1_001):
        room.dismiss(f"j{number}")
    assert (len(room._dismissed), next(iter(room._dismissed))) == (1_000, "j1")


# Private nodes, and public ones where those will do

PRIVATE = f"{POOL}@acme"


async def test_who_is_served_by_two_pools_is_woken_by_a_slot_of_either(line: Line) -> None:
    for name in ("first", "second", "third"):
        await line.join(name, either_queue(PRIVATE))
    await line.join("public")
    await line.free(PRIVATE)
    assert line.tried == ["first"]
    # A public slot wakes both lines: which of them gets it, Redis decides.
    await line.free(POOL)
    assert sorted(line.tried) == ["first", "public", "second"]
    await line.free(f"{POOL}@beta", OTHER)
    assert len(line.tried) == 3
    line.room.poke_pool(POOL)
    await settled()
    assert line.tried[3:] == ["third"]


async def test_who_waits_for_a_private_slot_is_not_woken_by_a_public_one(line: Line) -> None:
    await line.join("own", PRIVATE)
    await line.free(POOL)
    assert line.tried == []
    await line.free(PRIVATE)
    assert line.tried == ["own"]


async def test_other_instances_are_told_of_both_pools(line: Line) -> None:
    await line.join("either", either_queue(PRIVATE))
    await line.join("retry", retry_queue(either_queue(f"{OTHER}@acme")))
    assert set(line.room.pools(10)) == {PRIVATE, POOL, f"{OTHER}@acme", OTHER}
    assert line.room.by_pool() == {PRIVATE: 1, f"{OTHER}@acme": 1}
    await line.free(POOL, OTHER)
    assert sorted(line.tried) == ["either", "retry"]
    assert line.room.pools(10) == []
