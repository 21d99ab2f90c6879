"""Delivery to clients: one outcome per utterance, in order unless it was overtaken, and the progress steps."""

from collections.abc import Callable, Iterable

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock, wall_ms
from lingua_scheduler.domain.jobs.jobs import ENDED, JobState
from lingua_scheduler.domain.sessions.ordering import Released
from lingua_scheduler.domain.sessions.utterances import Cut
from lingua_scheduler.services.attempts.assignments import Assignment, AttemptStep
from lingua_scheduler.services.attempts.counts import Books
from lingua_scheduler.services.attempts.timings import network_timings, service_timings
from lingua_scheduler.services.attempts.work import Outcome, Work, cause_of
from lingua_scheduler.services.dispatch.stages import degraded_of
from lingua_scheduler.services.sessions.remembered import Answer
from lingua_scheduler.services.sessions.sessions import UNTOLD, Session, Sessions
from lingua_scheduler.telemetry import metrics
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.protocol import node as from_node
from lingua_sdk.protocol.session import AsrPartial, MissingResult, TranslationResult, UiEvent

_JOBS = metrics.by(metrics.JOBS, *ENDED)

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
    def __init__(
        self,
        sessions: Sessions,
        books: Books,
        tells_steps: bool,
        silent_hold_ms: int,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._sessions = sessions
        self._books = books
        self._tells_steps = tells_steps
        self._silent_hold_ms = silent_hold_ms
        self._clock = clock
        # Whether nodes get the words before an utterance also if another node recognised them.
        self.shares_context = False
        # Called of sessions that are in a room: one begins or ends to speak, and what is recognised so far.
        self.on_speaking: Callable[[Session, bool], None] | None = None
        self.on_partial: Callable[[Session, Work, from_node.AsrPartial], None] | None = None

    def count(self, work: Work, outcome: Outcome) -> None:
        """A job has ended."""
        _JOBS[outcome.state].inc()
        self._books.ended(work, outcome, self._clock() - work.said_at_s)
        if work.trail is not None:
            work.trail.settled(outcome.state, outcome.error, outcome.job_id)

    def settle(self, session: Session, work: Work, outcome: Outcome) -> list[Answer]:
        """The one outcome of an utterance; it leaves when those before it have, or were waited for long enough.

        What left now is returned.
        """
        message = answer_of(session, work, outcome)
        if isinstance(message, TranslationResult) and outcome.result is not None:
            session.heard_at[work.utterance_index] = outcome.result.node_id
        elif outcome.error is not None:
            session.post(_failure_event(session, work, outcome, outcome.error))
        elif outcome.state is JobState.CANCELLED:
            session.post(_cancel_event(session, work, outcome))
        if session.away:
            self._hurry_earlier(session, work.utterance_index, is_answered=outcome.result is not None)
        now_ms = self._clock() * 1000
        return self.release(session, session.conversation.settle(work.utterance_index, message, now_ms))

    def _hurry_earlier(self, session: Session, index: int, is_answered: bool) -> None:
        """Existing nodes answer what came before soon after what came later, or never."""
        answered = session.away.pop(index, None)
        if answered is None or not is_answered:
            return
        for earlier, assignment in session.away.items():
            if earlier < index and assignment.attempt.node_id == answered.attempt.node_id:
                session.conversation.hold_at_most(earlier, self._silent_hold_ms)

    def silence(self, session: Session, utterance_index: int) -> list[Answer]:
        """An utterance without audio needs no job."""
        missing = _missing(session, utterance_index, "silence_detected")
        return self.release(session, session.conversation.settle(utterance_index, missing, self._clock() * 1000))

    def release(self, session: Session, released: Iterable[Released[Answer]]) -> list[Answer]:
        left: list[Answer] = []
        for place in released:
            message = place.item
            if session.room_places and (seq := session.room_places.pop(place.utterance_index, None)) is not None:
                if seq == UNTOLD:
                    self._left(session, place)
                    continue
                message.room_seq, message.lang = seq, session.terms.src_lang
            if place.is_late:
                message.late = True
                metrics.OVERTAKEN.inc()
            if isinstance(message, TranslationResult):
                heard_at = session.heard_at.pop(place.utterance_index, "")
                _stamp(session, message, None if self.shares_context else heard_at)
                session.playing = message.job_id, message.utterance_index
            session.post(message)
            left.append(message)
            if session.trails:
                self._left(session, place)
        return left

    def _left(self, session: Session, place: Released[Answer]) -> None:
        if (trail := session.trails.pop(place.utterance_index, None)) is not None:
            trail.left(is_late=place.is_late, is_heard=session.peer is not None)

    def partial(self, work: Work, partial: from_node.AsrPartial) -> None:
        session = self._listener(work)
        if session is None:
            return
        session.post(
            AsrPartial(
                session_id=work.session_id,
                utterance_index=work.utterance_index,
                job_id=partial.job_id,
                text=partial.text,
                is_final=partial.is_final,
                trace_id=work.trace_id,
            )
        )
        if session.stay is not None and self.on_partial is not None:
            self.on_partial(session, work, partial)
        if partial.is_final:
            self._tell(session, "ASR_FINAL", work, partial.job_id)

    def step(self, step: AttemptStep, assignment: Assignment) -> None:
        if not self._tells_steps and assignment.acknowledges:
            return
        session = self._listener(assignment.work)
        if session is None:
            return
        if not assignment.acknowledges and session.conversation.is_under_way(assignment.work.utterance_index):
            session.away[assignment.work.utterance_index] = assignment
        self._tell(session, step._value_, assignment.work, assignment.attempt.job_id)

    def _listener(self, work: Work) -> Session | None:
        """Whose utterance it is. A caller over HTTP may use the name of a session; its jobs are none of that."""
        return None if work.is_call else self._sessions.find(work.session_id)

    def input_started(self, session: Session) -> None:
        self._post_event(session, "INPUT_STARTED", session.conversation.next_index)
        if session.stay is not None and self.on_speaking is not None:
            self.on_speaking(session, True)

    def input_ended(self, session: Session, cut: Cut) -> None:
        self._post_event(session, "INPUT_ENDED", cut.utterance_index, elapsed_ms=cut.duration_ms)
        if session.stay is not None and self.on_speaking is not None:
            self.on_speaking(session, False)

    def playback(self, session: Session, event: str) -> None:
        """What is played is the latest result, as far as we know."""
        if session.playing is not None:
            job_id, utterance_index = session.playing
            self._post_event(session, event, utterance_index, job_id)

    def _tell(self, session: Session, event: str, work: Work, job_id: str) -> None:
        elapsed_ms = int((self._clock() - work.said_at_s) * 1000)
        self._post_event(session, event, work.utterance_index, job_id, elapsed_ms, work.trace_id)

    def _post_event(
        self,
        session: Session,
        event: str,
        utterance_index: int,
        job_id: str = "",
        elapsed_ms: int | None = None,
        trace_id: str = "",
    ) -> None:
        if self._tells_steps:
            session.post(
                UiEvent(
                    trace_id=trace_id or session.trace_id,
                    session_id=session.session_id,
                    job_id=job_id,
                    utterance_index=utterance_index,
                    event=event,
                    status="ok",
                    elapsed_ms=elapsed_ms,
                )
            )


def _stamp(session: Session, message: TranslationResult, heard_at: str | None) -> None:
    """What is only known at the moment of leaving."""
    wall_now_ms = wall_ms()
    message.scheduler_sent_at_ms = int(wall_now_ms)
    if message.text_asr:
        message.group_id, message.part_index = session.conversation.part(message.text_asr, wall_now_ms, heard_at)


def answer_of(session: Session, work: Work, outcome: Outcome) -> Answer:
    """What a client is sent about an utterance of the session."""
    if outcome.state is JobState.DONE and outcome.result is not None:
        return _translation(session, work, outcome, outcome.result)
    reason = "no_text" if outcome.state is JobState.NO_TEXT else "job_failed"
    message = _missing(session, work.utterance_index, reason, work.trace_id)
    message.code, message.detail = cause_of(outcome)
    return message


def _translation(session: Session, work: Work, outcome: Outcome, result: from_node.JobResult) -> TranslationResult:
    extra = {key: value for key, value in (result.extra or {}).items() if key in EXTRA_FIELDS}
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
        service_timings=service_timings(result),
        network_timings=network_timings(session.uplink_ms, outcome.away_ms, result, wall_ms()),
        asr_quality_level=result.asr_quality_level,
        reason_codes=result.reason_codes,
        quality_score=result.quality_score,
        rerun_count=result.rerun_count,
        segments_meta=result.segments_meta,
        degraded=degraded_of(outcome),
    )


def _missing(session: Session, utterance_index: int, reason: str, trace_id: str = "") -> MissingResult:
    return MissingResult(
        session_id=session.session_id,
        utterance_index=utterance_index,
        reason=reason,
        created_at_ms=int(wall_ms()),
        trace_id=trace_id or session.trace_id,
    )


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
