"""What a node makes of text: translation and speech without recognition."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.domain.pools.names import Facet, Pool, is_from_text, is_wide
from lingua_scheduler.domain.pools.pools import Admission, Languages, membership_of, reach_of, why_unpooled
from lingua_scheduler.domain.pools.reach import reach_named
from lingua_scheduler.domain.pools.text_reach import text_reach
from lingua_sdk.domain.languages import MAX_PAIRS, Pair

CODES = ["de", "en", "pt", "zh"]
some = st.frozensets(st.sampled_from(CODES))
declared = st.none() | st.frozensets(st.builds(Pair, st.sampled_from(CODES), st.sampled_from(CODES)))


def langs(codes: str = "") -> frozenset[str]:
    return frozenset(codes.split())


def pools(languages: Languages, admission: Admission = Admission.STRICT) -> set[str]:
    return set(membership_of(languages, admission, takes_text=True).pools)


@given(some, some, declared)
def test_it_serves_the_pools_it_names_and_no_others(
    read: frozenset[str], voices: frozenset[str], pairs: frozenset[Pair] | None
) -> None:
    reach = text_reach(read, voices, pairs)
    every = {
        str(pool)
        for src, tgt, facet in product(CODES, CODES, Facet)
        if reach is not None and reach.serves_pool(pool := Pool.from_text(src, tgt, facet))
    }
    named = list(reach.pools()) if reach is not None else []
    assert set(named) == every
    assert len(named) == len(every) == (reach.pool_count if reach is not None else 0)


def test_a_node_that_only_translates_joins_pools_of_text() -> None:
    assert pools(Languages(translations=frozenset({Pair("zh", "en")}))) == {"text/zh:en:text"}


def test_a_node_that_only_speaks_joins_pools_of_text_and_translates_nothing() -> None:
    assert pools(Languages(tts=langs("pt en"))) == {"text/pt:pt:speech", "text/en:en:speech"}


def test_a_node_that_only_recognises_joins_the_pool_of_its_language() -> None:
    languages = Languages(asr=langs("zh"), semantic=langs("zh"), translations=frozenset())
    assert pools(languages) == {"zh:zh:text"}


def test_without_declared_pairs_it_translates_between_all_languages_it_knows() -> None:
    able = Languages(asr=langs("zh"), semantic=langs("zh"), tts=langs("en"))
    assert pools(able) - set(membership_of(able, Admission.STRICT).pools) == {
        "text/zh:en:text",
        "text/zh:en:speech",
        "text/en:en:speech",
    }


@given(st.builds(Languages, asr=some, semantic=some, tts=some, translations=declared), st.sampled_from(Admission))
def test_the_pools_of_speech_stay_as_they_are(languages: Languages, admission: Admission) -> None:
    assert {pool for pool in pools(languages, admission) if not is_from_text(pool)} == set(
        membership_of(languages, admission).pools
    )


@pytest.mark.parametrize("listens", [True, False])
def test_a_wide_node_has_its_texts_in_the_same_pool(listens: bool) -> None:
    every = frozenset(Pair(f"a{a}", f"b{b}") for a in "abcdefghijklmnopq" for b in "abcdefghijklmnopq")
    assert len(every) > MAX_PAIRS
    languages = Languages(langs("aa") if listens else langs(), langs("aa"), langs("ba"), every)
    membership = membership_of(languages, Admission.STRICT, takes_text=True)
    (pool,) = membership.pools
    assert is_wide(pool)
    reach = reach_of(languages, Admission.STRICT, takes_text=True)
    assert reach_named(pool, membership.definition) == reach
    assert "text/ac:bd:text" in membership.serves
    assert "text/ac:ba:speech" in membership.serves
    assert "text/ac:bd:speech" not in membership.serves
    assert ("aa:bb:text" in membership.serves) == listens
    assert sorted(membership.serves) == sorted(set(membership.serves))
    assert len(membership.serves) == len(list(membership.serves))


def test_a_node_that_takes_text_is_not_told_to_declare_recognition() -> None:
    languages = Languages(translations=frozenset({Pair("zh", "en")}))
    assert why_unpooled(languages, Admission.STRICT, takes_text=True) is None
    assert why_unpooled(languages, Admission.STRICT) is not None
