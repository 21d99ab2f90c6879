"""The copy of the pool map: one look at a time, and a brief memory of what was not there."""

import asyncio

import pytest

from lingua_scheduler.domain.pools.selection import PoolMap
from lingua_scheduler.services.cluster import pool_map
from lingua_scheduler.services.cluster.leadership import Leadership
from lingua_scheduler.services.cluster.pool_map import PoolMapCopy
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.pools.pools import Pools, Published

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
