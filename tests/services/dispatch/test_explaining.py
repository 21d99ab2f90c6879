"""Explanations: bounded, the nearest candidates first, and the missing ability by its name."""

import msgspec
import pytest

from lingua_scheduler.domain.pools.pools import Admission, Languages, reach_of
from lingua_scheduler.domain.pools.reach import Reach
from lingua_scheduler.services.cluster.pool_map import PoolMapCopy
from lingua_scheduler.services.dispatch import explaining
from lingua_scheduler.services.dispatch.explaining import MAX_BYTES, Explainer
from lingua_scheduler.store.store import Store
from tests.support.fleet import POOL, RULES, entry, join, order
from tests.support.waiting import Turns


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


def saying(language: str) -> str:
    """What a node with this voice says of itself."""
    return msgspec.json.encode({"languages": Languages(asr=frozenset({"en"}), tts=frozenset({language}))}).decode()


async def test_what_nodes_say_is_read_once_and_others_have_their_turn_in_between(
    store: Store, explainer: Explainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A profile with thousands of pairs takes milliseconds, and there may be hundreds of nodes."""
    read_in: list[int] = []

    def read(said: Languages, admission: Admission) -> Reach:
        read_in.append(turns.taken)
        return reach_of(said, admission)

    async def look() -> str:
        explainer._looked_at = float("-inf")
        return await explainer.missing(POOL)

    monkeypatch.setattr(explaining, "reach_of", read)
    for number in range(12):
        await join(store, entry(f"n{number}")._replace(profile=saying(f"x{number % 3}")))
    async with Turns() as turns:
        before = await look()
        assert len(set(read_in)) == len(read_in) == 3
        assert await look() == before
        assert len(read_in) == 3
        await join(store, entry("another")._replace(profile=saying("x3")))
        await look()
        assert len(read_in) == 4
