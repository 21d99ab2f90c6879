"""What a node reports while Redis is away is written when Redis is back, and what Redis lost is looked for."""

from typing import Any, cast

import pytest

from lingua_scheduler.domain.nodes.nodes import BeatOutcome, CheckOutcome
from lingua_scheduler.protocol.node import (
    Hardware,
    LanguageCapabilities,
    NodeHeartbeat,
    NodeRegister,
    ResourceUsage,
)
from lingua_scheduler.services.attempts.assignments import Assignments
from lingua_scheduler.services.attempts.recovery import Recovery
from lingua_scheduler.services.cluster.leadership import Leadership
from lingua_scheduler.services.cluster.pool_map import PoolMapCopy
from lingua_scheduler.services.nodes.pacing import Pace
from lingua_scheduler.services.nodes.registry import STOCK_LOOKS, STOCK_SAMPLE, NodeLink, Registry
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.nodes.nodes import Place
from lingua_scheduler.store.store import Store
from tests.support.fleet import POOL, ledger
from tests.support.schedulers import settings_with
from tests.support.walls import Wall

ENGLISH_CHINESE = LanguageCapabilities(
    asr_languages=["en", "zh"], tts_languages=["en", "zh"], semantic_languages=["en", "zh"]
)
IDLE = ResourceUsage(cpu_percent=1, mem_percent=1, running_jobs=0)
OVERLOADED = ResourceUsage(cpu_percent=100, mem_percent=100, running_jobs=0)


def beat(usage: ResourceUsage = IDLE, **more: Any) -> NodeHeartbeat:
    return NodeHeartbeat(
        node_id="n1",
        timestamp=1,
        resource_usage=usage,
        installed_services=[],
        capability_by_type=[],
        **more,
    )


@pytest.fixture
def registry(store: Store) -> Registry:
    settings = settings_with(nodes__max_cpu_percent=90)
    pool_map = PoolMapCopy(store.pools, Leadership("i-here", store.pools, 1_000))
    recovery = Recovery("i-here", store.jobs, Assignments(lambda _step, _assignment: None))
    return Registry("i-here", store.nodes, pool_map, recovery, settings)


async def registered(registry: Registry, languages: LanguageCapabilities = ENGLISH_CHINESE) -> NodeLink:
    message = NodeRegister(
        node_id="n1",
        version="1",
        platform="test",
        hardware=Hardware(cpu_cores=1, memory_gb=1),
        installed_models=[],
        capability_by_type=[],
        features_supported={},
        accept_public_jobs=True,
        language_capabilities=languages,
        max_concurrent_jobs=4,
    )
    link = await registry.register(Wall(), "c1", message)
    assert isinstance(link, NodeLink)
    return link


def away(monkeypatch: pytest.MonkeyPatch, store: Store, *calls: str) -> None:
    async def fail(*_: object) -> None:
        raise RedisAway("gone at that moment")

    for call in calls:
        monkeypatch.setattr(store.nodes, call, fail)


async def test_a_change_told_while_redis_was_away_is_written_with_the_next_beat(
    store: Store, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = await registered(registry)
    assert await registry.heartbeat(link, beat(OVERLOADED)) is BeatOutcome.ALIVE
    assert await ledger(store, "n1") == (0, None, 0)
    with monkeypatch.context() as patch:
        away(patch, store, "update")
        with pytest.raises(RedisAway):
            await registry.heartbeat(link, beat())
    assert await registry.show_life(link) is BeatOutcome.ALIVE
    assert await ledger(store, "n1") == (0, 4, 0)


async def test_what_was_put_off_survives_that_redis_is_away_when_its_turn_comes(
    store: Store, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = await registered(registry, LanguageCapabilities())
    with monkeypatch.context() as patch:
        patch.setattr(Pace, "may_beat", lambda _: False)
        assert await registry.heartbeat(link, beat(language_capabilities=ENGLISH_CHINESE)) is BeatOutcome.PUT_OFF
    with monkeypatch.context() as patch:
        away(patch, store, "adopt")
        with pytest.raises(RedisAway):
            await registry.heartbeat(link, beat(running_job_ids=["job-0-strange"]))
    await registry.heartbeat(link, beat(running_job_ids=[]))
    assert await store.line.call("SISMEMBER", store.keys.shard(0).pool(POOL), "n1")


class Counted:
    """Stands for a node whose data is whole; counts how often one is looked at."""

    looks = 0

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


def holding(shards: list[int]) -> tuple[Registry, Whole]:
    """A registry that holds a node of each of these shards."""
    nodes, nobody = Whole(), cast("Any", None)
    registry = Registry("i-here", cast("Any", nodes), nobody, nobody, settings_with())
    registry._links = {f"n{serial}": cast("Any", Counted(serial, shard)) for serial, shard in enumerate(shards)}
    Counted.looks = 0
    return registry, nodes


async def test_taking_stock_of_a_large_fleet_looks_at_a_few_nodes() -> None:
    registry, nodes = holding([serial // 100 for serial in range(20_000)])
    for _ in range(10):
        nodes.checked.clear()
        await registry.take_stock()
        assert len({shard for shard, _ in nodes.checked}) == len(nodes.checked) == STOCK_SAMPLE
    # One for each that is found, a few that are of the same shard, and those that are asked about.
    assert Counted.looks < 10 * 10 * STOCK_SAMPLE


async def test_taking_stock_of_large_shards_ends_though_they_are_few() -> None:
    registry, nodes = holding([serial // 2_000 for serial in range(20_000)])
    await registry.take_stock()
    assert len(nodes.checked) == 10
    assert Counted.looks < 2 * STOCK_LOOKS


async def test_taking_stock_misses_no_shard_of_a_few_and_in_time_no_node() -> None:
    registry, nodes = holding([0] * 10 + [1] + [2] * 5)
    seen = set()
    for _ in range(500):
        nodes.checked.clear()
        await registry.take_stock()
        assert sorted(shard for shard, _ in nodes.checked) == [0, 1, 2]
        seen.update(nodes.checked)
    assert len(seen) == 16


async def test_taking_stock_of_nobody_asks_nothing() -> None:
    registry, nodes = holding([])
    await registry.take_stock()
    assert nodes.checked == []
