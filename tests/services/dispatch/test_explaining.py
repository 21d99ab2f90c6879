"""Explanations: bounded, the nearest candidates first, and the missing ability by its name."""

import time
from typing import Any

import msgspec
import pytest

from lingua_scheduler.domain.pools.lanes import Whose
from lingua_scheduler.domain.pools.pools import Admission, Languages, reach_of
from lingua_scheduler.domain.pools.reach import Reach
from lingua_scheduler.services.cluster.pool_map import PoolMapCopy
from lingua_scheduler.services.dispatch import explaining
from lingua_scheduler.services.dispatch.explaining import Explainer
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.nodes.nodes import NodeEntry
from lingua_scheduler.store.store import Store
from tests.support.fleet import POOL, RULES, entry, join, order
from tests.support.waiting import Turns

# As plain values: a limit that changes is noticed.
MAX_BYTES = 4_096


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
    assert explanation.headline == "no node for en→zh can take the job: 1 full, 1 excluded"


async def test_when_redis_cannot_be_asked_it_says_what_it_knows(store: Store, explainer: Explainer) -> None:
    await store.close()
    assert await explainer.missing_for((POOL,)) == "no node serves en→zh"


async def test_without_any_node_it_says_so(explainer: Explainer) -> None:
    explanation = await explainer.survey((POOL,), ())
    assert (explanation.headline, explanation.candidates) == (
        "no node is connected; start one with: lingua node --languages en,zh",
        [],
    )


def saying(language: str) -> str:
    """What a node with this voice says of itself."""
    return msgspec.json.encode({"languages": Languages(asr=frozenset({"en"}), tts=frozenset({language}))}).decode()


