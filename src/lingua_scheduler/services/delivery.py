"""Outcomes to listeners: each utterance once, in order, a gap said in words."""

from time import monotonic

from lingua_scheduler.domain.errors import ErrorCode
from lingua_scheduler.domain.jobs import JobState
from lingua_scheduler.domain.ordering import Released
from lingua_scheduler.protocol import node as from_node
from lingua_scheduler.protocol.node import JobResult
from lingua_scheduler.protocol.session import AsrPartial, MissingResult, TranslationResult, UiEvent
from lingua_scheduler.protocol.shapes import Message, ServiceTimings
from lingua_scheduler.services.sessions import Session, Sessions, now_ms
from lingua_scheduler.services.work import Outcome, Work
from lingua_scheduler.telemetry import metrics

EXTRA_FIELDS = frozenset(
    {
        "emotion",
        "speech_rate",
        "voice_style",
        "service_timings",
        "language_probability",
        "language_probabilities",
        "reason",
    }
)


class Delivery:
    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def settle(self, session: Session, work: Work, outcome: Outcome) -> None:
        """The one outcome of an utterance; it leaves when those before it have left."""
        metrics.JOBS.labels(outcome.state.value).inc()
        message: Message
        if outcome.state is JobState.DONE and outcome.result is not None:
            message = _translation(session, work, outcome.result)
        else:
            reason = "no_text" if outcome.state is JobState.NO_TEXT else _missing_reason(outcome)
            message = _missing(session, work.utterance_index, reason)
            if outcome.error is not None:
                session.post(_failure_event(session, work, outcome, outcome.error))
            elif outcome.state is JobState.CANCELLED:
                session.post(_cancel_event(session, work, outcome))
        self._release(session, session.ordering.settle(work.utterance_index, message, _loop_ms()))

    def silence(self, session: Session, utterance_index: int) -> None:
        """An utterance without audio needs no job."""
        missing = _missing(session, utterance_index, "silence_detected")
        self._release(session, session.ordering.settle(utterance_index, missing, _loop_ms()))

    def partial(self, session_id: str, utterance_index: int, partial: from_node.AsrPartial) -> None:
        session = self._sessions.find(session_id)
        if session is not None:
            session.post(
                AsrPartial(
                    session_id=session_id,
                    utterance_index=utterance_index,
                    job_id=partial.job_id,
                    text=partial.text,
                    is_final=partial.is_final,
                    trace_id=partial.trace_id,
                )
            )

    def tick(self, session: Session) -> None:
        """A result may have waited long enough for an earlier one."""
        self._release(session, session.ordering.tick(_loop_ms()))

    def _release(self, session: Session, released: list[Released[Message]]) -> None:
        for place in released:
            message = place.item
            if message is None:
                reason = "pending_overflow_evict" if place.overflowed else "gap_timeout"
                message = _missing(session, place.utterance_index, reason)
            elif isinstance(message, TranslationResult):
                _stamp(session, message)
            session.post(message)


def _loop_ms() -> float:
    """The loop's own clock, read the cheap way."""
    return monotonic() * 1000


def _stamp(session: Session, message: TranslationResult) -> None:
    """What is only known at the moment of leaving."""
    message.scheduler_sent_at_ms = int(now_ms())
    if message.text_asr:
        message.group_id, message.part_index = session.groups.next_part(now_ms())


def _translation(session: Session, work: Work, result: JobResult) -> TranslationResult:
    extra = {key: value for key, value in (result.extra or {}).items() if key in EXTRA_FIELDS}
    timings = None
    if result.processing_time_ms is not None:
        timings = ServiceTimings(total_ms=result.processing_time_ms)
    return TranslationResult(
        session_id=session.session_id,
        utterance_index=work.utterance_index,
        job_id=result.job_id,
        trace_id=work.trace_id,
        text_asr=result.text_asr or "",
        text_translated=result.text_translated or "",
        tts_audio=result.tts_audio or "",
        tts_format=result.tts_format or "pcm16",
        scheduler_sent_at_ms=0,
        extra=extra or None,
        service_timings=timings,
        asr_quality_level=result.asr_quality_level,
        reason_codes=result.reason_codes,
        quality_score=result.quality_score,
        rerun_count=result.rerun_count,
        segments_meta=result.segments_meta,
    )


def _missing(session: Session, utterance_index: int, reason: str) -> MissingResult:
    return MissingResult(
        session_id=session.session_id,
        utterance_index=utterance_index,
        reason=reason,
        created_at_ms=int(now_ms()),
        trace_id=session.trace_id,
    )


def _missing_reason(outcome: Outcome) -> str:
    # Some nodes answer nothing at all when there was nothing to say.
    return "no_text" if outcome.error is ErrorCode.JOB_TIMEOUT else "job_failed"


def _failure_event(session: Session, work: Work, outcome: Outcome, error: ErrorCode) -> UiEvent:
    return UiEvent(
        trace_id=work.trace_id,
        session_id=session.session_id,
        job_id=outcome.job_id,
        utterance_index=work.utterance_index,
        event="ERROR",
        status="error",
        error_code=error.value,
        hint=outcome.detail,
    )


def _cancel_event(session: Session, work: Work, outcome: Outcome) -> UiEvent:
    """Not an error, and an event that every client knows: the utterance is over."""
    return UiEvent(
        trace_id=work.trace_id,
        session_id=session.session_id,
        job_id=outcome.job_id,
        utterance_index=work.utterance_index,
        event="INPUT_ENDED",
        status="ok",
        hint=outcome.detail,
    )
