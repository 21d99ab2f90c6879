"""Every node of a pool is equally likely, however the pool is spread over shards."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.domain.pools import selection
from lingua_scheduler.domain.pools.pools import Admission, reach_of
from lingua_scheduler.domain.pools.reach import wide_pool
from lingua_scheduler.domain.pools.selection import PoolMap
from tests.support.fleet import wide_codes, wide_languages

POOL = "en:zh:speech"
LAST_DICE = 1 - 2**-53  # the greatest that random.random() throws


def order(shards: dict[int, int], dice: float) -> list[int]:
    return PoolMap({POOL: shards}).shard_order(POOL, dice)


def test_a_pool_nobody_serves_has_no_shards() -> None:
    pool_map = PoolMap({POOL: {0: 1}, "empty": {}})
    assert pool_map.shard_order("fr:de:text", 0.5) == []
    assert pool_map.shard_order("empty", 0.5) == []
    assert pool_map.first_shard("fr:de:text", 0.5) is None
    assert pool_map.other_shards("fr:de:text", 0) == []
    assert "fr:de:text" not in pool_map
    assert "empty" not in pool_map
    assert POOL in pool_map


def test_a_shard_that_holds_no_node_any_more_is_not_tried() -> None:
    for dice in (0.0, 0.5, LAST_DICE):
        assert order({1: 0, 2: 3, 3: 0, 4: 1}, dice) in ([2, 4], [4, 2])
        assert order({1: 0}, dice) == []
    assert POOL not in PoolMap({POOL: {1: 0, 2: 0}})


def test_one_shard_needs_no_dice() -> None:
    assert order({7: 3}, 0.0) == order({7: 3}, LAST_DICE) == [7]


def test_the_first_shard_changes_exactly_where_its_share_of_the_nodes_ends() -> None:
    # 3 + 1 + 4 nodes in eight equal steps of the dice.
    firsts = [order({5: 3, 2: 1, 9: 4}, step / 8)[0] for step in range(8)]
    assert firsts == [5, 5, 5, 2, 9, 9, 9, 9]
    assert order({5: 3, 2: 1, 9: 4}, 3 / 8 - 2**-40)[0] == 5
    assert order({5: 3, 2: 1, 9: 4}, 4 / 8 - 2**-40)[0] == 2


def test_the_others_follow_fullest_first() -> None:
    shards = {1: 10, 2: 30, 3: 20, 4: 40}
    assert order(shards, 0.0) == [1, 4, 2, 3]
    assert order(shards, LAST_DICE) == [4, 2, 3, 1]


sizes = st.dictionaries(st.integers(0, 999), st.integers(1, 100), min_size=1, max_size=12)


@given(sizes)
def test_stepping_through_the_dice_every_node_comes_up_once(shards: dict[int, int]) -> None:
    total = sum(shards.values())
    # In the middle of each step, so that rounding cannot push a throw over the edge.
    firsts = [order(shards, float(Fraction(2 * step + 1, 2 * total)))[0] for step in range(total)]
    assert {shard: firsts.count(shard) for shard in shards} == shards


@given(sizes, st.floats(0, 1, exclude_max=True) | st.just(LAST_DICE))
def test_every_shard_is_tried_once_whatever_the_dice_say(shards: dict[int, int], dice: float) -> None:
    tried = order(shards, dice)
    assert sorted(tried) == sorted(shards)
    rest = [shards[shard] for shard in tried[1:]]
    assert rest == sorted(rest, reverse=True)


@pytest.mark.parametrize("total", [2**20 + 1, 100_000, 2**52])
def test_the_greatest_throw_still_finds_a_shard_in_the_largest_fleet(total: int) -> None:
    assert order({1: total - 1, 2: 1}, LAST_DICE) in ([1, 2], [2, 1])


def test_a_map_is_a_copy() -> None:
    counts = {POOL: {0: 1}}
    pool_map = PoolMap(counts)
    counts[POOL][0] = 99
    counts["more"] = {0: 1}
    assert pool_map.nodes == {POOL: {0: 1}}


def test_a_pool_may_be_in_one_shard_or_several_or_none() -> None:
    pool_map = PoolMap({"one": {3: 5, 4: 0}, "two": {3: 5, 4: 1}})
    assert [
        first and first.is_only for first in (pool_map.first_shard(pool, 0.5) for pool in ("one", "two", "none"))
    ] == [
        True,
        False,
        None,
    ]


# Wide pools

REACH = reach_of(wide_languages(), Admission.STRICT)
WIDE = "*:0123456789abcdef:text"


def test_a_pair_is_served_by_its_own_pool_and_by_wide_ones() -> None:
    pool_map = PoolMap({"en:zh:speech": {0: 1}, WIDE: {0: 2, 3: 1}}, {WIDE: REACH})
    assert pool_map.nodes_of("en:zh:speech") == {0: 3, 3: 1}
    assert pool_map.nodes_of("xaa:xab:text") == {0: 2, 3: 1}
    firsts = [pool_map.first_shard("en:zh:speech", dice / 8) for dice in range(8)]
    assert [first and first.shard for first in firsts] == [0] * 6 + [3] * 2
    assert pool_map.other_shards("xaa:xab:text", 0) == [3]
    first = pool_map.first_shard("xaa:xab:text", 0.5)
    assert first is not None
    assert not first.is_only
    assert "xaa:fr:text" not in pool_map
    assert pool_map.other_shards("xaa:fr:text", 0) == []
    assert WIDE not in pool_map
    assert set(pool_map.nodes) == {"en:zh:speech"}
    assert set(pool_map.counts) == {"en:zh:speech", WIDE}


def test_a_wide_pool_is_handed_over_only_if_it_serves_all_that_is_needed() -> None:
    pool_map = PoolMap({WIDE: {3: 1}}, {WIDE: REACH})
    for _ in range(2):
        assert pool_map.wide_in(3, ("en:zh:speech", "zh:en:speech")) == (WIDE,)
        assert pool_map.wide_in(3, ("en:zh:speech", "fr:en:speech")) == ()
        assert pool_map.wide_in(0, ("en:zh:speech",)) == ()


def test_a_wide_pool_that_nobody_can_read_is_of_no_use() -> None:
    pool_map = PoolMap({WIDE: {3: 1}})
    assert "en:zh:speech" not in pool_map
    assert pool_map.wide_in(3, ("en:zh:speech",)) == ()
    assert pool_map.wide == {}


def test_so_many_questions_are_remembered_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "REMEMBERED_MAX", 3)
    pool_map = PoolMap({WIDE: {3: 1}}, {WIDE: REACH})
    for code in wide_codes(20):
        pool = f"en:{code}:text"
        assert pool in pool_map
        assert pool_map.wide_in(3, (pool,)) == (WIDE,)
    assert len(pool_map._spreads) <= 3
    assert len(pool_map._serving) <= 3


def test_all_of_several_pools_are_served_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "REMEMBERED_MAX", 3)
    pool_map = PoolMap({POOL: {0: 1}, "zh:en:speech": {1: 1}, "empty": {}})
    for _ in range(2):  # the second time from memory
        assert pool_map.serves_all((POOL,))
        assert pool_map.serves_all((POOL, "zh:en:speech"))
        assert not pool_map.serves_all((POOL, "empty"))
        assert not pool_map.serves_all(("fr:de:text",))
    assert len(pool_map._all_served) <= 3


def test_private_nodes_are_in_the_map_of_their_tenant_alone() -> None:
    reach = reach_of(wide_languages(), Admission.STRICT)
    wide = wide_pool(reach.encoded())
    counts = {POOL: {0: 2}, f"{POOL}@acme": {1: 3}, "ko:pt:text@acme": {0: 0}, f"{wide}@beta": {2: 1}}
    found = PoolMap(counts, {f"{wide}@beta": reach})
    assert set(found.private) == {"acme", "beta"}
    assert found.nodes_of(POOL) == {0: 2}
    assert found.shard_order(POOL, 0.5) == [0]
    assert (found.wide, found.wide_in(2, (POOL,))) == ({}, ())
    assert f"{POOL}@acme" not in found
    acme, beta = found.private["acme"], found.private["beta"]
    assert (acme.shard_order(POOL, 0.5), acme.private) == ([1], {})
    assert beta.wide_in(2, (POOL,)) == (wide,)
    assert beta.nodes_of(POOL) == {2: 1}
    # What is published is all of it, and is read back as the same.
    assert found.definitions == {f"{wide}@beta": reach.encoded()}
    assert found.counts == {pool: {shard: n for shard, n in shards.items() if n} for pool, shards in counts.items()}


def test_a_fleet_without_private_nodes_has_no_maps_of_tenants() -> None:
    assert PoolMap({POOL: {0: 2}}).private == {}
    assert PoolMap({f"{POOL}@acme": {0: 0}}).private == {}
