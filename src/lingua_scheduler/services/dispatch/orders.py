"""Builds the `job_assign` message for a node."""

from functools import cache

from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.nodes.nodes import Features
from lingua_scheduler.domain.sessions.terms import PipelineTerms
from lingua_scheduler.domain.sessions.utterances import CutReason
from lingua_scheduler.protocol.node import JobAssign, LanguageCandidates
from lingua_scheduler.protocol.shapes import JobPipeline
from lingua_scheduler.services.attempts.work import Work


@cache
def _pipeline(pipeline: PipelineTerms, repairs_by_itself: bool) -> JobPipeline:
    """There are only a few of them."""
    if pipeline.use_semantic is None:
        pipeline = pipeline._replace(use_semantic=repairs_by_itself)
    return JobPipeline(**pipeline._asdict())


def assignment_of(
    work: Work, attempt: Attempt, features: Features, ack_ms: int, renewal: int = 0, traceparent: str | None = None
) -> JobAssign:
    """The message for a node that announced `features`; without any, it contains only what existing nodes can read.

    `renewal` is the number of earlier job ids of this utterance. A node remembers an utterance by session and index for
    the life of its process, so with a new job id it also gets another session id.
    """
    terms = work.terms
    session_id = work.node_session_id or work.session_id
    return JobAssign(
        job_id=attempt.job_id,
        attempt_id=attempt.number,
        session_id=f"{session_id}~{renewal + 1}" if renewal else session_id,
        utterance_index=work.utterance_index,
        src_lang=terms.src_lang,
        tgt_lang=terms.tgt_lang,
        pipeline=_pipeline(terms.pipeline, features.semantic),
        audio=work.audio,
        audio_format=work.audio_format,
        sample_rate=work.sample_rate,
        enable_streaming_asr=terms.enable_streaming_asr,
        partial_update_interval_ms=terms.partial_update_interval_ms,
        trace_id=work.trace_id,
        # Existing nodes collect what has one turn_id until a job closes the turn, and lose it if that one is silent.
        turn_id=work.turn_id if features.turns else f"{work.turn_id}-{work.utterance_index}",
        dialect=terms.dialect,
        features=terms.features or {},
        mode=terms.mode,
        lang_a=terms.lang_a,
        lang_b=terms.lang_b,
        auto_langs=list(terms.auto_langs) if terms.auto_langs else None,
        lid=LanguageCandidates(candidates=list(terms.auto_langs)) if features.lid and terms.auto_langs else None,
        group_id=work.context.group_id if work.context else None,
        part_index=work.context.part_index if work.context else None,
        context_text=work.context.text if features.context_text and work.context else None,
        padding_ms=work.padding_ms,
        # Of short sentences existing nodes translate only those that were cut by hand.
        is_manual_cut=work.reason is CutReason.IS_FINAL or not features.turns,
        is_timeout_triggered=work.reason is CutReason.TIMEOUT,
        is_max_duration_triggered=work.is_part,
        start_within_ms=ack_ms or None,
        audio_ref=work.audio_ref,
        traceparent=traceparent,
    )
