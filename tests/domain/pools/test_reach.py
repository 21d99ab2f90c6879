"""Reach: the pairs of a node with many languages, as a value."""

from collections.abc import Iterator
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.domain.pools.names import Facet, Pool, is_wide
from lingua_scheduler.domain.pools.pools import (
    Admission,
    Languages,
    membership_of,
    reach_of,
)
from lingua_scheduler.domain.pools.reach import SPEECH, TEXT, Reach, Served, reach_named, readable, wide_pool
from lingua_sdk.domain.languages import MAX_PAIRS, Pair

EVERY = [f"a{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]

few = st.frozensets(st.sampled_from(EVERY[:7]))
many = st.frozensets(st.sampled_from(EVERY), min_size=18)


def languages_of(codes: st.SearchStrategy[frozenset[str]]) -> st.SearchStrategy[Languages]:
    pairs = st.builds(Pair, st.sampled_from(EVERY), st.sampled_from(EVERY))
    declared = st.none() | st.frozensets(pairs, max_size=40)
    return st.builds(Languages, asr=codes, semantic=codes, tts=codes, translations=declared)


@given(languages_of(few), st.sampled_from(Admission))
def test_a_reach_serves_what_the_pools_of_its_pairs_say(languages: Languages, admission: Admission) -> None:
    pools, reach = membership_of(languages, admission).pools, reach_of(languages, admission)
    for src, tgt, facet in product(EVERY[:8], EVERY[:8], Facet):
        assert reach.serves(src, tgt, facet) == (str(Pool(src, tgt, facet)) in pools)
    assert pools == set(Served(reach))
    assert len(Served(reach)) == len(pools)


@given(languages_of(many), st.sampled_from(Admission))
def test_it_is_read_as_it_was_written(languages: Languages, admission: Admission) -> None:
    reach = reach_of(languages, admission)
    text = reach.encoded()
    assert reach_named(wide_pool(text), text) == reach


@given(languages_of(many), st.sampled_from(Admission))
def test_a_wide_node_serves_each_pair_of_its_reach_and_no_other(languages: Languages, admission: Admission) -> None:
    membership = membership_of(languages, admission)
    reach = reach_of(languages, admission)
    served = [
        str(Pool(*pair, facet)) for facet in Facet for pair in product(EVERY, EVERY) if reach.serves(*pair, facet)
    ]
    assert sorted(membership.serves) == sorted(served)
    assert all(pool in membership.serves for pool in served)
    assert (membership.reach is not None) == (reach.count() > MAX_PAIRS)


@given(languages_of(many), st.sampled_from(EVERY))
def test_who_withdraws_a_language_is_in_another_pool(languages: Languages, code: str) -> None:
    def known(reach: Languages) -> frozenset[str]:
        return frozenset(Served(reach_of(reach, Admission.STRICT)))

    fewer = languages._replace(asr=languages.asr - {code}, semantic=languages.semantic - {code})
    same_pools = membership_of(fewer, Admission.STRICT).pools == membership_of(languages, Admission.STRICT).pools
    assert same_pools == (known(fewer) == known(languages))


def test_declared_pairs_that_leave_none_out_are_any() -> None:
    codes = frozenset(EVERY)
    every = frozenset(Pair(src, tgt) for src, tgt in product(EVERY, EVERY) if src != tgt)
    said = Languages(asr=codes, semantic=codes, tts=codes)
    assert (
        membership_of(said, Admission.STRICT).pools
        == membership_of(said._replace(translations=every), Admission.STRICT).pools
    )
    less = said._replace(translations=every - {Pair("aa", "ab")})
    assert not reach_of(less, Admission.STRICT).serves("aa", "ab", Facet.TEXT)
    assert reach_of(less, Admission.STRICT).serves("aa", "aa", Facet.SPEECH)


@pytest.mark.parametrize("name", ["node aa:ab:text", "retry aa:ab:text", "aa:ab", "", "*:aa:text", "aa:ab:text:more"])
def test_what_is_no_pool_of_a_pair_is_not_served(name: str) -> None:
    codes = frozenset(EVERY)
    assert name not in Served(reach_of(Languages(asr=codes, semantic=codes, tts=codes), Admission.STRICT))


def test_a_definition_that_cannot_be_read_or_has_another_name_is_left_out() -> None:
    text = reach_of(Languages(asr=frozenset(EVERY), semantic=frozenset(EVERY)), Admission.STRICT).encoded()
    name = wide_pool(text)
    stored = {name: text, "*:0000000000000000:text": text, wide_pool("[1]"): "[1]", wide_pool("{"): "{"}
    assert list(readable(stored)) == [name]
    assert all(map(is_wide, stored))
    assert not is_wide("aa:ab:text")


class Counted(frozenset[Pair]):
    """Knows how often somebody went through all of its pairs."""

    walks = 0

    def __iter__(self) -> Iterator[Pair]:
        self.walks += 1
        return super().__iter__()


def test_what_is_made_of_many_pairs_is_made_once() -> None:
    """Each picture of the fleet asks for it again, of every wide node, and there may be 16 384 pairs."""
    codes = frozenset(EVERY)
    declared = Counted(Pair(src, tgt) for src, tgt in product(EVERY, EVERY) if src < tgt)
    reach = Reach(codes, codes, codes - {"aa"}, declared)
    once = [reach.count(SPEECH), reach.count(TEXT), reach.by_source, reach.encoded()]
    walks = declared.walks
    assert [reach.count(SPEECH), reach.count(TEXT), reach.by_source, reach.encoded()] == once
    assert declared.walks == walks
    assert reach.by_source == {src: [tgt for tgt in EVERY if src < tgt] for src in EVERY[:-1]}
    assert reach.count(TEXT) == len(declared) + len(codes)
