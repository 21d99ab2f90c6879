"""The copy of the pool map: one look at a time, and a brief memory of what was not there."""

import asyncio
from types import SimpleNamespace

import pytest

from lingua_scheduler.domain.pools.selection import PoolMap
from lingua_scheduler.services.cluster import pool_map
from lingua_scheduler.services.cluster.leadership import Leadership
from lingua_scheduler.services.cluster.pool_map import PoolMapCopy
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.pools.pools import Pools, Published
from lingua_scheduler.store.store import Store
from tests.support.fleet import entry, join

POOL = "en:zh:speech"


class CountedPools(Pools):
    """Answers when it is told to, with what it holds at that moment's beginning; counts the looks."""

    def __init__(self) -> None:
        self.looks = 0
        self.nodes: dict[str, dict[int, int]] = {}
        self.is_away = False
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def published(self) -> Published:
        return Published()

    async def build_map(self) -> PoolMap:
        self.looks += 1
        seen = PoolMap(self.nodes)
        await self.may_answer.wait()
        if self.is_away:
            raise RedisAway("away")
        return seen


@pytest.fixture
def pools() -> CountedPools:
    return CountedPools()


@pytest.fixture
def copy(pools: CountedPools) -> PoolMapCopy:
    return PoolMapCopy(pools, Leadership("i-here", pools, 1_000))


async def test_a_copy_is_empty_until_it_was_read(pools: CountedPools, copy: PoolMapCopy) -> None:
    pools.nodes = {POOL: {0: 1}}
    assert POOL not in copy.map
    await copy.refresh()
    assert copy.map.nodes == {POOL: {0: 1}}


