"""A client's message becomes terms: what it leaves out gets the default."""

from lingua_scheduler.domain.sessions.terms import PipelineTerms, Terms
from lingua_scheduler.services.sessions.terms import languages_used, terms_of
from lingua_sdk.protocol.session import SessionInit
from lingua_sdk.protocol.shapes import FeatureFlags, LanguagesUsed, PipelineChoice

# As plain values: a limit that changes is noticed.
DEFAULT_INTERVAL_MS = 1_000

PLAIN = SessionInit(client_version="1", platform="test", src_lang="de", tgt_lang="en")


def init(**fields: object) -> SessionInit:
    return SessionInit(client_version="1", platform="test", src_lang="de", tgt_lang="en", **fields)  # type: ignore[arg-type]


def test_a_client_that_asks_for_nothing_special_gets_the_defaults() -> None:
    terms = terms_of(PLAIN)
    assert terms == Terms(
        src_lang="de",
        tgt_lang="en",
        pipeline=PipelineTerms(),
        enable_streaming_asr=True,
        partial_update_interval_ms=DEFAULT_INTERVAL_MS,
    )


def test_only_an_explicit_no_switches_partial_results_off() -> None:
    assert terms_of(init(enable_streaming_asr=True)).enable_streaming_asr
    assert not terms_of(init(enable_streaming_asr=False)).enable_streaming_asr


def test_an_interval_of_nought_is_not_the_default() -> None:
    assert terms_of(init(partial_update_interval_ms=0)).partial_update_interval_ms == 0


def test_only_features_that_were_decided_are_passed_on() -> None:
    flags = FeatureFlags(emotion_detection=True, persona_adaptation=False)
    assert terms_of(init(features=flags)).features == {"emotion_detection": True, "persona_adaptation": False}
    assert terms_of(init(features=FeatureFlags())).features is None


def test_the_stages_are_those_that_were_chosen() -> None:
    choice = PipelineChoice(use_asr=True, use_nmt=False, use_tts=False, use_tone=True)
    assert terms_of(PLAIN, choice).pipeline == PipelineTerms(
        use_asr=True, use_nmt=False, use_tts=False, use_semantic=None, use_tone=True
    )


def test_all_that_was_asked_for_is_kept_with_languages_by_their_usual_names() -> None:
    asked = init(mode="two_way", lang_a="EN-us", lang_b="zh", auto_langs=["EN", "zh"], dialect="x")
    terms = terms_of(asked)
    assert (terms.mode, terms.lang_a, terms.lang_b, terms.auto_langs, terms.dialect) == (
        *("two_way", "en-US", "zh", ("en", "zh")),
        "x",
    )
    nonsense = init(lang_a="AUTO", lang_b="no such tag")
    assert (terms_of(nonsense).lang_a, terms_of(nonsense).lang_b) == ("auto", "no such tag")


def test_a_client_is_told_the_languages_that_are_used() -> None:
    terms = Terms("de", "en", lang_a="de", lang_b="en", auto_langs=("de", "en"))
    assert languages_used(terms) == LanguagesUsed(
        src_lang="de", tgt_lang="en", lang_a="de", lang_b="en", auto_langs=["de", "en"]
    )
    assert languages_used(Terms("de", "en")).auto_langs is None


def test_the_stages_that_were_not_chosen_stay_off() -> None:
    choice = PipelineChoice(use_asr=False, use_nmt=True, use_tts=True, use_semantic=True, use_tone=None)
    assert terms_of(PLAIN, choice).pipeline == PipelineTerms(
        use_asr=False, use_nmt=True, use_tts=True, use_semantic=True, use_tone=False
    )
