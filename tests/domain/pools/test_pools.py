"""Which pools a node is in, by each rule of admission."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.domain.pools.names import Facet, Pool, is_wide, private_name, public_name, tenant_of
from lingua_scheduler.domain.pools.pools import (
    Admission,
    Languages,
    membership_of,
    missing_abilities,
    private_membership,
    why_unpooled,
)
from lingua_sdk.domain.languages import MAX_PAIRS, Pair
from tests.support.fleet import wide_languages


def able(asr: str = "", semantic: str = "", tts: str = "", translations: str | None = None) -> Languages:
    """Languages from words: `able("en zh", "en", "zh", "en:zh")`."""
    return Languages(
        frozenset(asr.split()),
        frozenset(semantic.split()),
        frozenset(tts.split()),
        None if translations is None else frozenset(Pair(*pair.split(":")) for pair in translations.split()),
    )


def strict(languages: Languages) -> set[str]:
    return set(membership_of(languages, Admission.STRICT).pools)


def test_a_pool_is_named_by_its_pair_and_facet() -> None:
    assert str(Pool("zh", "en", Facet.SPEECH)) == "zh:en:speech"
    assert str(Pool("en", "zh", Facet.TEXT)) == "en:zh:text"


def test_a_node_that_says_nothing_is_in_no_pool() -> None:
    for admission in Admission:
        assert membership_of(Languages(), admission).pools == frozenset()


# strict


def test_a_source_must_be_recognised_and_repaired() -> None:
    assert strict(able(asr="en", tts="en zh")) == set()
    assert strict(able(semantic="en", tts="en zh")) == set()
    assert strict(able(asr="en", semantic="zh", tts="en zh")) == set()
    assert "en:zh:speech" in strict(able(asr="en", semantic="en", tts="zh"))


def test_without_declared_translations_any_known_language_is_a_target() -> None:
    assert strict(able(asr="en fr", semantic="en de", tts="zh")) == {
        "en:en:text",
        "en:fr:text",
        "en:de:text",
        "en:zh:text",
        "en:zh:speech",
    }


def test_declared_translations_are_the_only_ones() -> None:
    assert strict(able(asr="en zh", semantic="en zh", tts="en zh", translations="en:zh")) == {
        "en:zh:speech",
        "en:zh:text",
        # Nothing has to be translated between a language and itself.
        "en:en:speech",
        "en:en:text",
        "zh:zh:speech",
        "zh:zh:text",
    }


def test_a_declared_target_that_is_in_no_list_is_served_as_text() -> None:
    pools = strict(able(asr="en", semantic="en", translations="en:ja"))
    assert pools == {"en:ja:text", "en:en:text"}


def test_a_declared_pair_whose_source_is_not_recognised_is_not_served() -> None:
    assert strict(able(asr="en", semantic="en", translations="fr:de")) == {"en:en:text"}


def test_a_node_that_declares_no_translation_at_all_only_echoes() -> None:
    assert strict(able(asr="en", semantic="en", tts="en zh", translations="")) == {"en:en:speech", "en:en:text"}


def test_only_a_target_that_is_spoken_has_the_speech_facet() -> None:
    pools = strict(able(asr="en zh", semantic="en zh", tts="en", translations="en:zh zh:en"))
    assert "zh:en:speech" in pools
    assert "en:zh:text" in pools
    assert "en:zh:speech" not in pools


# asr_tts


def test_asr_tts_is_the_plain_product_once_anything_is_repaired() -> None:
    languages = able(asr="en zh", semantic="ja", tts="fr", translations="en:de")
    assert membership_of(languages, Admission.ASR_TTS).pools == {
        "en:fr:speech",
        "en:fr:text",
        "zh:fr:speech",
        "zh:fr:text",
    }


def test_asr_tts_still_needs_something_that_is_repaired() -> None:
    assert membership_of(able(asr="en", tts="zh"), Admission.ASR_TTS).pools == frozenset()


# asr_semantic


def test_asr_semantic_is_the_product_of_the_two_and_speaks_what_is_spoken() -> None:
    languages = able(asr="en", semantic="zh fr", tts="fr", translations="en:de")
    assert membership_of(languages, Admission.ASR_SEMANTIC).pools == {"en:zh:text", "en:fr:text", "en:fr:speech"}


# The rule as one sentence, for any lists

codes = st.frozensets(st.sampled_from(["de", "en", "fr", "ja", "zh"]))
pairs = st.frozensets(st.builds(Pair, st.sampled_from(["de", "en", "ko"]), st.sampled_from(["en", "fr", "ko"])))
any_languages = st.builds(Languages, codes, codes, codes, st.none() | pairs)


def serves(languages: Languages, admission: Admission, src: str, tgt: str) -> bool:
    asr, semantic, tts, translations = languages
    if admission is Admission.ASR_TTS:
        return src in asr and tgt in tts and len(semantic) > 0
    if admission is Admission.ASR_SEMANTIC:
        return src in asr and tgt in semantic
    known = tgt in asr or tgt in semantic or tgt in tts
    translated = src == tgt or (known if translations is None else (src, tgt) in translations)
    return src in asr and src in semantic and translated


@given(any_languages, st.sampled_from(Admission))
def test_every_pool_follows_from_the_rule_and_no_other_does(languages: Languages, admission: Admission) -> None:
    every = ["de", "en", "fr", "ja", "ko", "zh"]
    served = {(src, tgt) for src in every for tgt in every if serves(languages, admission, src, tgt)}
    expected = {f"{src}:{tgt}:text" for src, tgt in served}
    expected |= {f"{src}:{tgt}:speech" for src, tgt in served if tgt in languages.tts}

    assert membership_of(languages, admission).pools == expected


@given(any_languages, st.sampled_from(Admission), st.sampled_from(["asr", "semantic", "tts"]))
def test_a_list_that_shrinks_never_adds_a_pool(languages: Languages, admission: Admission, field: str) -> None:
    shrunk = languages._replace(**{field: frozenset()})
    assert membership_of(shrunk, admission).pools <= membership_of(languages, admission).pools


# How many

many = frozenset(f"{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(17))
every_pair = {(src, tgt) for src in many for tgt in many}


def test_a_node_with_more_pairs_is_in_one_pool_for_all_of_them() -> None:
    languages = Languages(asr=many, semantic=many, tts=many)
    (pool,) = membership_of(languages, Admission.STRICT).pools
    assert is_wide(pool)
    membership = membership_of(languages, Admission.STRICT)
    assert all(f"{src}:{tgt}:{facet.value}" in membership.serves for src, tgt in every_pair for facet in Facet)
    assert len(membership.serves) == 2 * len(every_pair)


def test_nodes_with_the_same_languages_share_their_pool() -> None:
    one = Languages(asr=frozenset(sorted(many)), semantic=many, tts=many)
    other = Languages(asr=frozenset(sorted(many, reverse=True)), semantic=many, tts=many)
    third = Languages(asr=many, semantic=many, tts=frozenset(sorted(many)[1:]))
    assert membership_of(one, Admission.STRICT).pools == membership_of(other, Admission.STRICT).pools
    assert membership_of(one, Admission.STRICT).pools != membership_of(third, Admission.STRICT).pools


@pytest.mark.parametrize(("sources", "is_narrow"), [(16, True), (17, False)])
def test_exactly_the_limit_is_a_pool_for_each_pair(sources: int, is_narrow: bool) -> None:
    targets = frozenset(sorted(many)[:16])
    languages = Languages(asr=frozenset(sorted(many)[:sources]), semantic=targets, tts=targets)
    assert len(membership_of(languages, Admission.ASR_TTS).pools) == (2 * MAX_PAIRS if is_narrow else 1)


# Why nobody serves a pair


def why(*fleet: Languages, facet: str = "speech", admission: Admission = Admission.STRICT) -> str:
    """What is missing, without the next step."""
    missing, _, step = missing_abilities("en", "zh", facet, admission, fleet).partition("; ")
    assert step == "start one with: lingua node --languages en,zh"
    return missing


def test_without_nodes_there_is_one_reason() -> None:
    assert why() == "no node is connected"


@pytest.mark.parametrize(
    ("node", "sentence"),
    [
        (able(semantic="en", tts="zh"), "no node understands English"),
        (able(asr="en", tts="zh"), "no node repairs English text"),
        (able(asr="en", semantic="en", tts="zh", translations="zh:en"), "no node translates English into Chinese"),
        (able(asr="en zh", semantic="en"), "no node speaks Chinese"),
        (
            able(asr="fr"),
            "no node understands English, repairs English text, translates English into Chinese or speaks Chinese",
        ),
    ],
)
def test_what_is_missing_everywhere_is_named(node: Languages, sentence: str) -> None:
    assert why(node) == sentence


def test_that_no_repair_is_there_at_all_is_named_where_its_languages_do_not_matter() -> None:
    assert why(able(asr="en", tts="zh"), admission=Admission.ASR_TTS) == "no node repairs text"


def test_abilities_that_are_there_but_on_different_nodes_are_named_too() -> None:
    hears, speaks = able(asr="en zh", semantic="en"), able(tts="zh")
    everything = "understands English, repairs English text, translates English into Chinese and speaks Chinese"
    assert why(hears, speaks) == f"no single node {everything}"


def test_text_needs_no_voice_and_an_echo_no_translation() -> None:
    text = why(able(semantic="en", translations=""), facet="text")
    assert text == "no node understands English or translates English into Chinese"
    echo = missing_abilities("en", "en", "text", Admission.STRICT, [able(asr="en")])
    assert echo == "no node repairs English text; start one with: lingua node --languages en"


@given(st.lists(any_languages, max_size=3), st.sampled_from(Admission), st.sampled_from(Facet))
def test_what_is_said_to_be_missing_is_missing(fleet: list[Languages], admission: Admission, facet: Facet) -> None:
    sentence = missing_abilities("en", "fr", facet, admission, fleet)
    if not sentence.startswith(("no single node ", "no node is connected")):
        everything = able("en fr", "en fr", "en fr")
        assert str(Pool("en", "fr", facet)) not in {
            pool for node in fleet for pool in membership_of(node, admission).pools
        }
        # One able node more would not leave it missing.
        assert missing_abilities("en", "fr", facet, admission, [*fleet, everything]).startswith("no single node")


@pytest.mark.parametrize(
    ("admission", "facet", "sentence"),
    [
        (
            Admission.STRICT,
            "speech",
            "no node understands English, repairs English text, translates English into Chinese or speaks Chinese",
        ),
        (
            Admission.STRICT,
            "text",
            "no node understands English, repairs English text or translates English into Chinese",
        ),
        (Admission.ASR_TTS, "speech", "no node understands English, repairs text or speaks Chinese"),
        (Admission.ASR_TTS, "text", "no node understands English, repairs text or speaks Chinese"),
        (Admission.ASR_SEMANTIC, "speech", "no node understands English, repairs Chinese text or speaks Chinese"),
        (Admission.ASR_SEMANTIC, "text", "no node understands English or repairs Chinese text"),
    ],
)
def test_every_rule_names_what_it_needs(admission: Admission, facet: str, sentence: str) -> None:
    assert why(able(asr="fr"), facet=facet, admission=admission) == sentence


@pytest.mark.parametrize(
    ("admission", "node", "sentence"),
    [
        (Admission.STRICT, able(asr="en", tts="fr"), "no jobs until it declares semantic_langs (pools.admission)"),
        (Admission.STRICT, able(), "no jobs until it declares asr_langs and semantic_langs (pools.admission)"),
        (
            Admission.STRICT,
            able(asr="en", semantic="fr"),
            "no jobs: no language pair follows from the languages it declares (pools.admission)",
        ),
        (Admission.ASR_TTS, able(asr="en", semantic="en"), "no jobs until it declares tts_langs (pools.admission)"),
        (Admission.ASR_SEMANTIC, able(semantic="en"), "no jobs until it declares asr_langs (pools.admission)"),
        (Admission.STRICT, able(asr="en fr", semantic="en fr"), None),
        (Admission.ASR_TTS, able(asr="en", semantic="en", tts="fr"), None),
    ],
)
def test_a_node_in_no_pool_is_told_which_list_is_missing(
    admission: Admission, node: Languages, sentence: str | None
) -> None:
    assert why_unpooled(node, admission, "{}_langs") == sentence


@pytest.mark.parametrize("languages", [able("en zh", "en zh", "en zh"), wide_languages()], ids=["narrow", "wide"])
@pytest.mark.parametrize("takes_text", [False, True], ids=["speech", "text"])
def test_a_private_node_is_in_pools_of_its_tenant_alone(languages: Languages, takes_text: bool) -> None:
    public = membership_of(languages, Admission.STRICT, takes_text=takes_text)
    private = private_membership(public, "acme")
    assert {tenant_of(pool) for pool in private.pools} == {"acme"}
    assert {public_name(pool) for pool in private.pools} == public.pools
    assert private.definition == public.definition
    for pool in ("en:zh:speech", "zh:en:text", *(["text/zh:en:text"] if takes_text else [])):
        assert pool in public.serves
        assert pool not in private.serves
        assert private_name(pool, "acme") in private.serves
        assert private_name(pool, "beta") not in private.serves
        assert private_name(pool, "acme") not in public.serves
    assert len(private.serves) == len(public.serves) == len(list(private.serves))
    assert {tenant_of(pool) for pool in private.serves} == {"acme"}
