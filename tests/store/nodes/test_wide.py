"""Wide nodes in Redis: one pool for thousands of pairs, its definition, a fair choice among wide and narrow nodes."""

from collections import Counter
from typing import Any

from lingua_scheduler.domain.cluster.leadership import PublishOutcome
from lingua_scheduler.domain.jobs.attempts import DispatchOutcome
from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.domain.nodes.nodes import DrainOutcome, RegisterOutcome, RemoveOutcome
from lingua_scheduler.domain.pools.candidates import CandidateVerdict
from lingua_scheduler.domain.pools.names import is_wide
from lingua_scheduler.domain.pools.pools import Admission, Languages, membership_of
from lingua_scheduler.store.store import Store
from tests.support.fleet import HERE, POOL, RULES, dispatch, entry, join, order, wide_codes, wide_entry, wide_languages

BACK = "zh:en:speech"
(WIDE,) = wide_entry("n").pools


async def definitions(store: Store) -> dict[str, str]:
    flat = await store.line.call("HGETALL", store.keys.shard(0).wide)
    return dict(zip(flat[::2], flat[1::2], strict=True))


async def test_a_node_with_99_languages_costs_redis_one_pool(store: Store) -> None:
    await join(store, wide_entry("w1"))
    await join(store, wide_entry("w2"))
    assert await store.line.call("SMEMBERS", store.keys.shard(0).pool(WIDE)) in (["w1", "w2"], ["w2", "w1"])
    assert await store.line.call("HGETALL", store.keys.shard(0).summary) == [WIDE, "2"]
    assert list(await definitions(store)) == [WIDE]
    pool_map = await store.pools.build_map()
    assert pool_map.nodes_of(POOL) == {0: 2}
    assert pool_map.nodes_of("xaa:xbb:text") == {0: 2}
    assert "xaa:fr:text" not in pool_map
    assert pool_map.wide_in(0, (POOL, BACK)) == (WIDE,)
    assert pool_map.wide_in(1, (POOL,)) == ()


async def test_its_nodes_are_chosen_for_any_pair_and_for_several_at_once(store: Store) -> None:
    await join(store, wide_entry("w1", max_jobs=3))
    for serial, pools in enumerate([(POOL,), ("xaa:xbc:text",), (POOL, BACK)]):
        _, placed = await dispatch(store, order(serial, pools=pools, wide=(WIDE,)))
        assert placed.node_id == "w1"
    full = await store.jobs.dispatch(0, order(9, wide=(WIDE,)), RULES)
    assert full.outcome is DispatchOutcome.FULL
    nobody = await store.jobs.dispatch(0, order(10), RULES)
    assert nobody.outcome is DispatchOutcome.NOBODY


async def test_a_preferred_wide_node_is_taken_and_says_why_it_cannot_be(store: Store) -> None:
    await join(store, wide_entry("w1", max_jobs=1))
    await join(store, wide_entry("w2"))
    wish: dict[str, Any] = {"preferred": "w1", "only_preferred": True, "wide": (WIDE,)}
    _, placed = await dispatch(store, order(1, pools=(POOL, BACK), **wish))
    assert placed.node_id == "w1"
    assert (await store.jobs.dispatch(0, order(2, **wish), RULES)).outcome is DispatchOutcome.BUSY
    unfit = order(3, preferred="w1", only_preferred=True)
    assert (await store.jobs.dispatch(0, unfit, RULES)).outcome is DispatchOutcome.UNFIT
    exhausted = order(4, excluded=("w1", "w2"), wide=(WIDE,))
    assert (await store.jobs.dispatch(0, exhausted, RULES)).outcome is DispatchOutcome.EXHAUSTED


async def test_wide_and_narrow_nodes_are_equally_likely(store: Store) -> None:
    """Two kinds of wide nodes and narrow ones, of different numbers, in one shard."""
    for number in range(6):
        await join(store, entry(f"narrow{number}", max_jobs=8))
    for number in range(3):
        await join(store, wide_entry(f"wide{number}", max_jobs=8))
    (other,) = wide_entry("n", wide_languages(40)).pools
    await join(store, wide_entry("other0", wide_languages(40), max_jobs=8))
    drawn: Counter[str] = Counter()
    for serial in range(600):
        attempt, placed = await dispatch(store, order(serial, wide=(WIDE, other)))
        drawn[placed.node_id] += 1
        await store.jobs.end(attempt, placed.epoch, JobEvent.FINISH)
    assert len(drawn) == 10
    # 60 each; so far off by chance in less than one of ten thousand runs.
    assert all(30 <= count <= 95 for count in drawn.values()), drawn


async def test_a_node_that_must_be_in_two_pools_is_found_among_both_kinds(store: Store) -> None:
    await join(store, entry("one-way", max_jobs=8))
    await join(store, entry("both-ways", pools=frozenset({POOL, BACK}), max_jobs=8))
    await join(store, wide_entry("wide", max_jobs=8))
    drawn = set()
    for serial in range(60):
        attempt, placed = await dispatch(store, order(serial, pools=(POOL, BACK), wide=(WIDE,)))
        drawn.add(placed.node_id)
        await store.jobs.end(attempt, placed.epoch, JobEvent.FINISH)
    assert drawn == {"both-ways", "wide"}


