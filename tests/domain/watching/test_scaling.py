"""How many slots are wanted: never fewer for more load, bounded, and each slot that exists counted once."""

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.domain.watching.pair_work import PairDemand, ScalingLook
from lingua_scheduler.domain.watching.picture import NodeLook, WideLook
from lingua_scheduler.domain.watching.scaling import MAX_SLOTS, Capacity, Scaling, scaling_of, slots_for
from tests.support.pictures import node, picture

HEADROOM = 1.5
loads = st.floats(0, 10_000, allow_nan=False)


def demand(name: str, load: float, **more: Any) -> PairDemand:
    src, _, tgt = name.partition(":")
    said: dict[str, Any] = {"arrivals_per_s": load, "node_s_per_job": 1.0, "real_time_factor": 0.5, "waiting": 0}
    return PairDemand(src=src, tgt=tgt, load=load, **(said | more))


def serving(node_id: str, *pairs: str, **more: Any) -> NodeLook:
    return node(node_id, speech=list(pairs), text=list(pairs), **more)


def scaled(
    nodes: list[NodeLook],
    *pairs: PairDemand,
    asked: tuple[str, ...] | None = None,
    is_settled: bool = True,
    only_served: bool = False,
    wide: tuple[WideLook, ...] = (),
) -> Scaling:
    look = ScalingLook(is_settled=is_settled, headroom=HEADROOM, pairs=list(pairs))
    return scaling_of(picture(nodes=nodes, wide=list(wide), scaling=look), asked, only_served)


# The formula


@given(loads, loads, st.floats(0, 5))
def test_more_load_never_wants_fewer_slots(load: float, more: float, headroom: float) -> None:
    assert slots_for(load + more, headroom) >= slots_for(load, headroom)


@given(loads, st.floats(0, 5))
def test_there_is_always_more_than_the_load_and_no_more_than_the_headroom(load: float, headroom: float) -> None:
    slots = slots_for(load, headroom)
    assert load - 0.01 <= slots <= load + headroom * math.sqrt(load) + 1


@given(st.lists(loads, min_size=1, max_size=8))
def test_a_shared_pool_needs_no_more_than_pools_of_their_own(parts: list[float]) -> None:
    assert slots_for(sum(parts), HEADROOM) <= sum(slots_for(load, HEADROOM) for load in parts)


def test_no_load_wants_nothing_and_no_load_wants_without_end() -> None:
    assert slots_for(0.0, HEADROOM) == 0
    assert slots_for(1e12, HEADROOM) == MAX_SLOTS
    assert [slots_for(load, HEADROOM) for load in (0.01, 1.0, 4.0, 16.0, 100.0)] == [1, 3, 7, 22, 115]


def waits(load: float, slots: int) -> float:
    """Erlang C: which share of jobs waits for a slot."""
    blocked = 1.0
    for number in range(1, slots + 1):
        blocked = load * blocked / (number + load * blocked)
    return slots * blocked / (slots - load * (1 - blocked))


@pytest.mark.parametrize("load", [1.0, 3.7, 10.0, 50.0, 400.0])
def test_with_the_default_headroom_at_most_one_job_in_ten_or_so_waits(load: float) -> None:
    assert 0.001 < waits(load, slots_for(load, HEADROOM)) < 0.12


# What there is


def test_a_node_of_several_pairs_counts_in_each_and_once_in_the_sum() -> None:
    nodes = [
        serving("a", "en:zh", "zh:en", max_jobs=4, held=1, free=3),
        serving("b", "en:zh", max_jobs=2, held=2, free=0),
    ]
    found = scaled(nodes, demand("en:zh", 4.0), demand("zh:en", 4.0))
    assert [one.capacity.slots for one in found.pairs] == [6, 4]
    assert found.capacity == Capacity(nodes=2, slots=6, free=3, busy=3)


def test_pairs_that_share_nodes_share_their_headroom_and_others_do_not() -> None:
    demands = (demand("en:zh", 4.0), demand("zh:en", 4.0))
    assert [one.wanted_slots for one in scaled([], *demands).pairs] == [7, 7]
    apart = scaled([serving("a", "en:zh"), serving("b", "zh:en")], *demands)
    assert apart.wanted_slots == 7 + 7
    shared = scaled([serving("a", "en:zh", "zh:en")], *demands)
    assert shared.wanted_slots == slots_for(8.0, HEADROOM) == 13
    # One node is enough to let a slot of the one serve the other.
    chained = scaled([serving("a", "en:zh"), serving("b", "zh:en"), serving("c", "en:zh", "zh:en")], *demands)
    assert chained.wanted_slots == 13


