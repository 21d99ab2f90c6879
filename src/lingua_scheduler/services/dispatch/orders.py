"""Builds the `job_assign` message for a node."""

from functools import cache
from typing import NamedTuple

from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.nodes.nodes import Features
from lingua_scheduler.domain.sessions.result_groups import Context
from lingua_scheduler.domain.sessions.terms import PipelineTerms
from lingua_scheduler.domain.sessions.utterances import CutReason
from lingua_scheduler.services.attempts.work import Work
from lingua_sdk.protocol.node import JobAssign, JobCancel, LanguageCandidates
from lingua_sdk.protocol.shapes import JobPipeline


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
    terms, context = work.terms, work.context
    ids = _ids(work, attempt.node_id)
    return JobAssign(
        job_id=attempt.job_id,
        attempt_id=attempt.number,
        session_id=_at_node(ids.session, work.branch, renewal),
        utterance_index=work.utterance_index,
        src_lang=terms.src_lang,
        tgt_lang=terms.tgt_lang,
        pipeline=_pipeline(terms.pipeline, features.semantic),
        audio=work.audio,
        audio_format=work.audio_format,
        sample_rate=work.sample_rate,
        enable_streaming_asr=terms.enable_streaming_asr,
        partial_update_interval_ms=terms.partial_update_interval_ms,
        trace_id=ids.trace,
        # Existing nodes collect what has one turn_id until a job closes the turn, and lose it if that one is silent.
        turn_id=_at_node(ids.turn, work.branch) if features.turns else f"{ids.turn}-{work.utterance_index}",
        dialect=terms.dialect,
        features=terms.features or {},
        mode=terms.mode,
        lang_a=terms.lang_a,
        lang_b=terms.lang_b,
        auto_langs=list(terms.auto_langs) if terms.auto_langs else None,
        lid=LanguageCandidates(candidates=list(terms.auto_langs)) if features.lid and terms.auto_langs else None,
        group_id=ids.group,
        part_index=context.part_index if context else None,
        context_text=_words_before(context, attempt.node_id) if features.context_text else None,
        padding_ms=work.padding_ms,
        # Of short sentences existing nodes translate only those that were cut by hand.
        is_manual_cut=work.reason is CutReason.IS_FINAL or not features.turns,
        is_timeout_triggered=work.reason is CutReason.TIMEOUT,
        is_max_duration_triggered=work.is_part,
        start_within_ms=ack_ms or None,
        audio_ref=work.audio_ref,
        traceparent=traceparent,
        text_input=work.text,
    )


def _at_node(known_as: str, branch: str, renewal: int = 0) -> str:
    """A session or a turn, as a node knows it that may have other jobs of the same utterance."""
    if branch:
        known_as = f"{known_as}~{branch}"
    return f"{known_as}~{renewal + 1}" if renewal else known_as


def cancellation_of(work: Work, attempt: Attempt, reason: str) -> JobCancel:
    return JobCancel(job_id=attempt.job_id, trace_id=_ids(work, attempt.node_id).trace, reason=reason)


class _Ids(NamedTuple):
    """Of a job, as its node knows them."""

    session: str
    turn: str
    trace: str
    group: str | None


def _ids(work: Work, node_id: str) -> _Ids:
    """Never those of the session itself, by which two nodes could tell that they serve the same conversation."""
    group_id = work.context.group_id if work.context else None
    if work.names is None:
        return _Ids(work.node_session_id or work.session_id, work.turn_id, work.trace_id, group_id)
    names = work.names.at(node_id)
    group = None if group_id is None else names.group(group_id)
    # While tracing is on, the id of the trace, which is one for each utterance; never an id of the client's own.
    trace_id = names.trace_id if work.trail is None else work.trail.trace_id
    return _Ids(names.session_id, names.turn + work.turn_id, trace_id, group)


def _words_before(context: Context | None, node_id: str) -> str | None:
    """Only what the node recognised itself, unless the operator shares it: two nodes could compare it."""
    return context.text if context is not None and context.heard_at in (None, node_id) else None