async def test_who_withdraws_a_language_cannot_be_chosen_by_an_old_map(store: Store) -> None:
    node = wide_entry("w1")
    await join(store, node)
    fewer = wide_languages(98)
    (now,) = membership_of(fewer, Admission.STRICT).pools
    changed = await store.nodes.update(0, HERE, wide_entry("w1", fewer), node.pools)
    assert changed.outcome is RegisterOutcome.REGISTERED
    assert list(await definitions(store)) == [now]
    gone = wide_codes(99)[-1]
    old = await store.jobs.dispatch(0, order(1, pools=(f"{gone}:en:text",), wide=(WIDE,)), RULES)
    assert old.outcome is DispatchOutcome.NOBODY
    await dispatch(store, order(2, wide=(now,)))
    # To a few languages, and back.
    await store.nodes.update(0, HERE, entry("w1"), frozenset({now}))
    assert await definitions(store) == {}
    await dispatch(store, order(3))
    await store.nodes.update(0, HERE, node, frozenset({POOL}))
    assert list(await definitions(store)) == [WIDE]
    assert (await store.node_views.one("w1", 0)).wide_pairs == 99 * 99  # type: ignore[union-attr]


async def test_a_drained_wide_node_comes_back_with_its_definition(store: Store) -> None:
    await join(store, wide_entry("w1"))
    for _ in range(2):
        assert (await store.nodes.drain("w1"))[0] in (DrainOutcome.DRAINED, DrainOutcome.KEPT)
    assert await definitions(store) == {}
    assert "en:zh:text" not in await store.pools.build_map()
    assert (await store.nodes.drain("w1", resume=True))[0] is DrainOutcome.RESUMED
    assert list(await definitions(store)) == [WIDE]
    assert "en:zh:text" in await store.pools.build_map()


async def test_the_definition_goes_with_the_last_member(store: Store) -> None:
    await join(store, wide_entry("w1"))
    await join(store, wide_entry("w2"))
    assert (await store.nodes.remove(0, HERE, "w1", frozenset()))[0] is RemoveOutcome.REMOVED
    assert list(await definitions(store)) == [WIDE]
    assert (await store.nodes.remove(0, HERE, "w2", frozenset()))[0] is RemoveOutcome.REMOVED
    assert (await store.nodes.remove(0, HERE, "w2", frozenset()))[0] is RemoveOutcome.GONE
    assert await definitions(store) == {}
    assert await store.line.call("HGETALL", store.keys.shard(0).summary) == []


async def test_registering_again_changes_nothing(store: Store) -> None:
    for _ in range(3):
        await join(store, wide_entry("w1", boot_id="b1"))
    assert list(await definitions(store)) == [WIDE]
    assert await store.line.call("HGET", store.keys.shard(0).summary, WIDE) == "1"


async def test_a_definition_that_cannot_be_read_hides_its_pool_and_nothing_else(store: Store) -> None:
    await join(store, wide_entry("w1"))
    await join(store, entry("n1"))
    await store.line.call("HSET", store.keys.shard(0).wide, WIDE, "{")
    pool_map = await store.pools.build_map()
    assert pool_map.nodes_of(POOL) == {0: 1}
    assert "xaa:xbb:text" not in pool_map
    # The next who registers writes it anew.
    await join(store, wide_entry("w2"))
    assert (await store.pools.build_map()).nodes_of("xaa:xbb:text") == {0: 2}


async def test_the_map_is_published_with_what_wide_pools_stand_for(store: Store) -> None:
    await join(store, wide_entry("w1"))
    _, term = await store.pools.claim("i-here", 10_000)
    built = await store.pools.build_map()
    assert (await store.pools.publish(term, built))[0] is PublishOutcome.PUBLISHED
    assert (await store.pools.publish(term, built))[0] is PublishOutcome.CONFIRMED
    read = await store.pools.read_published()
    assert read is not None
    assert read[1].nodes_of("xaa:xbb:text") == {0: 1}
    # Published by a scheduler that does not know wide pools.
    await store.line.call("HDEL", store.keys.map_config, "wide")
    read = await store.pools.read_published()
    assert read is not None
    assert "xaa:xbb:text" not in read[1]


async def test_a_survey_sees_wide_nodes_as_members(store: Store) -> None:
    await join(store, wide_entry("w1"))
    await join(store, entry("n1", pools=frozenset({"fr:de:text"})))
    found = await store.surveys.look(0, (POOL, BACK), (), (WIDE,))
    assert {one.node_id: one.verdict for one in found} == {
        "w1": CandidateVerdict.FREE,
        "n1": CandidateVerdict.NOT_IN_POOL,
    }


async def test_looks_tell_the_reach_of_a_wide_node(store: Store) -> None:
    narrow = Languages(asr=frozenset({"en"}), semantic=frozenset({"en"}), tts=frozenset({"en"}))
    assert not any(map(is_wide, membership_of(narrow, Admission.STRICT).pools))
    await join(store, wide_entry("w1"))
    views = await store.node_views.all()
    assert (views[0].pairs, views[0].wide_pairs) == ([], 9_801)
    assert "xaa:xbb:speech" in views[0].serves
    assert "fr:xbb:speech" not in views[0].serves


async def test_a_wide_pool_full_of_strangers_hides_none_of_its_nodes(store: Store) -> None:
    await join(store, wide_entry("wide"))
    await join(store, entry("narrow"))
    strangers = [f"stranger-{serial}" for serial in range(9_000)]
    await store.line.call("SADD", store.keys.shard(0).pool(WIDE), *strangers)
    both_ways, _ = await dispatch(store, order("both", pools=(POOL, BACK), wide=(WIDE,)))
    assert both_ways.node_id == "wide"
    chosen = [(await dispatch(store, order(serial, wide=(WIDE,))))[0].node_id for serial in range(3)]
    assert sorted(chosen) == ["narrow", "narrow", "wide"]
