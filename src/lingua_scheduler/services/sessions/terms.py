"""What a client's message asks for, as terms."""

import msgspec

from lingua_scheduler.domain.sessions.terms import Pipeline, Terms
from lingua_scheduler.protocol.session import SessionInit, Utterance
from lingua_scheduler.protocol.shapes import FeatureFlags, PipelineChoice

DEFAULT_INTERVAL_MS = 1000


def terms_of(source: SessionInit | Utterance, choice: PipelineChoice | None = None) -> Terms:
    interval_ms = source.partial_update_interval_ms
    return Terms(
        src_lang=source.src_lang,
        tgt_lang=source.tgt_lang,
        mode=source.mode,
        lang_a=source.lang_a,
        lang_b=source.lang_b,
        auto_langs=tuple(source.auto_langs) if source.auto_langs else None,
        dialect=source.dialect,
        features=_flags(source.features),
        pipeline=Pipeline() if choice is None else _pipeline(choice),
        enable_streaming_asr=source.enable_streaming_asr is not False,
        partial_update_interval_ms=DEFAULT_INTERVAL_MS if interval_ms is None else interval_ms,
    )


def _flags(features: FeatureFlags | None) -> dict[str, bool] | None:
    if features is None:
        return None
    return {name: flag for name, flag in msgspec.structs.asdict(features).items() if flag is not None} or None


def _pipeline(choice: PipelineChoice) -> Pipeline:
    return Pipeline(
        use_asr=choice.use_asr,
        use_nmt=choice.use_nmt,
        use_tts=choice.use_tts,
        use_semantic=choice.use_semantic,
        use_tone=bool(choice.use_tone),
    )
