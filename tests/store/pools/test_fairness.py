"""Every node of a pool is equally likely to get a job, however the pool is spread over shards."""

import asyncio
import math
import random
from collections import Counter

import pytest

from lingua_scheduler.domain.jobs.attempts import Attempt, DispatchOutcome
from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.domain.pools.selection import PoolMap
from lingua_scheduler.store.store import Store
from tests.support.clocks import Clock
from tests.support.fleet import HERE, POOL, RULES, entry, order

SHARDS = {0: 100, 1: 100, 2: 5}
PICKS = 50_000


async def fill(store: Store, shards: dict[int, int], **more: object) -> None:
    for shard, count in shards.items():
        await asyncio.gather(
            *(store.nodes.register(shard, HERE, entry(f"n{shard}-{i}", max_jobs=1_000, **more)) for i in range(count))  # type: ignore[arg-type]
        )


@pytest.mark.timeout(600)
async def test_every_node_gets_its_share_of_fifty_thousand_picks(shipped_server: object) -> None:
    store = Store(shipped_server.url, key_prefix="fair:v1")  # type: ignore[attr-defined]
    await store.open()
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    await fill(store, SHARDS, alive_ms=3_600_000)
    pool_map = PoolMap({POOL: SHARDS})
    picked: Counter[str] = Counter()

    async def pick(serial: int) -> None:
        shard = pool_map.shard_order(POOL, dice.random())[0]
        placed = await store.jobs.dispatch(shard, order(serial), RULES)
        assert placed.outcome is DispatchOutcome.DISPATCHED
        picked[placed.node_id] += 1
        await store.jobs.end(Attempt(f"job-0-{serial}", 1, placed.node_id, shard), placed.epoch, JobEvent.FINISH)

    for wave in range(0, PICKS, 500):
        await asyncio.gather(*(pick(wave + i) for i in range(500)))
    await store.close()
    nodes = sum(SHARDS.values())
    mean = PICKS / nodes
    deviation = math.sqrt(PICKS * (1 / nodes) * (1 - 1 / nodes))
    assert len(picked) == nodes
    # With so many nodes, four deviations are left by chance in one run of 75; five and a half in one of 100 000.
    assert all(abs(count - mean) < 5.5 * deviation for count in picked.values()), (mean, deviation, picked)


async def test_no_shard_is_out_of_reach_behind_an_empty_one(store: Store) -> None:
    await fill(store, {1: 2})
    # The map still believes in nodes of shard 0, which are gone.
    pool_map = PoolMap({POOL: {0: 100, 1: 2}})
    outcomes = []
    for serial, shard in enumerate(pool_map.shard_order(POOL, 0.0)):
        outcomes.append((shard, (await store.jobs.dispatch(shard, order(serial), RULES)).outcome))
    assert outcomes == [(0, DispatchOutcome.NOBODY), (1, DispatchOutcome.DISPATCHED)]


async def test_a_living_node_is_always_found_among_dead_ones(store: Store, clock: Clock) -> None:
    await fill(store, {0: 99}, alive_ms=1_000)
    await store.nodes.register(0, HERE, entry("alive", max_jobs=1_000))
    clock.pass_ms(1_000)
    placed = await asyncio.gather(*(store.jobs.dispatch(0, order(i), RULES) for i in range(500)))
    assert {one.node_id for one in placed} == {"alive"}
