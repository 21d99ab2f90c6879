"""Speech comes in: chunks are cut into utterances, and each utterance gets its outcome."""

import asyncio
from collections.abc import Callable
from functools import partial

import msgspec

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock, wall_ms
from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.jobs.requests import Request, RequestSeen
from lingua_scheduler.domain.sessions.conversation import MAX_UNDER_WAY, UtteranceEntry
from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.domain.sessions.utterances import PADDING_AUTO_MS, PADDING_MANUAL_MS, Cut, CutReason
from lingua_scheduler.protocol.uploads import about_file, file_in
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.services.attempts.permissions import denial
from lingua_scheduler.services.attempts.trails import Trails
from lingua_scheduler.services.attempts.work import Binding, Outcome, Refusal, Work, attributes_of
from lingua_scheduler.services.dispatch.audio_budget import AudioRoom
from lingua_scheduler.services.dispatch.chains import Chains
from lingua_scheduler.services.dispatch.direct_jobs import SURPRISED, DirectJobs, Rest
from lingua_scheduler.services.dispatch.idempotency import IdempotentRequests, Placement, payload_of
from lingua_scheduler.services.sessions.delivery import Delivery
from lingua_scheduler.services.sessions.opening import Openings
from lingua_scheduler.services.sessions.remembered import Answer
from lingua_scheduler.services.sessions.sessions import Session
from lingua_scheduler.services.sessions.terms import terms_of
from lingua_scheduler.settings import Settings
from lingua_scheduler.telemetry import logs, metrics
from lingua_scheduler.telemetry.tasks import Nursery
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.protocol import audio
from lingua_sdk.protocol.session import Backpressure, SessionCloseAck, Utterance
from lingua_sdk.protocol.shapes import ErrorMessage

_log = logs.get()

_PAUSES = metrics.by(metrics.PAUSES, "audio", "rate")

SAMPLE_RATE = 16_000
PAUSE_MS = 1_000
# A client's clock that differs by more than this says nothing about the network.
MAX_UPLINK_MS = 60_000
# More than a timer may be early: uvloop rounds to milliseconds.
EARLY_MS = 1.0

NO_SOUND = (0, False)

TOO_FAST = "audio is arriving faster than it can be processed"
NO_ROOM = "too much audio is waiting for translation; this audio was not accepted: pause, then send it again"

_REFUSALS = {
    UtteranceEntry.TOO_FAR: (
        ErrorCode.INVALID_MESSAGE,
        "utterance: the index is too far ahead of the other utterances",
    ),
    UtteranceEntry.TOO_MANY: (ErrorCode.NODE_OVERLOADED, "too many utterances are in progress; try again later"),
    UtteranceEntry.CLOSED: (ErrorCode.SESSION_CLOSED, "the session is closed"),
}


LISTENS = Refusal(
    ErrorCode.PERMISSION_DENIED, "this credential, or the session as a guest of a room, may listen and not speak"
)
# Not reported to the client.
_KNOWN = Refusal(ErrorCode.INVALID_MESSAGE, "")


