"""Converts a client's message into terms: what it requests."""

from functools import lru_cache

import msgspec

from lingua_scheduler.domain.sessions.terms import PipelineTerms, Terms
from lingua_sdk.domain.languages import AUTO, tag_of
from lingua_sdk.protocol.session import SessionInit, Utterance
from lingua_sdk.protocol.shapes import FeatureFlags, LanguagesUsed, PipelineChoice

DEFAULT_INTERVAL_MS = 1000
# Every utterance names its languages, and few are ever named.
REMEMBERED_TAGS = 1024


def terms_of(source: SessionInit | Utterance, choice: PipelineChoice | None = None) -> Terms:
    interval_ms = source.partial_update_interval_ms
    return Terms(
        src_lang=_tag(source.src_lang),
        tgt_lang=_tag(source.tgt_lang),
        mode=source.mode,
        lang_a=None if source.lang_a is None else _tag(source.lang_a),
        lang_b=None if source.lang_b is None else _tag(source.lang_b),
        auto_langs=tuple(map(_tag, source.auto_langs)) if source.auto_langs else None,
        dialect=source.dialect,
        features=_flags(source.features),
        pipeline=PipelineTerms() if choice is None else _pipeline(choice),
        enable_streaming_asr=source.enable_streaming_asr is not False,
        partial_update_interval_ms=DEFAULT_INTERVAL_MS if interval_ms is None else interval_ms,
    )


def languages_used(terms: Terms) -> LanguagesUsed:
    return LanguagesUsed(
        src_lang=terms.src_lang,
        tgt_lang=terms.tgt_lang,
        lang_a=terms.lang_a,
        lang_b=terms.lang_b,
        auto_langs=None if terms.auto_langs is None else list(terms.auto_langs),
    )


@lru_cache(REMEMBERED_TAGS)
def _tag(text: str) -> str:
    """What is no tag stays as it is, so that it can be complained about."""
    return text.lower() if text.lower() == AUTO else tag_of(text) or text


def _flags(features: FeatureFlags | None) -> dict[str, bool] | None:
    if features is None:
        return None
    return {name: flag for name, flag in msgspec.structs.asdict(features).items() if flag is not None} or None


def _pipeline(choice: PipelineChoice) -> PipelineTerms:
    return PipelineTerms(
        use_asr=choice.use_asr,
        use_nmt=choice.use_nmt,
        use_tts=choice.use_tts,
        use_semantic=choice.use_semantic,
        use_tone=bool(choice.use_tone),
    )
