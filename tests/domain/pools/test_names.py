"""The names of pools."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.domain.pools.names import (
    Facet,
    Pool,
    asked_pair,
    is_from_text,
    is_wide,
    private_name,
    private_names,
    public_name,
    tenant_of,
)
from lingua_sdk.domain.languages import Pair

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


def test_a_pool_of_text_names_the_same_pair() -> None:
    pool = Pool.from_text("zh", "en", Facet.SPEECH)
    assert (str(pool), pool.pair, pool.is_from_text) == ("text/zh:en:speech", Pair("zh", "en"), True)
    assert Pool.parse(str(pool)) == pool
    assert is_from_text(str(pool))
    assert not is_from_text("zh:en:speech")
    assert asked_pair([str(pool)]) == Pair("zh", "en")


def test_the_private_pool_of_a_tenant_has_a_name_of_its_own_and_the_same_languages() -> None:
    name = private_name("zh:en:speech", "acme")
    assert name == "zh:en:speech@acme"
    assert (Pool.parse(name), tenant_of(name), public_name(name)) == (
        Pool("zh", "en", "speech"),
        "acme",
        "zh:en:speech",
    )
    assert private_names(("a:b:text", "b:a:text"), "acme") == ("a:b:text@acme", "b:a:text@acme")
    from_text = private_name(str(Pool.from_text("zh", "en", "text")), "acme")
    assert from_text == "text/zh:en:text@acme"
    assert (Pool.parse(from_text), is_from_text(from_text)) == (Pool.from_text("zh", "en", "text"), True)
    assert (tenant_of(from_text), public_name(from_text)) == ("acme", "text/zh:en:text")
    wide = private_name(str(Pool.wide("0123")), "acme")
    assert (is_wide(wide), tenant_of(wide)) == (True, "acme")


@pytest.mark.parametrize("name", ["zh:en:speech", "*:0123:text", "", "zh", "zh@acme:en:speech", "zh:en@acme:speech"])
def test_no_other_name_is_that_of_a_private_pool(name: str) -> None:
    assert (tenant_of(name), public_name(name)) == ("", name)
