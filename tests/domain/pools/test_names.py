"""The names of pools."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.domain.pools.languages import Pair
from lingua_scheduler.domain.pools.names import Facet, Pool, asked_pair, is_wide

words = st.text(min_size=1).filter(lambda word: ":" not in word)


@given(words, words, st.sampled_from(Facet))
def test_a_name_is_read_back_as_it_was_written(src: str, tgt: str, facet: Facet) -> None:
    assert Pool.parse(str(Pool(src, tgt, facet))) == (src, tgt, facet)
    assert Pair.parse(str(Pair(src, tgt))) == (src, tgt)


@pytest.mark.parametrize(
    ("name", "pool"),
    [("", ("", "", "")), ("en", ("en", "", "")), ("en:zh", ("en", "zh", "")), ("en:zh:text:x", ("en", "zh", "text:x"))],
)
def test_of_what_is_no_name_the_words_that_are_there_are_read(name: str, pool: tuple[str, str, str]) -> None:
    assert Pool.parse(name) == pool


def test_a_wide_pool_is_no_pool_of_a_pair() -> None:
    assert str(Pool.wide("0123456789abcdef")) == "*:0123456789abcdef:text"
    assert is_wide(str(Pool.wide("0")))
    assert not is_wide("en:zh:text")


@pytest.mark.parametrize(
    ("pools", "pair"),
    [
        ((), ("", "")),
        (("en:zh:speech",), ("en", "zh")),
        (("en:zh:text", "fr:zh:text"), ("auto", "zh")),
        (("en:zh:speech", "zh:en:speech"), ("auto", "en+zh")),
        (("zh:en:speech", "en:zh:speech"), ("auto", "en+zh")),
    ],
)
def test_what_a_job_asks_for_is_one_pair_or_any_of_several(pools: tuple[str, ...], pair: tuple[str, str]) -> None:
    assert asked_pair(pools) == pair
