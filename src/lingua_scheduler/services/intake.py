"""Speech comes in: sessions open, chunks are cut into utterances, each utterance gets its outcome."""

import asyncio
from time import monotonic

from lingua_scheduler.domain.errors import ErrorCode
from lingua_scheduler.domain.jobs import JobState
from lingua_scheduler.domain.terms import Pipeline, Terms
from lingua_scheduler.domain.utterances import Cut, CutReason
from lingua_scheduler.protocol import audio
from lingua_scheduler.protocol.session import SessionCloseAck, SessionInit, Utterance
from lingua_scheduler.protocol.shapes import PipelineChoice
from lingua_scheduler.services.delivery import Delivery
from lingua_scheduler.services.dispatch import Dispatcher
from lingua_scheduler.services.peers import CloseCode, Peer
from lingua_scheduler.services.registry import Refusal
from lingua_scheduler.services.sessions import Session, Sessions, now_ms
from lingua_scheduler.services.work import Binding, Outcome, Work
from lingua_scheduler.settings import Settings
from lingua_scheduler.telemetry import logs, metrics
from lingua_scheduler.telemetry.tasks import Nursery

_log = logs.get()

SAMPLE_RATE = 16_000
# Utterances of one session that may be under way; live speech never gets near it.
MAX_UNDER_WAY = 64
# What is cut next is numbered after it, so there must be numbers left.
MAX_INDEX = 2**31