class Intake:
    """`clock` is the loop's own, in seconds, read the cheap way."""

    def __init__(
        self,
        openings: Openings,
        requests: IdempotentRequests,
        delivery: Delivery,
        settings: Settings,
        clock: Clock = SYSTEM_CLOCK,
        trails: Trails | None = None,
    ) -> None:
        self.openings = openings
        self._sessions = openings.sessions
        self._records = openings.records
        self._budget = openings.budget
        self._languages = openings.languages
        self._requests = requests
        self.delivery = delivery
        self._settings = settings.sessions
        self._affinity = settings.selection.affinity
        self._silence = audio.SilenceLevels(settings.sessions.silence_opus_bytes, settings.sessions.silence_pcm_rms)
        self._clock = clock
        self._trails = trails
        self.jobs = Nursery("jobs")
        # Without it every job is a task.
        self.direct: DirectJobs | None = None
        # Takes what is said in rooms; False if no one listens there.
        self.into_room: Callable[[Session, Work], bool] = _never
        # Ways to serve languages that no single node serves.
        self.chains: Chains | None = None
        self.is_open = True

    @property
    def job_count(self) -> int:
        return len(self.jobs) + (len(self.direct) if self.direct is not None else 0)

    @property
    def is_quiet(self) -> bool:
        """Whether no one speaks and no translation is awaited."""
        return not self.job_count and not any(session.conversation.is_speaking for session in self._sessions.all)

    def chunk(self, session: Session, seq: int, data: bytes, is_final: bool, client_ms: float | None = None) -> None:
        """A stretch of speech, or the word that it ends here. `client_ms` is when it left, by the client's clock."""
        conversation = session.conversation
        if not self.is_open or conversation.is_repeat(seq):
            return
        if session.principal.is_listener or _is_guest(session):
            self._refuse(session, LISTENS)
            return
        if not self._has_room(session, len(data)):
            self._refuse(session, Refusal(ErrorCode.NODE_OVERLOADED, NO_ROOM))
            return
        session.uplink_ms = _uplink_ms(client_ms)
        if session.piece_terms is not None:
            self._take(session, conversation.flush())
            session.piece_terms = None
        self._hear(session, seq, data, is_final)

    def _refuse(self, session: Session, refusal: Refusal) -> None:
        """Once in a while, not with every chunk."""
        if self._now_ms() >= session.refused_until_ms:
            session.refused_until_ms = self._now_ms() + PAUSE_MS
            _log.warning("session.audio_refused", session_id=session.session_id, held_bytes=session.audio_bytes)
            session.post(ErrorMessage(code=refusal.code.value, message=refusal.message))

    def _hear(self, session: Session, seq: int, data: bytes, is_final: bool) -> None:
        """A chunk that there is room for."""
        conversation = session.conversation
        duration_ms, is_speech = audio.listen(data, self._silence) if data else NO_SOUND
        begins = is_speech and not conversation.is_speaking
        if begins:
            conversation.begin_with(seq)
            self.delivery.input_started(session)
        held_bytes = 0 if is_speech else conversation.held_bytes + len(data)
        cuts = conversation.chunk(seq, data, duration_ms, is_final, self._now_ms(), is_speech)
        if not is_speech:
            # Silence before speech is forgotten.
            forgotten = held_bytes - conversation.held_bytes - sum(len(cut.audio) for cut in cuts)
            self._budget.give_back(session, forgotten)
        if cuts:
            self._take(session, cuts)
        elif begins or conversation.is_ending or session.timer is None:
            # Any other chunk puts the end off: the timer rings early, and is set again then.
            self._arm(session)

    def utterance(self, session: Session, message: Utterance) -> Refusal | None:
        """A whole utterance brings its own number, languages and format."""
        index = message.utterance_index
        if not session.is_gateway or index in session.awaited:
            return self._utterance(session, message)
        session.awaited.add(index)
        refusal = self._utterance(session, message)
        if refusal is not None:
            session.awaited.discard(index)
        return refusal

    def _utterance(self, session: Session, message: Utterance) -> Refusal | None:
        if session.principal.is_listener or _is_guest(session):
            return LISTENS
        terms = terms_of(message, message.pipeline)
        if terms != session.whole_terms and (refusal := self._change_terms(session, terms)):
            return refusal
        if complaint := _about_audio(message):
            return Refusal(ErrorCode.INVALID_MESSAGE, f"utterance: {complaint}")
        if not self.is_open:
            return Refusal(*_REFUSALS[UtteranceEntry.TOO_MANY])
        measured = audio.measure(message.audio, message.sample_rate)
        if self._is_piece(session, message, measured[1]):
            return self._piece(session, message)
        if session.piece_terms is not None:
            # The pieces before it are an utterance by themselves.
            self._take(session, session.conversation.flush())
            session.piece_terms = None
        work = self._whole(session, message, terms, *measured)
        refusal = None if message.request_id is None else _look_up(session, message.request_id, work)
        if refusal is None:
            refusal = self._enter(session, message)
        if refusal is not None:
            return None if refusal is _KNOWN else refusal
        if message.audio:
            self._start(session, work, work.said_at_s, message.trace_id)
        else:
            self._settled(session, self.delivery.silence(session, message.utterance_index))
            self._arm(session)
        return None

    def _change_terms(self, session: Session, terms: Terms) -> Refusal | None:
        if complaint := terms.complaint():
            return Refusal(ErrorCode.INVALID_MESSAGE, f"utterance: {complaint}")
        pools = terms.pools()
        if session.peer is not None and (refusal := denial(session.peer.principal, pools)):
            return refusal
        session.whole_terms, session.whole_pools = terms, pools
        return None

    def change_terms(self, session: Session, terms: Terms) -> None:
        """Its client speaks another language from its next utterance on: what was said so far is one."""
        self._take(session, session.conversation.flush())
        self._sessions.change_terms(session, terms)

    def _is_piece(self, session: Session, message: Utterance, duration_ms: int) -> bool:
        """Whether it is a stretch of a longer utterance: the mobile app sends every 200 ms of speech as one."""
        is_short = 0 < duration_ms < self._settings.merge_below_ms and message.sample_rate == SAMPLE_RATE
        if not is_short or message.request_id is not None or session.is_gateway:
            return False
        return not message.manual_cut or (session.piece_terms is not None and session.conversation.is_speaking)

    def _piece(self, session: Session, message: Utterance) -> Refusal | None:
        """One cut by hand ends what it is joined to. The whole has the number of its first piece."""
        conversation = session.conversation
        if conversation.under_way >= MAX_UNDER_WAY:
            return Refusal(*_REFUSALS[UtteranceEntry.TOO_MANY])
        if not self._has_room(session, len(message.audio)):
            return Refusal(ErrorCode.NODE_OVERLOADED, NO_ROOM)
        if session.piece_terms != session.whole_terms or session.piece_terms is None:
            self._take(session, conversation.flush())
            session.piece_terms, session.piece_pools = session.whole_terms, session.whole_pools
        if not conversation.is_speaking:
            conversation.number_next(message.utterance_index)
        self._hear(session, message.utterance_index, message.audio, message.manual_cut)
        return None

    def _enter(self, session: Session, message: Utterance) -> Refusal | None:
        index, size = message.utterance_index, len(message.audio)
        if self._has_room(session, size):
            entry = session.conversation.utterance(index)
            if entry is UtteranceEntry.TAKEN:
                return None
            self._budget.give_back(session, size)
            if entry is UtteranceEntry.KNOWN and session.conversation.was_resumed:
                # A client that came back may send again what we have.
                return _KNOWN
            known = (ErrorCode.INVALID_MESSAGE, f"utterance: index {index} was already sent, or is too far behind")
            refusal = Refusal(*_REFUSALS.get(entry, known))
        else:
            refusal = Refusal(ErrorCode.NODE_OVERLOADED, NO_ROOM)
        if message.request_id is not None:
            session.requests.forget(message.request_id)
        return refusal

    def _whole(
        self, session: Session, message: Utterance, terms: Terms, detected: audio.AudioFormat, duration_ms: int
    ) -> Work:
        request_id = message.request_id
        return Work(
            session_id=session.session_id,
            names=session.names,
            is_adopted=session.is_orphan,
            utterance_index=message.utterance_index,
            terms=terms,
            pools=session.whole_pools,
            audio=message.audio,
            audio_format=detected,
            sample_rate=message.sample_rate,
            duration_ms=duration_ms,
            trace_id=message.trace_id or session.trace_id,
            turn_id=str(session.conversation.turn),
            reason=CutReason.IS_FINAL if message.manual_cut else CutReason.TIMEOUT,
            padding_ms=PADDING_MANUAL_MS if message.manual_cut else PADDING_AUTO_MS,
            said_at_s=self._clock(),
            tenant_id=session.tenant_id,
            belongs_to=session.belongs_to,
            wish=session.wish,
            principal=session.caller,
            allows_pivot=session.allows_pivot,
            context=session.conversation.context(wall_ms()),
            # For a session taken over from another instance no task follows the old jobs, so job ids start again.
            request=None if request_id is None else Request(session.tenant_id, session.node_session_id, request_id),
        )

    def playback_started(self, session: Session) -> None:
        session.conversation.playback_started(self._now_ms())
        self.delivery.playback(session, "TTS_PLAY_STARTED")

    def playback_ended(self, session: Session) -> None:
        session.conversation.playback_ended(self._now_ms(), wall_ms())
        self.delivery.playback(session, "TTS_PLAY_ENDED")
        self._arm(session)

    def close(self, session: Session) -> None:
        """The client has finished: its remaining speech is translated, then `session_close_ack` is sent."""
        self._take(session, session.conversation.close())
        self._drop_if_done(session)

    def stop_taking_work(self) -> None:
        """What was said so far is still translated; nothing new is taken."""
        for session in self._sessions.all:
            self._take(session, session.conversation.flush())
        self.is_open = False

    def say_goodbye(self) -> None:
        for session in self._sessions.all:
            if session.peer is not None:
                session.peer.close(CloseCode.COME_BACK, "the scheduler is restarting; connect again")

    async def settle(self, timeout_s: float) -> int:
        """Let jobs end, for a while; return how many did not."""
        until_s = self._clock() + timeout_s
        if self.direct is not None:
            # They may become tasks.
            await self.direct.settle(timeout_s)
        await self.jobs.settle(max(0.0, until_s - self._clock()))
        return self.job_count

    async def close_jobs(self) -> None:
        """Follow none any longer."""
        if self.direct is not None:
            self.direct.close()
        await self.jobs.close()

    def ask_to_pause(self, session: Session, reason: str) -> None:
        """At most once in the time the pause lasts."""
        at_ms = self._now_ms()
        if at_ms >= session.paused_until_ms:
            session.paused_until_ms = at_ms + PAUSE_MS
            _PAUSES[reason].inc()
            session.post(Backpressure(action="PAUSE", resume_after_ms=PAUSE_MS, message=TOO_FAST))

    def _has_room(self, session: Session, size: int) -> bool:
        """Audio is counted from here until its job has ended."""
        room = self._budget.take(session, size)
        if room is not AudioRoom.ENOUGH:
            self.ask_to_pause(session, "audio")
        return room is not AudioRoom.NONE

    def _take(self, session: Session, cuts: list[Cut]) -> None:
        for cut in cuts:
            if session.is_gateway:
                session.awaited.add(cut.utterance_index)
            self.delivery.input_ended(session, cut)
            self._start(
                session,
                Work(
                    session_id=session.session_id,
                    names=session.names,
                    is_adopted=session.is_orphan,
                    utterance_index=cut.utterance_index,
                    terms=session.piece_terms or session.terms,
                    pools=session.piece_pools if session.piece_terms else session.pools,
                    audio=cut.audio,
                    audio_format=audio.detect_format(cut.audio),
                    sample_rate=SAMPLE_RATE,
                    duration_ms=cut.duration_ms,
                    trace_id=session.trace_id,
                    turn_id=str(cut.turn),
                    reason=cut.reason,
                    padding_ms=cut.padding_ms,
                    said_at_s=self._clock(),
                    tenant_id=session.tenant_id,
                    belongs_to=session.belongs_to,
                    wish=session.wish,
                    principal=session.caller,
                    allows_pivot=session.allows_pivot,
                    context=session.conversation.context(wall_ms()),
                    binding=self._binding(session, cut.turn),
                ),
                cut.began_at_ms / 1000,
            )
        if cuts:
            self._records.note(session)
        self._arm(session)

    def _binding(self, session: Session, turn: int) -> Binding:
        """All jobs of a turn go to one node, because it collects them until the turn ends."""
        if turn != session.bound_turn and self._affinity == "turn":
            session.binding = Binding()
        session.bound_turn = turn
        return session.binding

    def _start(self, session: Session, work: Work, began_s: float, trace_id: str | None = None) -> None:
        session.spoke_at_s = self._clock()
        if self._trails is not None:
            trail = self._trails.utterance(began_s, work.said_at_s, attributes_of(work))
            session.trails[work.utterance_index] = trail
            # A client's own trace id is kept; without one the id of our trace is used.
            known_as = trace_id or session.given_trace_id or trail.trace_id
            work = msgspec.structs.replace(work, trail=trail, trace_id=known_as)
        if session.stay is None or not self.into_room(session, work):
            self.translate(session, work)

    def translate(self, session: Session, work: Work) -> None:
        """For the speaker itself."""
        if (
            self.direct is None
            or not self._languages.is_served(work)
            or not self.direct.start(work, partial(self.ended, session, work), partial(self._go_on, session, work))
        ):
            self.jobs.start(self._translate(session, work))

    def _go_on(self, session: Session, work: Work, rest: Rest) -> None:
        self.jobs.start(self._translate(session, work, rest))

    async def _translate(self, session: Session, work: Work, rest: Rest | None = None) -> None:
        """All of it, or the rest of what was begun without a task."""
        logs.bind(session_id=session.session_id, utterance_index=work.utterance_index)
        try:
            if rest is not None:
                outcome = await rest()
            else:
                if not self._languages.is_served(work):
                    work = await self._languages.matched(work)
                outcome = await self._dispatch(work)
        except asyncio.CancelledError:
            if work.trail is not None:
                work.trail.finish()
            self._budget.give_back(session, len(work.audio))
            raise
        except Exception:
            # Every utterance gets an outcome, also after an unexpected exception.
            _log.exception("job.surprised")
            outcome = SURPRISED
        self.ended(session, work, outcome)

    async def _dispatch(self, work: Work) -> Outcome:
        if self.chains is not None and not self._languages.is_served(work):
            plan = self.chains.plan(work)
            if plan is not None:
                # Its jobs are of other pairs than the request; the session itself knows repeats of that.
                return await self.chains.run(work, plan)
        end = await self._requests.translate(work)
        return end if isinstance(end, Outcome) else _outcome_of(end)

    def ended(self, session: Session, work: Work, outcome: Outcome) -> None:
        """The job of an utterance has ended."""
        self.delivery.count(work, outcome)
        self.settle_utterance(session, work, outcome)

    def settle_utterance(self, session: Session, work: Work, outcome: Outcome) -> None:
        """The outcome of an utterance, whose jobs were counted."""
        self._budget.give_back(session, len(work.audio))
        metrics.JOB_SECONDS.observe(self._clock() - work.said_at_s)
        if work.request is not None and outcome.state is JobState.FAILED:
            session.requests.forget(work.request.request_id)
        if work.binding is not None and not work.reason.closes_turn:
            # Only now is it known which node the turn sticks to.
            self._records.note(session)
        self._settled(session, self.delivery.settle(session, work, outcome))
        self._arm(session)
        self._drop_if_done(session)

    def _settled(self, session: Session, left: list[Answer]) -> None:
        if left and session.peer is None and self._sessions.find(session.session_id) is session:
            self._records.park(session, left)

    def _drop_if_done(self, session: Session) -> None:
        if session.conversation.is_over:
            session.post(SessionCloseAck(session_id=session.session_id))
            self.openings.drop(session, is_finished=True)

    def _arm(self, session: Session) -> None:
        """One timer per session, for the next due event; a timer that fires early is set again."""
        due_ms = session.conversation.wake_at_ms
        if due_ms is None:
            return
        due_s = due_ms / 1000
        if session.timer is not None:
            # A timer of uvloop that is due at once does not know when it was set for.
            if session.rings_at_s <= due_s:
                return
            session.timer.cancel()
        session.rings_at_s = due_s
        session.timer = asyncio.get_running_loop().call_later(due_s - self._clock(), self._ring, session)

    def _ring(self, session: Session) -> None:
        session.timer = None
        due = session.conversation.tick(self._now_ms() + EARLY_MS)
        self._settled(session, self.delivery.release(session, due.released))
        self._drop_if_done(session)
        self._take(session, due.cuts)

    def _now_ms(self) -> float:
        return self._clock() * 1000