def test_a_wide_node_counts_in_the_pairs_it_reaches_and_once_in_the_sum() -> None:
    counts: dict[str, Any] = {"nodes": 1, "slots": 4, "free": 4, "text_nodes": 1, "pairs": 4}
    langs = ["en", "zh"]
    wide = WideLook(name="*:w:text", sources=langs, text=langs, speech=langs, **counts)
    nodes = [node("w", wide="*:w:text", speech=[], text=[]), serving("a", "en:zh")]
    found = scaled(nodes, demand("en:zh", 4.0), demand("zh:en", 4.0), demand("de:en", 1.0), wide=(wide,))
    assert [(f"{one.src}:{one.tgt}", one.capacity.slots) for one in found.pairs] == [
        ("en:zh", 8),
        ("zh:en", 4),
        ("de:en", 0),
    ]
    assert found.capacity.slots == 8
    # de:en was served a moment ago, as its node time says.
    assert found.wanted_slots == 13 + 3


def test_private_nodes_are_no_capacity_and_drained_ones_are_counted_as_such() -> None:
    nodes = [
        serving("own", "en:zh", is_private=True, tenant="acme"),
        serving("leaving", "en:zh", state="draining", free=None, held=3),
        serving("sick", "en:zh", state="quarantined", held=1),
        serving("a", "en:zh", held=2, free=2),
    ]
    found = scaled(nodes, demand("en:zh", 1.0))
    assert found.capacity == Capacity(nodes=1, slots=4, free=2, busy=6, draining=4)


def test_a_pair_that_no_node_ever_served_counts_only_where_there_is_no_node_at_all() -> None:
    strange = demand("xx:yy", 50.0, node_s_per_job=None)
    assert scaled([], strange).wanted_slots == slots_for(50.0, HEADROOM)
    with_others = scaled([serving("a", "en:zh")], strange, demand("en:zh", 1.0))
    assert (with_others.wanted_slots, with_others.load) == (3, 1.0)
    assert [one.wanted_slots for one in with_others.pairs] == [61, 3]
    # Its own nodes can still be scaled by it.
    assert scaled([serving("a", "en:zh")], strange, asked=("xx:yy",)).wanted_slots == 61


def test_pairs_can_be_chosen_and_those_without_load_want_nothing() -> None:
    nodes = [serving("a", "en:zh", "zh:en"), serving("b", "de:fr")]
    demands = (demand("en:zh", 4.0, waiting=2), demand("de:fr", 9.0))
    found = scaled(nodes, *demands, asked=("en:zh", "zh:en"))
    assert (found.wanted_slots, found.capacity.slots, found.waiting, found.load) == (7, 4, 2, 4.0)
    assert [(one.src, one.wanted_slots) for one in found.pairs] == [("en", 7), ("zh", 0)]


def test_without_load_and_without_nodes_nothing_is_wanted() -> None:
    found = scaled([])
    assert (found.wanted_slots, found.capacity, found.pairs) == (0, Capacity(), [])


def test_until_a_window_is_measured_no_fewer_slots_are_wanted_than_there_are() -> None:
    nodes = [serving("a", "en:zh"), serving("b", "de:fr")]
    found = scaled(nodes, demand("en:zh", 0.5), is_settled=False)
    assert (found.is_settled, found.wanted_slots, found.pairs[0].wanted_slots) == (False, 8, 4)
    assert scaled(nodes, demand("en:zh", 50.0), is_settled=False).wanted_slots == 61


def test_for_one_tenant_pairs_without_nodes_are_left_out() -> None:
    found = scaled([serving("a", "en:zh")], demand("en:zh", 1.0), demand("xx:yy", 5.0), only_served=True)
    assert [(one.src, one.tgt) for one in found.pairs] == [("en", "zh")]
    asked = scaled([serving("a", "en:zh")], demand("xx:yy", 5.0), asked=("xx:yy",), only_served=True)
    assert (asked.wanted_slots, asked.waiting, asked.pairs) == (0, 0, [])


@given(st.lists(st.tuples(st.sampled_from(["en:zh", "zh:en", "de:fr", "fr:de"]), loads), max_size=4), loads)
def test_more_load_of_any_pair_never_wants_fewer_slots_in_all(some: list[tuple[str, float]], more: float) -> None:
    nodes = [serving("a", "en:zh", "zh:en"), serving("b", "zh:en", "de:fr"), serving("c", "fr:de")]
    table = dict(some)
    rows = [demand(name, load) for name, load in table.items()]
    before = scaled(nodes, *rows).wanted_slots
    for name in table:
        risen = [demand(row_name, load + more * (row_name == name)) for row_name, load in table.items()]
        assert scaled(nodes, *risen).wanted_slots >= before
    assert before >= max((slots_for(load, HEADROOM) for load in table.values()), default=0)


def test_the_answer_is_flat_json_with_one_number_to_scale_by() -> None:
    said = msgspec.json.decode(msgspec.json.encode(scaled([serving("a", "en:zh")], demand("en:zh", 4.0))))
    assert said["wanted_slots"] == 7
    assert said["pairs"][0]["wanted_slots"] == 7
    assert said["pairs"][0]["capacity"]["slots"] == 4