async def test_what_nodes_say_is_read_once_and_others_have_their_turn_in_between(
    store: Store, explainer: Explainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A profile with thousands of pairs takes milliseconds, and there may be hundreds of nodes."""
    read_in: list[int] = []

    def read(said: Languages, admission: Admission, *, takes_text: bool) -> Reach:
        read_in.append(turns.taken)
        return reach_of(said, admission, takes_text=takes_text)

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


async def test_a_job_that_needs_two_pools_says_when_no_single_node_serves_both(
    store: Store, pool_map: PoolMapCopy, explainer: Explainer
) -> None:
    both = ("en:zh:speech", "zh:en:speech")
    for node_id, pool in zip(("n1", "n2"), both, strict=True):
        await join(store, entry(node_id, pools=frozenset({pool})))
    await pool_map.refresh()
    assert await explainer.missing_for(both) == (
        "no single node serves en→zh and zh→en, which is needed because either language may be spoken"
    )
    # One that is not served at all says more.
    assert await explainer.missing_for(("en:zh:speech", "en:fr:speech")) == await explainer.missing("en:fr:speech")
    assert await explainer.missing_for(("en:zh:speech",)) == await explainer.missing("en:zh:speech")


async def test_the_node_that_has_the_job_is_named_and_the_others_counted(
    store: Store, pool_map: PoolMapCopy, explainer: Explainer
) -> None:
    await join(store, entry("n1", max_jobs=1))
    await store.jobs.dispatch(0, order(1), RULES)
    await pool_map.refresh()
    alone = await explainer.survey((POOL,), (), holder="n1")
    assert alone.headline == "n1 has the job; no other node serves en→zh"
    await join(store, entry("n2"))
    await pool_map.refresh()
    told = await explainer.survey((POOL,), (), holder="n1")
    assert told.headline == "n1 has the job; 1 of 1 other nodes for en→zh are free"
    assert [(one.node_id, one.verdict) for one in told.candidates] == [("n1", "has_it"), ("n2", "free")]
    assert (await explainer.survey((POOL,), ())).headline == "1 of 2 nodes for en→zh are free"
    assert (await explainer.survey((POOL,), (), "as it was")).headline == "as it was"
    assert abs(told.looked_at_ms - time.time() * 1000) < 60_000


async def test_what_is_served_is_not_missing_and_the_map_is_read_again_before_it_says_no(
    store: Store, pool_map: PoolMapCopy, explainer: Explainer
) -> None:
    await join(store, entry("n1"))
    assert await explainer.unserved((POOL,)) == ""
    assert await explainer.unserved((POOL, "en:fr:speech")) == await explainer.missing("en:fr:speech")
    await store.close()
    assert await explainer.unserved((POOL,)) == ""


async def test_nodes_that_could_serve_it_and_take_no_jobs_are_told_by_their_state(
    store: Store, explainer: Explainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    languages = Languages(asr=frozenset({"en"}), semantic=frozenset({"en", "zh"}), tts=frozenset({"zh"}))
    profile = msgspec.json.encode({"languages": languages}).decode()
    for name in ("n1", "n2"):
        await join(store, entry(name)._replace(profile=profile))
    assert await explainer.missing(POOL) == "no node accepts jobs for en→zh: those that serve it are ready"
    await store.nodes.drain("n1")
    # It is looked at again only after a while.
    assert await explainer.missing(POOL) == "no node accepts jobs for en→zh: those that serve it are ready"
    now_s = explainer._clock() + 2.0 + 1
    monkeypatch.setattr(explainer, "_clock", lambda: now_s)
    assert await explainer.missing(POOL) == "no node accepts jobs for en→zh: those that serve it are draining and ready"
    assert await explainer.missing("en:fr:speech") != await explainer.missing(POOL)


async def test_who_lacks_only_a_voice_learns_that_text_is_served(store: Store, explainer: Explainer) -> None:
    languages = Languages(asr=frozenset({"en"}), semantic=frozenset({"en", "zh"}))
    await join(store, entry("n1")._replace(profile=msgspec.json.encode({"languages": languages}).decode()))
    step = "start one with: lingua node --languages en,zh"
    assert await explainer.missing(POOL) == f"no node speaks Chinese; {step}; text without speech is served"
    assert "is served" not in await explainer.missing("en:fr:speech")


async def test_two_hundred_nodes_and_three_hundred_characters_are_enough(
    store: Store, explainer: Explainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    sample = store.placements.sample

    async def sampled(most: int) -> Any:
        asked.append(most)
        return await sample(most)

    monkeypatch.setattr(store.placements, "sample", sampled)
    await explainer.missing(POOL)
    assert asked == [200]
    assert (await explainer.survey((POOL,), (), "x" * 400)).headline == "x" * 300


async def test_while_the_shards_cannot_be_read_nothing_is_said_to_be_missing(
    explainer: Explainer, pool_map: PoolMapCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await explainer.unserved(("en:fr:speech",))

    async def away() -> None:
        raise RedisAway("gone at that moment")

    monkeypatch.setattr(pool_map, "look_again", away)
    assert await explainer.unserved(("en:fr:speech",)) == ""


async def test_text_that_no_node_takes_is_told_by_what_is_missing(store: Store) -> None:
    explainer = Explainer(store, PoolMapCopy(store.pools), Admission.STRICT)
    told = await explainer.missing("text/zh:en:speech")
    assert told == "no node that takes text translates Chinese into English and speaks English"
    assert await explainer.missing("text/en:en:speech") == "no node that takes text speaks English"


def told(pools: frozenset[str], codes: list[str], private_to: str = "") -> NodeEntry:
    said = {"languages": [codes, codes, codes, None], "tenant": private_to, "is_private": bool(private_to)}
    node = entry(f"n-{private_to or 'public'}", pools=pools)
    return node._replace(profile=msgspec.json.encode(said).decode())


async def test_private_nodes_are_explained_to_their_tenant_alone(store: Store, explainer: Explainer) -> None:
    await join(store, told(frozenset({"ko:pt:speech@acme"}), ["ko", "pt"], "acme"))
    await join(store, told(frozenset({POOL}), ["en", "zh"]))
    for tenant in ("", "beta"):
        assert "no node understands Korean" in await explainer.missing("ko:pt:speech", tenant)
    assert "those that serve it are ready" in await explainer.missing("ko:pt:speech", "acme")
    # Of a private pool, public nodes are no answer.
    assert "no node understands English" in await explainer.missing(f"{POOL}@acme", "acme")
    assert await explainer.unserved(("ko:pt:speech",), Whose("acme")) == ""
    assert await explainer.unserved(("ko:pt:speech",), Whose("beta")) != ""


async def test_a_survey_of_a_private_pool_looks_at_its_members(
    store: Store, pool_map: PoolMapCopy, explainer: Explainer
) -> None:
    await join(store, entry("own", pools=frozenset({f"{POOL}@acme"})))
    await join(store, entry("public"))
    await pool_map.refresh()
    found = await explainer.survey((f"{POOL}@acme",), ())
    assert [(one.node_id, one.verdict) for one in found.candidates] == [("own", "free"), ("public", "not_in_pool")]
    found = await explainer.survey((POOL,), ())
    assert [(one.node_id, one.verdict) for one in found.candidates] == [("public", "free"), ("own", "not_in_pool")]
