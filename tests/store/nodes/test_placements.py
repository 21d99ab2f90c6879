"""Placements in Redis: shards fill from the lowest, and wrong places make no shards."""

import asyncio

import pytest

from lingua_scheduler.domain.nodes.nodes import (
    PlaceOutcome,
    RestoreOutcome,
)
from lingua_scheduler.domain.nodes.owners import Owner
from lingua_scheduler.domain.nodes.places import Place
from lingua_scheduler.store.store import Store
from tests.support.fleet import entry, join

ELSEWHERE = Owner("i-elsewhere", "c9")
TEXT = "en:zh:text"


async def test_shards_fill_from_the_lowest_and_are_reused(store: Store) -> None:
    async def place(node_id: str) -> tuple[PlaceOutcome, Place]:
        return await store.placements.assign(node_id, 2, 2)

    assert [await place(f"n{i}") for i in range(4)] == [(PlaceOutcome.PLACED, Place(i // 2, 1)) for i in range(4)]
    assert await place("n1") == (PlaceOutcome.KEPT, Place(0, 2))
    assert await place("n5") == (PlaceOutcome.WORLD_FULL, Place())
    await store.placements.release("n0", Place(0, 1))
    await store.placements.release("n0", Place(0, 1))  # twice is harmless
    assert await place("n5") == (PlaceOutcome.PLACED, Place(0, 1))
    assert await place("n6") == (PlaceOutcome.WORLD_FULL, Place())


async def test_the_cleanup_of_a_former_life_does_not_take_the_place_of_a_new_one(store: Store) -> None:
    _, before = await store.placements.assign("n1", 2, 2)
    _, after = await store.placements.assign("n1", 2, 2)
    await store.placements.release("n1", before)
    assert await store.placements.find("n1") == after
    await store.placements.release("n1", after)
    assert await store.placements.find("n1") is None


async def test_racing_placements_never_overfill_a_shard(store: Store) -> None:
    placed = await asyncio.gather(*(store.placements.assign(f"n{i}", 10, 5) for i in range(60)))
    shards = [place.shard for outcome, place in placed if outcome is PlaceOutcome.PLACED]
    assert sorted(shards) == sorted(list(range(5)) * 10)


@pytest.mark.parametrize("stored", ["garbage", "9999 1", "20 1", "0 " + "9" * 400, "99999999999 1"])
async def test_a_place_nobody_can_read_is_replaced_and_makes_no_shards(store: Store, stored: str) -> None:
    await store.line.call("HSET", store.keys.placement, "n1", stored)
    place = Place(1, 7)
    for outcome in (RestoreOutcome.RESTORED, RestoreOutcome.KEPT):
        assert await store.placements.restore("n1", place, 100, 20) == (outcome, place)
    assert await store.placements.find("n1") == place
    assert await store.placements.misplaced({"n1": place}) == set()
    assert await store.line.call("ZRANGE", store.keys.load, 0, -1, "WITHSCORES") == ["1", "1"]


@pytest.mark.parametrize("stored", ["0 " + "9" * 400, "0 inf", "9999 1"])
async def test_a_place_nobody_can_read_is_assigned_anew(store: Store, stored: str) -> None:
    await store.line.call("HSET", store.keys.placement, "n1", stored)
    assert await store.placements.assign("n1", 100, 20) == (PlaceOutcome.PLACED, Place(0, 1))
    assert await store.placements.assign("n1", 100, 20) == (PlaceOutcome.KEPT, Place(0, 2))


async def test_a_wrong_place_makes_no_shards(store: Store) -> None:
    await join(store, entry("n1"))
    await store.line.call("HSET", store.keys.placement, "lost", "999 1")
    await store.placements.recount(1_000, 100)
    assert await store.placements.shards() == [0]
    await store.placements.release("lost", Place(999, 1))
    assert await store.placements.find("lost") is None
    assert await store.placements.shards() == [0]
    assert await store.line.call("ZRANGE", store.keys.room, 0, -1) == ["0"]


async def test_a_wrong_place_of_a_registered_node_makes_one_shard(store: Store) -> None:
    await store.placements.assign("n1", 100, 1_000)
    await store.line.call("HSET", store.keys.placement, "n2", "999 1")
    await store.placements.restore("n2", Place(0, 1), 100, 1_000)
    await store.placements.recount(1_000, 100)
    assert await store.placements.shards() == [0, 999]


async def test_a_wrong_shard_makes_no_others(store: Store) -> None:
    await store.placements.assign("n1", 100, 1_000)
    await store.line.call("ZADD", store.keys.load, 1, 999, 1, 5_000, 1, "nan")
    await store.placements.recount(1_000, 100)
    assert await store.placements.shards() == [0, 999, 5_000]


async def test_forgotten_shards_that_have_nodes_are_known_again(store: Store) -> None:
    for i in range(4):
        await store.placements.assign(f"n{i}", 1, 1_000)
    await store.line.call("DEL", store.keys.load, store.keys.room)
    await store.placements.recount(1_000, 2, registered=[0, 2, 4_000])
    assert await store.line.call("ZRANGE", store.keys.load, 0, -1, "WITHSCORES") == ["0", "1", "2", "1"]
    assert await store.line.call("ZRANGE", store.keys.room, 0, -1) == ["0", "2"]


async def test_a_node_gets_the_lowest_shard_that_nobody_knows_when_all_known_ones_are_full(store: Store) -> None:
    await store.line.call("ZADD", store.keys.load, 1, 0, 1, 2)
    places = [await store.placements.assign(f"n{i}", 1, 4) for i in range(3)]
    assert [place.shard for _, place in places] == [1, 3, -1]
    assert places[2][0] is PlaceOutcome.WORLD_FULL