async def test_callers_that_come_during_a_look_share_it(pools: CountedPools, copy: PoolMapCopy) -> None:
    pools.may_answer.clear()
    callers = [asyncio.create_task(copy.refresh()) for _ in range(5)]
    callers += [asyncio.create_task(copy.look_again()) for _ in range(5)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    pools.may_answer.set()
    await asyncio.gather(*callers)
    assert pools.looks == 1


async def test_the_next_refresh_looks_anew(pools: CountedPools, copy: PoolMapCopy) -> None:
    await copy.refresh()
    await copy.refresh()
    assert pools.looks == 2


async def test_one_caller_who_leaves_does_not_spoil_the_look_of_the_others(
    pools: CountedPools, copy: PoolMapCopy
) -> None:
    pools.nodes = {POOL: {0: 1}}
    pools.may_answer.clear()
    leaving, staying = asyncio.create_task(copy.refresh()), asyncio.create_task(copy.refresh())
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    pools.may_answer.set()
    await staying
    assert POOL in copy.map
    assert pools.looks == 1


async def test_a_miss_is_remembered_for_a_moment(pools: CountedPools, copy: PoolMapCopy) -> None:
    for _ in range(10):
        await copy.look_again()
    assert pools.looks == 1


async def test_what_was_read_just_before_a_question_is_no_answer_to_it(pools: CountedPools, copy: PoolMapCopy) -> None:
    await copy.look_again()
    pools.nodes = {POOL: {0: 1}}
    # All who ask in that moment share one look.
    await asyncio.gather(*(copy.look_anew() for _ in range(10)))
    assert POOL in copy.map
    assert pools.looks == 2


async def test_a_question_that_looked_itself_does_not_wait(
    pools: CountedPools, copy: PoolMapCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_map, "MISS_CACHE_S", 3_600.0)
    await copy.look_anew()
    assert pools.looks == 1


async def test_after_that_moment_a_miss_looks_again(
    pools: CountedPools, copy: PoolMapCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_map, "MISS_CACHE_S", -1.0)
    await copy.look_again()
    await copy.look_again()
    assert pools.looks == 2


async def test_a_background_refresh_answers_the_next_miss_too(pools: CountedPools, copy: PoolMapCopy) -> None:
    await copy.refresh()
    await copy.look_again()
    assert pools.looks == 1


async def test_a_change_made_here_is_seen_by_the_next_miss(pools: CountedPools, copy: PoolMapCopy) -> None:
    await copy.look_again()
    pools.nodes = {POOL: {0: 1}}
    copy.changed()
    await copy.look_again()
    assert POOL in copy.map


async def test_a_change_made_during_a_look_is_seen_by_the_next_miss(pools: CountedPools, copy: PoolMapCopy) -> None:
    pools.may_answer.clear()
    looking = asyncio.create_task(copy.refresh())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    pools.nodes = {POOL: {0: 1}}  # a node registers here while the old map is on its way
    copy.changed()
    pools.may_answer.set()
    await looking
    await copy.look_again()
    assert POOL in copy.map


async def test_a_miss_does_not_believe_a_look_that_began_before_the_change(
    pools: CountedPools, copy: PoolMapCopy
) -> None:
    pools.may_answer.clear()
    looking = asyncio.create_task(copy.refresh())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    pools.nodes = {POOL: {0: 1}}
    copy.changed()
    missing = asyncio.create_task(copy.look_again())
    await asyncio.sleep(0)
    pools.may_answer.set()
    await asyncio.gather(looking, missing)
    assert POOL in copy.map


async def test_a_look_that_fails_is_told_to_all_and_the_last_good_copy_stays(
    pools: CountedPools, copy: PoolMapCopy
) -> None:
    pools.nodes = {POOL: {0: 1}}
    await copy.refresh()
    pools.is_away = True
    copy.changed()
    told = await asyncio.gather(copy.look_again(), copy.look_again(), return_exceptions=True)
    assert [type(error) for error in told] == [RedisAway, RedisAway]
    assert pools.looks == 2
    assert copy.map.nodes == {POOL: {0: 1}}


async def test_a_look_that_failed_is_not_remembered(pools: CountedPools, copy: PoolMapCopy) -> None:
    pools.is_away = True
    with pytest.raises(RedisAway):
        await copy.look_again()
    pools.is_away = False
    pools.nodes = {POOL: {0: 1}}
    await copy.look_again()
    assert POOL in copy.map


# Soon, without being asked


async def test_a_copy_that_is_not_outdated_is_left_alone(pools: CountedPools, copy: PoolMapCopy) -> None:
    await copy.refresh_if_outdated()
    assert pools.looks == 0


async def test_a_change_made_here_is_read_soon_and_once(pools: CountedPools, copy: PoolMapCopy) -> None:
    pools.nodes = {POOL: {0: 1}}
    copy.changed()
    copy.changed()
    await copy.refresh_if_outdated()
    await copy.refresh_if_outdated()
    assert POOL in copy.map
    assert pools.looks == 1


async def test_a_change_made_during_a_look_is_read_soon_too(pools: CountedPools, copy: PoolMapCopy) -> None:
    pools.may_answer.clear()
    looking = asyncio.create_task(copy.refresh())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    pools.nodes = {POOL: {0: 1}}
    copy.changed()
    pools.may_answer.set()
    await looking
    await copy.refresh_if_outdated()
    assert POOL in copy.map


async def test_a_change_whose_look_failed_is_still_read_soon(pools: CountedPools, copy: PoolMapCopy) -> None:
    pools.nodes = {POOL: {0: 1}}
    copy.changed()
    pools.is_away = True
    with pytest.raises(RedisAway):
        await copy.refresh_if_outdated()
    pools.is_away = False
    await copy.refresh_if_outdated()
    assert POOL in copy.map


# Leader and followers, on a real store


class Seat:
    """An instance that leads or follows; it keeps what it told the others."""

    def __init__(self, store: Store, name: str) -> None:
        self.leadership = Leadership(name, store.pools, 60_000)
        self.told: list[object] = []
        self.copy = PoolMapCopy(store.pools, self.leadership, lambda: self.told.append("changed"), self.told.append)


async def test_the_leader_publishes_what_it_sees_and_tells_of_it_once(store: Store) -> None:
    leader, follower = Seat(store, "a"), Seat(store, "b")
    for seat in (leader, follower):
        await seat.leadership.stand()
    await join(store, entry("n1"))
    await leader.copy.refresh()
    assert (leader.copy.version, leader.told) == (1, [1])
    await leader.copy.refresh()
    assert (leader.copy.version, leader.told) == (1, [1])
    await follower.copy.refresh()
    assert (follower.copy.version, follower.told) == (1, [])
    assert list(follower.copy.map.counts) == list(leader.copy.map.counts) == ["en:zh:speech"]
    read = follower.copy.map
    await follower.copy.refresh()
    assert follower.copy.map is read


async def test_a_follower_tells_of_its_own_changes_and_reads_what_was_published(store: Store) -> None:
    leader, follower = Seat(store, "a"), Seat(store, "b")
    for seat in (leader, follower):
        await seat.leadership.stand()
    await leader.copy.refresh()
    follower.copy.changed_elsewhere()
    await follower.copy.refresh_if_outdated()
    assert follower.told == []
    follower.copy.changed()
    await follower.copy.refresh_if_outdated()
    assert follower.told == ["changed"]
    await follower.copy.refresh()
    assert follower.told == ["changed"]
    await join(store, entry("n1"))
    await leader.copy.refresh()
    follower.copy.published_elsewhere(follower.copy.version)
    await follower.copy.refresh_if_outdated()
    assert "en:zh:speech" not in follower.copy.map
    follower.copy.published_elsewhere(leader.copy.version)
    await follower.copy.refresh_if_outdated()
    assert "en:zh:speech" in follower.copy.map
    assert follower.copy.version == leader.copy.version


async def test_without_a_leader_the_map_is_built_from_the_shards(store: Store) -> None:
    seat = Seat(store, "a")
    await join(store, entry("n1"))
    await seat.copy.refresh()
    assert (seat.copy.version, "en:zh:speech" in seat.copy.map, seat.told) == (0, True, [])


async def test_one_that_lost_the_lead_meanwhile_follows(store: Store) -> None:
    former, latter = Seat(store, "a"), Seat(store, "b")
    await former.leadership.stand()
    await store.line.call("DEL", store.keys.leader)
    await latter.leadership.stand()
    await latter.copy.refresh()
    former.copy.changed()
    await former.copy.refresh()
    assert former.leadership.term is None
    assert former.told == ["changed"]
    assert former.copy.version == latter.copy.version


async def test_one_that_loses_the_lead_while_it_looks_publishes_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    seat = Seat(store, "a")
    await seat.leadership.stand()
    await join(store, entry("n1"))
    build_map = store.pools.build_map

    async def lose_the_lead() -> PoolMap:
        seat.leadership.lost()
        return await build_map()

    monkeypatch.setattr(store.pools, "build_map", lose_the_lead)
    await seat.copy.refresh()
    assert (seat.told, seat.copy.version) == ([], 0)
    assert (await store.pools.published()).version == 0


async def test_a_copy_that_has_no_part_in_leading_reads_what_was_published(store: Store) -> None:
    leader, reader = Seat(store, "a"), PoolMapCopy(store.pools)
    await leader.leadership.stand()
    await join(store, entry("n1"))
    await leader.copy.refresh()
    await join(store, entry("n2", pools=frozenset({"en:fr:speech"})))
    await reader.refresh()
    assert (reader.version, list(reader.map.counts)) == (1, ["en:zh:speech"])


async def test_a_miss_is_remembered_for_a_tenth_of_a_second(
    pools: CountedPools, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s, pauses = 100.0, list[float]()
    copy = PoolMapCopy(pools, Leadership("i-here", pools, 1_000), clock=lambda: now_s)
    await copy.look_again()
    now_s = 100.09
    await copy.look_again()
    assert pools.looks == 1

    async def sleep(pause_s: float) -> None:
        nonlocal now_s
        pauses.append(pause_s)
        now_s += pause_s

    monkeypatch.setattr(pool_map, "asyncio", SimpleNamespace(sleep=sleep))
    await copy.look_anew()
    assert pools.looks == 2
    assert pauses == [pytest.approx(0.01)]
    now_s += 0.11
    await copy.look_again()
    assert pools.looks == 3
