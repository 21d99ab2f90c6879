"""What a node reports while Redis is away is written when Redis is back."""

from typing import Any

import pytest

from lingua_scheduler.domain.nodes import BeatOutcome
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
from lingua_scheduler.services.nodes.registry import NodeLink, Registry
from lingua_scheduler.store.connection import RedisAway
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
