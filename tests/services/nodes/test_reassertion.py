"""What Redis lost of connected nodes is looked for."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from lingua_scheduler.domain.nodes.nodes import CheckOutcome
from lingua_scheduler.domain.nodes.places import Place
from lingua_scheduler.services.nodes import reassertion as module
from lingua_scheduler.services.nodes.links import NodeLinks
from lingua_scheduler.services.nodes.reassertion import Reassertion
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from tests.support.connected import connected_to, registered
from tests.support.fleet import POOL, ledger
from tests.support.schedulers import settings_with

# As plain values: a limit that changes is noticed.
STOCK_LOOKS = 2_000
STOCK_SAMPLE = 16


class Counted:
    """Stands for a node whose data is whole; counts how often one is looked at."""

    looks = 0
    is_silent = False

    def __init__(self, serial: int, shard: int) -> None:
        self.node_id, self.place = f"n{serial}", Place(shard, 1)
        self.owner, self.pools = None, frozenset[str]()

    @property
    def shard(self) -> int:
        Counted.looks += 1
        return self.place.shard


class Whole:
    """Redis, of which nothing is missing; remembers who was asked about."""

    def __init__(self) -> None:
        self.checked: list[tuple[int, str]] = []

    async def check(self, shard: int, _owner: Any, node_id: str, *_: Any) -> tuple[CheckOutcome, str]:
        self.checked.append((shard, node_id))
        return CheckOutcome.WHOLE, ""

    async def misplaced(self, _places: Any) -> set[str]:
        return set()


def holding(shards: list[int]) -> tuple[Reassertion, Whole]:
    """For an instance that holds a node of each of these shards."""
    nodes, links = Whole(), NodeLinks("i-here")
    store = SimpleNamespace(nodes=nodes, placements=nodes)
    for serial, shard in enumerate(shards):
        links.add(cast("Any", Counted(serial, shard)))
    Counted.looks = 0
    return Reassertion(cast("Any", store), links, cast("Any", None), settings_with().pools), nodes


async def test_taking_stock_of_a_large_fleet_looks_at_a_few_nodes() -> None:
    reassertion, nodes = holding([serial // 100 for serial in range(20_000)])
    for _ in range(10):
        nodes.checked.clear()
        await reassertion.take_stock()
        assert len({shard for shard, _ in nodes.checked}) == len(nodes.checked) == STOCK_SAMPLE
    # One for each that is found, a few that are of the same shard, and those that are asked about.
    assert Counted.looks < 10 * 10 * STOCK_SAMPLE


async def test_taking_stock_of_large_shards_ends_though_they_are_few() -> None:
    reassertion, nodes = holding([serial // 2_000 for serial in range(20_000)])
    await reassertion.take_stock()
    assert len(nodes.checked) == 10
    assert Counted.looks < 2 * STOCK_LOOKS


async def test_taking_stock_misses_no_shard_of_a_few_and_in_time_no_node() -> None:
    reassertion, nodes = holding([0] * 10 + [1] + [2] * 5)
    seen = set()
    for _ in range(500):
        nodes.checked.clear()
        await reassertion.take_stock()
        assert sorted(shard for shard, _ in nodes.checked) == [0, 1, 2]
        seen.update(nodes.checked)
    assert len(seen) == 16


async def test_taking_stock_of_nobody_asks_nothing() -> None:
    reassertion, nodes = holding([])
    await reassertion.take_stock()
    assert nodes.checked == []


# What nobody in Redis serves


async def test_a_pair_that_no_node_of_ours_serves_is_no_reason_to_write_anybody_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected = connected_to(store)
    await registered(connected)
    looks = 0
    check = store.nodes.check

    async def counted(*given: Any, **named: Any) -> Any:
        nonlocal looks
        looks += 1
        return await check(*given, **named)

    monkeypatch.setattr(store.nodes, "check", counted)
    recall = connected.reassertion.recall
    assert not await recall(("sw:de:speech",))
    assert not await recall((POOL, "sw:de:speech"))
    assert looks == 0
    # One it serves, and is rightly in: looked at once, not for every utterance.
    assert not await recall((POOL,))
    assert not await recall((POOL,))
    assert looks == 1


async def test_a_node_that_redis_lost_is_written_again_when_its_pair_is_asked_for(store: Store) -> None:
    connected = connected_to(store)
    await registered(connected)
    await store.line.call("FLUSHALL")
    assert await connected.reassertion.recall((POOL,))
    assert await ledger(store, "n1") == (0, 4, 0)


async def test_a_silent_node_that_the_sweep_removed_is_not_put_back_until_it_beats_again(store: Store) -> None:
    """A frozen node keeps its socket. Put back, it would be given jobs that are all lost."""
    connected = connected_to(store)
    link = await registered(connected)
    link.beaten_at_s -= link.alive_ms / 1000 + 1
    await store.line.call("ZADD", store.keys.shard(link.shard).seen, 1, "n1")
    await connected.departures.remove_overdue(link.shard, "n1")
    assert not await store.node_views.all()
    await connected.reassertion.take_stock()
    assert not await connected.reassertion.recall((POOL,))
    assert not await store.node_views.all()
    await connected.heartbeats.show_life(link)
    assert [view.node_id for view in await store.node_views.all()] == ["n1"]
    assert not link.is_silent


@pytest.mark.parametrize("lost", ["free", "placement"])
async def test_a_node_is_written_again_if_only_a_part_of_it_is_lost(store: Store, lost: str) -> None:
    connected = connected_to(store)
    link = await registered(connected)
    match lost:
        case "free":
            await store.line.call("ZREM", store.keys.shard(link.shard).free, "n1")
        case _:
            await store.line.call("HDEL", store.keys.placement, "n1")
    await connected.reassertion.reassert()
    assert await ledger(store, "n1") == (0, 4, 0)
    assert (await store.placements.all())["n1"] == link.place


async def test_places_are_counted_later_if_redis_goes_away_again_meanwhile(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected = connected_to(store)
    await registered(connected)
    await store.line.call("FLUSHALL")
    recount, counted = store.placements.recount, 0

    async def away(*_: Any, **__: Any) -> None:
        raise RedisAway("gone again")

    async def back(*given: Any, **named: Any) -> Any:
        nonlocal counted
        counted += 1
        return await recount(*given, **named)

    monkeypatch.setattr(store.placements, "recount", away)
    await connected.reassertion.reassert()
    assert await ledger(store, "n1") == (0, 4, 0)
    monkeypatch.setattr(store.placements, "recount", back)
    for _ in range(2):
        await connected.reassertion.reassert()
    assert counted == 1


# What taking stock finds


class Torn(Whole):
    """Redis lacks something of some nodes, perhaps only for a moment."""

    def __init__(self) -> None:
        super().__init__()
        self.torn: list[set[str]] = []
        self.lost: set[str] = set()

    async def check(self, shard: int, owner: Any, node_id: str, *more: Any) -> tuple[CheckOutcome, str]:
        await super().check(shard, owner, node_id, *more)
        return (CheckOutcome.TORN, "free") if node_id in self.torn[0] else (CheckOutcome.WHOLE, "")

    async def misplaced(self, places: Any) -> set[str]:
        return self.lost & set(places)


@pytest.mark.parametrize(
    ("torn", "lost", "is_written"),
    [
        pytest.param([set(), set()], set(), False, id="whole"),
        pytest.param([{"n0"}, {"n0"}], set(), True, id="torn"),
        pytest.param([{"n0"}, set()], set(), False, id="in the middle of a change"),
        pytest.param([set(), set()], {"n0"}, True, id="misplaced"),
    ],
)
async def test_all_nodes_are_written_again_where_redis_lacks_something_of_one(
    monkeypatch: pytest.MonkeyPatch, torn: list[set[str]], lost: set[str], is_written: bool
) -> None:
    nodes, links, written = Torn(), NodeLinks("i-here"), list[str]()
    nodes.torn, nodes.lost = torn, lost
    for serial in range(2):
        links.add(cast("Any", Counted(serial, serial)))
    store = SimpleNamespace(nodes=nodes, placements=nodes)
    reassertion = Reassertion(cast("Any", store), links, cast("Any", None), settings_with().pools)
    look, looks = reassertion._torn, 0

    async def looked(some: Any) -> Any:
        nonlocal looks
        looks += 1
        found = await look(some)
        if looks == 1:
            nodes.torn.pop(0)
        return found

    async def reassert() -> None:
        written.append("all")

    monkeypatch.setattr(reassertion, "_torn", looked)
    monkeypatch.setattr(reassertion, "reassert", reassert)
    await reassertion.take_stock()
    assert written == (["all"] if is_written else [])


async def test_after_all_were_written_again_stock_is_not_taken_for_a_while(store: Store) -> None:
    connected = connected_to(store)
    await registered(connected)
    reassertion = connected.reassertion
    now_s = 100.0
    checks: list[float] = []
    check = reassertion._nodes.check

    async def slow(*given: Any, **named: Any) -> Any:
        nonlocal now_s
        checks.append(now_s)
        now_s += 1
        return await check(*given, **named)

    reassertion._clock = lambda: now_s
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.nodes, "check", slow)
        await reassertion.reassert()
        assert checks == [100.0]
        # It took a second, so it rests for twenty.
        now_s = 120.5
        await reassertion.take_stock()
        assert len(checks) == 1
        now_s = 121.0
        await reassertion.take_stock()
        assert len(checks) == 2


async def test_a_part_of_redis_that_is_away_does_not_keep_nodes_from_being_written_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected = connected_to(store)
    link = await registered(connected)

    async def away(*_: Any) -> set[str]:
        raise RedisAway("that part of the Cluster is away")

    await store.line.call("ZREM", store.keys.shard(link.shard).free, "n1")
    monkeypatch.setattr(store.placements, "misplaced", away)
    await connected.reassertion.reassert()
    assert await ledger(store, "n1") == (0, 4, 0)


async def test_pairs_for_which_nothing_was_missing_are_forgotten_when_there_are_too_many(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected = connected_to(store)
    await registered(connected)
    monkeypatch.setattr(module, "MAX_FRUITLESS", 1)
    recall, known = connected.reassertion.recall, connected.reassertion._nothing_lost_until
    now_s = 100.0
    connected.reassertion._clock = lambda: now_s
    await recall((POOL,))
    assert known == {(POOL,): 105.0}
    await recall((POOL, POOL))
    assert known == {(POOL, POOL): 105.0}
    now_s = 105.0
    await recall((POOL, POOL))
    assert known == {(POOL, POOL): 110.0}


async def test_a_node_that_redis_loses_again_at_once_is_written_again(store: Store) -> None:
    connected = connected_to(store)
    await registered(connected)
    for _ in range(2):
        await store.line.call("FLUSHALL")
        assert await connected.reassertion.recall((POOL,))
        assert await ledger(store, "n1") == (0, 4, 0)
