"""Explanations: bounded, the nearest candidates first, and the missing ability by its name."""

import msgspec
import pytest

from lingua_scheduler.domain.pools import Admission
from lingua_scheduler.services.cluster.pool_map import PoolMapCopy
from lingua_scheduler.services.dispatch.explaining import MAX_BYTES, Explainer
from lingua_scheduler.store.store import Store
from tests.support.fleet import POOL, RULES, entry, join, order


@pytest.fixture
async def pool_map(store: Store) -> PoolMapCopy:
    return PoolMapCopy(store.pools)


@pytest.fixture
def explainer(store: Store, pool_map: PoolMapCopy) -> Explainer:
    return Explainer(store, pool_map, Admission.STRICT)


async def test_a_large_fleet_makes_no_larger_explanation(
    store: Store, pool_map: PoolMapCopy, explainer: Explainer
) -> None:
    for i in range(60):
        await join(store, entry(f"node-with-a-rather-long-name-{i:035}"))
    await pool_map.refresh()
    explanation = await explainer.survey((POOL,), (), "x" * 10_000)
    assert len(msgspec.json.encode(explanation)) <= MAX_BYTES
    assert explanation.counts == {"free": 50}
    assert 10 < len(explanation.candidates) < 50


async def test_those_that_come_nearest_are_listed_first(
    store: Store, pool_map: PoolMapCopy, explainer: Explainer
) -> None:
    for i in range(3):
        await join(store, entry(f"elsewhere{i}", pools=frozenset({"fr:de:speech"})))
    await join(store, entry("full", max_jobs=1))
    await join(store, entry("tried"))
    await store.jobs.dispatch(0, order(1, excluded=("tried",)), RULES)
    await pool_map.refresh()
    explanation = await explainer.survey((POOL,), ("tried",))
    assert [one.verdict for one in explanation.candidates] == ["full", "excluded", *["not_in_pool"] * 3]
    assert explanation.headline == "no node for en→zh can take it: 1 full, 1 excluded"


async def test_when_redis_cannot_be_asked_it_says_what_it_knows(store: Store, explainer: Explainer) -> None:
    await store.close()
    assert await explainer.missing_for((POOL,)) == "no node serves en→zh"


async def test_without_any_node_it_says_so(explainer: Explainer) -> None:
    explanation = await explainer.survey((POOL,), ())
    assert (explanation.headline, explanation.candidates) == ("no node is connected", [])