def _never(_session: Session, _work: Work) -> bool:
    """Until it is set."""
    return False


def _look_up(session: Session, request_id: str, work: Work) -> Refusal | None:
    match session.requests.look(request_id, payload_of(work)):
        case RequestSeen.CONFLICT:
            told = "utterance: this request_id was already used for a different request"
            return Refusal(ErrorCode.INVALID_MESSAGE, told)
        case RequestSeen.REPEAT:
            return _KNOWN
        case _:
            return None


def _outcome_of(end: Placement | Refusal) -> Outcome:
    """The outcome of a request that another call translates, or that was refused."""
    if isinstance(end, Refusal):
        return Outcome(JobState.FAILED, "", error=end.code, detail=end.message)
    detail = "this request is already being translated on another connection, which gets the outcome"
    return Outcome(JobState.CANCELLED, end.job_id, error=ErrorCode.PROCESSING_ERROR, detail=detail)


def _about_audio(message: Utterance) -> str:
    """What is wrong with its format; empty if nothing is. Only what is declared as samples may not be a file."""
    if message.audio_format not in ("opus", "pcm16"):
        return "unknown audio_format; send opus or pcm16"
    kind = file_in(message.audio) if message.audio_format == "pcm16" else ""
    return about_file(kind) if kind else ""


def _is_guest(session: Session) -> bool:
    return session.stay is not None and session.stay.guest is not None


def _uplink_ms(client_ms: float | None) -> int | None:
    if client_ms is None:
        return None
    took_ms = wall_ms() - client_ms
    return int(took_ms) if 0 <= took_ms <= MAX_UPLINK_MS else None
