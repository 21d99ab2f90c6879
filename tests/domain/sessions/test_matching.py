"""Terms in the tags of the nodes that serve them."""

import pytest

from lingua_scheduler.domain.pools.lookup import ServedTags
from lingua_scheduler.domain.pools.names import Pool
from lingua_scheduler.domain.sessions.matching import matched
from lingua_scheduler.domain.sessions.terms import PipelineTerms, Terms
from lingua_sdk.domain.vocabulary import TWO_WAY_AUTO


def found(terms: Terms, *served: str) -> Terms | None:
    pools = {pool if pool.count(":") == 2 else f"{pool}:speech" for pool in served}
    tags = ServedTags({tag for pool in pools for tag in Pool.parse(pool).pair})
    return matched(terms, tags, pools.__contains__)


@pytest.mark.parametrize(
    ("served", "expected"),
    [
        (("en:pt",), ("en", "pt")),
        (("en:pt", "en-US:pt-BR"), ("en-US", "pt-BR")),
        (("en:pt", "en:pt-BR", "en-US:pt"), ("en", "pt-BR")),
        # Each language is served, the pair is not.
        (("en-US:es", "fr:pt-BR", "en:pt"), ("en", "pt")),
        (("en-us:pt-br",), ("en-us", "pt-br")),
    ],
)
def test_one_way(served: tuple[str, ...], expected: tuple[str, str]) -> None:
    terms = found(Terms("en-US", "pt-BR"), *served)
    assert terms is not None
    assert (terms.src_lang, terms.tgt_lang) == expected


def test_what_nobody_serves_is_not_matched() -> None:
    assert found(Terms("en-US", "pt-BR"), "en:es", "en:pt:text") is None
    assert found(Terms("en-US", "pt-BR")) is None


def test_text_alone_is_matched_in_its_own_pools() -> None:
    terms = found(Terms("en-US", "pt", pipeline=PipelineTerms(use_tts=False)), "en:pt:text")
    assert terms is not None
    assert terms.src_lang == "en"


def test_recognition_alone_needs_no_target() -> None:
    terms = found(Terms("en-US", "xx", pipeline=PipelineTerms(use_nmt=False)), "en:en")
    assert terms is not None
    assert (terms.src_lang, terms.tgt_lang) == ("en", "xx")


def test_both_ways_the_same_tags_serve_both_directions() -> None:
    asked = Terms("auto", "zh-CN", mode=TWO_WAY_AUTO, lang_a="zh-CN", lang_b="en-US", auto_langs=("zh-CN", "en-US"))
    terms = found(asked, "zh-CN:en", "zh:en", "en:zh")
    assert terms is not None
    assert (terms.src_lang, terms.tgt_lang, terms.lang_a, terms.lang_b) == ("auto", "zh", "zh", "en")
    assert terms.auto_langs == ("zh", "en")
    # One direction alone is no conversation.
    assert found(asked, "zh:en") is None
    assert found(asked, "en:zh") is None


def test_any_of_several_languages_into_one() -> None:
    asked = Terms("auto", "en-GB", auto_langs=("zh-CN", "ja-JP", "en-GB"))
    terms = found(asked, "zh:en", "ja-JP:en", "ja:en")
    assert terms is not None
    assert (terms.tgt_lang, terms.auto_langs) == ("en", ("zh", "ja-JP", "en"))
    assert found(asked, "zh:en") is None