class Intake:
    def __init__(self, sessions: Sessions, dispatcher: Dispatcher, delivery: Delivery, settings: Settings) -> None:
        self._sessions = sessions
        self._dispatcher = dispatcher
        self._delivery = delivery
        self._settings = settings.sessions
        self._affinity = settings.selection.affinity
        self.jobs = Nursery("jobs")
        self.is_open = True

    def open(self, peer: Peer, init: SessionInit) -> Session | Refusal:
        terms = _terms(init, None)
        if complaint := terms.complaint():
            return Refusal(ErrorCode.INVALID_MESSAGE, f"session_init: {complaint}")
        if self._sessions.is_full:
            return Refusal(ErrorCode.NODE_OVERLOADED, "too many sessions are open; try again later")
        session = self._sessions.open(init, terms)
        session.attach(peer)
        return session

    def chunk(self, session: Session, data: bytes, is_final: bool, seq: int) -> None:
        if not self.is_open:
            return
        session.next_seq = max(session.next_seq, seq + 1)
        at_ms = _loop_ms()
        cuts: list[Cut] = []
        if data:
            _, duration_ms = audio.measure(data)
            cuts += session.cutter.chunk(data, duration_ms, at_ms)
        if is_final:
            cuts += session.cutter.final(at_ms)
        self._take(session, cuts)

    def utterance(self, session: Session, message: Utterance) -> Refusal | None:
        """A whole utterance brings its own number, languages and format."""
        terms = _terms(message, message.pipeline)
        if complaint := terms.complaint():
            return Refusal(ErrorCode.INVALID_MESSAGE, f"utterance: {complaint}")
        if message.audio_format not in ("opus", "pcm16"):
            return Refusal(ErrorCode.INVALID_MESSAGE, "utterance: audio_format is opus or pcm16")
        if len(message.audio) > self._settings.max_utterance_bytes:
            most = self._settings.max_utterance_bytes
            return Refusal(
                ErrorCode.INVALID_MESSAGE, f"utterance: audio is {len(message.audio)} bytes, {most} are allowed"
            )
        if message.utterance_index > MAX_INDEX:
            return Refusal(ErrorCode.INVALID_MESSAGE, f"utterance: indexes end at {MAX_INDEX}")
        if not self.is_open or len(session.ordering) >= MAX_UNDER_WAY:
            return Refusal(ErrorCode.NODE_OVERLOADED, "too many utterances are under way; try again later")
        if not session.ordering.expect(message.utterance_index):
            return Refusal(ErrorCode.INVALID_MESSAGE, f"utterance: index {message.utterance_index} was sent already")
        turn = session.cutter.claim_index(message.utterance_index)
        session.cutter.close_turn()
        if not message.audio:
            self._delivery.silence(session, message.utterance_index)
            return None
        detected, duration_ms = audio.measure(message.audio, message.sample_rate)
        reason = CutReason.IS_FINAL if message.manual_cut else CutReason.TIMEOUT
        self._start(
            session,
            Work(
                session_id=session.session_id,
                utterance_index=message.utterance_index,
                terms=terms,
                pools=terms.pools(),
                audio=message.audio,
                audio_format=detected,
                sample_rate=message.sample_rate,
                duration_ms=duration_ms,
                trace_id=message.trace_id or session.trace_id,
                turn_id=f"turn-{session.session_id}-{turn}",
                reason=reason,
                padding_ms=self._settings.padding_manual_ms if message.manual_cut else self._settings.padding_auto_ms,
            ),
        )
        return None

    def playback_started(self, session: Session) -> None:
        session.cutter.playback_started(_loop_ms())

    def playback_ended(self, session: Session) -> None:
        session.cutter.playback_ended(_loop_ms())
        session.groups.playback_ended(now_ms())
        self._arm(session)

    def close(self, session: Session) -> None:
        """The client has finished: what it said is still translated, then it is told goodbye."""
        self._take(session, session.cutter.flush())
        session.is_closed = True
        self._drop_if_done(session)

    def _drop_if_done(self, session: Session) -> None:
        if session.is_closed and not len(session.ordering):
            session.post(SessionCloseAck(session_id=session.session_id))
            self._sessions.drop(session)

    def detached(self, session: Session, peer: Peer) -> None:
        self._sessions.detach(session, peer, self._sessions.drop)

    def stop_taking_work(self) -> None:
        """What was said so far is still translated; nothing new is taken."""
        for session in self._sessions.all:
            self._take(session, session.cutter.flush())
        self.is_open = False

    def say_goodbye(self) -> None:
        for session in self._sessions.all:
            if session.peer is not None:
                session.peer.close(CloseCode.COME_BACK, "the scheduler restarts; connect again")

    def _take(self, session: Session, cuts: list[Cut]) -> None:
        for cut in cuts:
            session.ordering.expect(cut.utterance_index)
            self._start(
                session,
                Work(
                    session_id=session.session_id,
                    utterance_index=cut.utterance_index,
                    terms=session.terms,
                    pools=session.pools,
                    audio=cut.audio,
                    audio_format=audio.detect_format(cut.audio),
                    sample_rate=SAMPLE_RATE,
                    duration_ms=cut.duration_ms,
                    trace_id=session.trace_id,
                    turn_id=f"turn-{session.session_id}-{cut.turn}",
                    reason=cut.reason,
                    padding_ms=cut.padding_ms,
                    binding=self._binding(session, cut.turn),
                ),
            )
        self._arm(session)

    def _binding(self, session: Session, turn: int) -> Binding:
        """All jobs of a turn go to one node, because it collects them until the turn ends."""
        if turn != session.bound_turn and self._affinity == "turn":
            session.binding = Binding()
        session.bound_turn = turn
        return session.binding

    def _start(self, session: Session, work: Work) -> None:
        self.jobs.start(self._translate(session, work))

    async def _translate(self, session: Session, work: Work) -> None:
        started = _loop_ms()
        try:
            outcome = await self._dispatcher.translate(work)
        except Exception:
            # Every utterance has an outcome, whatever surprised us.
            _log.exception("job.surprised", session_id=session.session_id, utterance_index=work.utterance_index)
            outcome = Outcome(JobState.FAILED, "", error=ErrorCode.INTERNAL_ERROR, detail="the scheduler failed")
        metrics.JOB_SECONDS.observe((_loop_ms() - started) / 1000)
        self._delivery.settle(session, work, outcome)
        self._arm(session)
        self._drop_if_done(session)

    def _arm(self, session: Session) -> None:
        """One timer a session, for whatever is due first; a timer that rings early is set again."""
        due = [due for due in (session.cutter.wake_at_ms, session.ordering.wake_at_ms) if due is not None]
        if not due:
            return
        due_s = min(due) / 1000
        if session.timer is not None and not session.timer.cancelled():
            if session.timer.when() <= due_s:
                return
            session.timer.cancel()
        session.timer = asyncio.get_running_loop().call_at(due_s, self._ring, session)

    def _ring(self, session: Session) -> None:
        session.timer = None
        self._delivery.tick(session)
        self._drop_if_done(session)
        self._take(session, session.cutter.tick(_loop_ms()))


def _terms(source: SessionInit | Utterance, pipeline: PipelineChoice | None) -> Terms:
    wanted = Pipeline()
    if pipeline is not None:
        wanted = Pipeline(
            use_asr=pipeline.use_asr,
            use_nmt=pipeline.use_nmt,
            use_tts=pipeline.use_tts,
            use_semantic=True if pipeline.use_semantic is None else pipeline.use_semantic,
            use_tone=bool(pipeline.use_tone),
        )
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
        pipeline=wanted,
        enable_streaming_asr=bool(source.enable_streaming_asr),
        partial_update_interval_ms=1000 if interval_ms is None else interval_ms,
    )


def _loop_ms() -> float:
    """The loop's own clock, read the cheap way."""
    return monotonic() * 1000
