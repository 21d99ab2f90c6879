"""What a client's message asks for, as terms."""

from lingua_scheduler.domain.terms import Pipeline, Terms
from lingua_scheduler.protocol.session import SessionInit, Utterance
from lingua_scheduler.protocol.shapes import PipelineChoice

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
        features=source.features,
        pipeline=Pipeline() if choice is None else _pipeline(choice),
        enable_streaming_asr=bool(source.enable_streaming_asr),
        partial_update_interval_ms=DEFAULT_INTERVAL_MS if interval_ms is None else interval_ms,
    )


def _pipeline(choice: PipelineChoice) -> Pipeline:
    return Pipeline(
        use_asr=choice.use_asr,
        use_nmt=choice.use_nmt,
        use_tts=choice.use_tts,
        use_semantic=True if choice.use_semantic is None else choice.use_semantic,
        use_tone=bool(choice.use_tone),
    )
