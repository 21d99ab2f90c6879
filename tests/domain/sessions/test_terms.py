"""What a speaker may ask for, and which pools can give it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.domain.sessions.terms import MAX_AUTO_LANGS, PipelineTerms, Terms
from lingua_sdk.domain.languages import is_code
from lingua_sdk.domain.vocabulary import TWO_WAY_AUTO

TEXT_ONLY = PipelineTerms(use_tts=False)
TWO_WAY = Terms("auto", "en", mode=TWO_WAY_AUTO, lang_a="zh", lang_b="en")


def test_who_wishes_for_nothing_special_gets_everything_but_tone_and_no_partials() -> None:
    terms = Terms("en", "zh")
    assert terms.pipeline == PipelineTerms(use_asr=True, use_nmt=True, use_tts=True, use_semantic=None, use_tone=False)
    assert (terms.enable_streaming_asr, terms.partial_update_interval_ms) == (False, 1000)


# Which node is needed


def test_a_named_source_needs_one_pool() -> None:
    assert Terms("en", "zh").pools() == ("en:zh:speech",)


def test_who_wants_no_speech_is_served_by_nodes_without_a_voice() -> None:
    assert Terms("en", "zh", pipeline=TEXT_ONLY).pools() == ("en:zh:text",)
    assert TWO_WAY._replace(pipeline=TEXT_ONLY).pools() == ("zh:en:text", "en:zh:text")


def test_who_wants_no_translation_needs_a_node_for_the_source_alone() -> None:
    assert Terms("en", "zh", pipeline=PipelineTerms(use_nmt=False)).pools() == ("en:en:speech",)


def test_two_ways_need_a_node_that_serves_both() -> None:
    assert TWO_WAY.pools() == ("zh:en:speech", "en:zh:speech")


def test_two_ways_do_not_matter_when_the_source_is_named() -> None:
    assert TWO_WAY._replace(src_lang="fr").pools() == ("fr:en:speech",)


def test_an_unknown_source_needs_a_node_for_every_language_it_may_be() -> None:
    assert Terms("auto", "en", auto_langs=("zh", "ja")).pools() == ("zh:en:speech", "ja:en:speech")


def test_the_target_is_not_among_the_sources_unless_it_is_the_only_one() -> None:
    assert Terms("auto", "en", auto_langs=("en", "zh")).pools() == ("zh:en:speech",)
    assert Terms("auto", "en", auto_langs=("en",)).pools() == ("en:en:speech",)


def test_without_a_list_the_two_languages_are_what_it_may_be() -> None:
    assert Terms("auto", "en", lang_a="zh", lang_b="ja").pools() == ("zh:en:speech", "ja:en:speech")
    assert Terms("auto", "en", lang_b="ja").pools() == ("ja:en:speech",)


def test_a_list_counts_more_than_the_two_languages() -> None:
    assert Terms("auto", "en", lang_a="zh", lang_b="ja", auto_langs=("fr",)).pools() == ("fr:en:speech",)


def test_repeated_and_unreadable_sources_are_passed_over() -> None:
    assert Terms("auto", "en", auto_langs=("zh", "Chinese", "zh", "", "ja")).pools() == ("zh:en:speech", "ja:en:speech")


# What cannot be served


@pytest.mark.parametrize(
    "terms",
    [
        Terms("en", "zh"),
        Terms("zh-Hant", "pt-BR"),
        Terms("auto", "en", auto_langs=("zh",)),
        Terms("auto", "en", lang_a="zh"),
        TWO_WAY,
        TWO_WAY._replace(tgt_lang="auto"),
    ],
)
def test_what_can_be_served_is_not_complained_about(terms: Terms) -> None:
    assert terms.complaint() is None


@pytest.mark.parametrize("tgt_lang", ["", "english", "EN", "en:zh", "auto"])
def test_a_target_must_be_a_language(tgt_lang: str) -> None:
    assert (
        Terms("en", tgt_lang).complaint()
        == f"invalid tgt_lang: expected a language code such as en or zh, not {tgt_lang!r}"
    )


@pytest.mark.parametrize("src_lang", ["", "english", "EN", "AUTO", "zh;"])
def test_a_source_must_be_a_language_or_auto(src_lang: str) -> None:
    assert (
        Terms(src_lang, "en").complaint()
        == f"invalid src_lang: expected auto or a code such as en or zh, not {src_lang!r}"
    )


def test_of_what_is_no_language_the_beginning_is_quoted() -> None:
    complaint = Terms("en", "x" * 10_000).complaint()
    assert complaint is not None
    assert complaint.endswith(f", not '{'x' * 35}…'")


@pytest.mark.parametrize(
    "terms",
    [
        Terms("auto", "en"),
        Terms("auto", "en", auto_langs=()),
        Terms("auto", "en", auto_langs=("Chinese",)),
        Terms("auto", "en", lang_a="Chinese", lang_b=""),
        Terms("auto", "en", mode=TWO_WAY_AUTO),
    ],
)
def test_auto_needs_something_to_choose_from(terms: Terms) -> None:
    assert terms.complaint() == "src_lang auto requires lang_a and lang_b, or auto_langs"


def test_two_ways_with_one_unreadable_language_are_one_way() -> None:
    terms = TWO_WAY._replace(lang_b="English")
    assert terms.complaint() is None
    assert terms.pools() == ("zh:en:speech",)


words = st.sampled_from(["en", "zh", "ja", "auto", "", "English", "e:n"])
any_terms = st.builds(
    Terms,
    words,
    words,
    mode=st.sampled_from([None, TWO_WAY_AUTO, "one_way", "other"]),
    lang_a=st.none() | words,
    lang_b=st.none() | words,
    auto_langs=st.none() | st.lists(words, max_size=4).map(tuple),
    features=st.none(),
    pipeline=st.builds(PipelineTerms, use_nmt=st.booleans(), use_tts=st.booleans()),
)


@given(any_terms)
def test_what_is_not_complained_about_names_only_pools_that_can_exist(terms: Terms) -> None:
    if terms.complaint() is not None:
        return
    pools = terms.pools()
    assert pools
    for pool in pools:
        src, tgt, facet = pool.split(":")
        assert is_code(src)
        assert is_code(tgt)
        assert facet == ("speech" if terms.pipeline.use_tts else "text")


def test_a_named_source_needs_a_named_target() -> None:
    terms = TWO_WAY._replace(src_lang="en", tgt_lang="auto")
    assert terms.complaint() == "invalid tgt_lang: expected a language code such as en or zh, not 'auto'"


def test_a_list_without_end_is_refused() -> None:
    codes = tuple(f"a{letter}" for letter in "abcdefghijklmnopqrstuvwxyz")
    assert Terms("auto", "en", auto_langs=codes[:MAX_AUTO_LANGS]).complaint() is None
    refused = Terms("auto", "en", auto_langs=codes[: MAX_AUTO_LANGS + 1])
    assert refused.complaint() == "auto_langs may name at most 16 languages"
