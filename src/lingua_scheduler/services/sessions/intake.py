"""Speech comes in: sessions open, chunks are cut into utterances, each utterance gets its outcome."""

import asyncio
from collections.abc import Callable
from time import monotonic

import msgspec

from lingua_scheduler.domain.errors import ErrorCode
from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.jobs.requests import Request, Seen
from lingua_scheduler.domain.sessions.conversation import MAX_UNDER_WAY, Entry
from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.domain.sessions.utterances import Cut, CutReason
from lingua_scheduler.protocol import audio
from lingua_scheduler.protocol.session import Backpressure, SessionCloseAck, SessionInit, Utterance
from lingua_scheduler.protocol.shapes import ErrorMessage
from lingua_scheduler.services.attempts.peers import ClientPeer, CloseCode
from lingua_scheduler.services.attempts.timings import now_ms
from lingua_scheduler.services.attempts.trails import Trails
from lingua_scheduler.services.attempts.work import Binding, Outcome, Refusal, Work, attributes_of
from lingua_scheduler.services.dispatch.audio_budget import AudioBudget, Room
from lingua_scheduler.services.dispatch.idempotency import Placement, Requests, payload_of
from lingua_scheduler.services.sessions.delivery import Delivery
from lingua_scheduler.services.sessions.handover import Survival
from lingua_scheduler.services.sessions.remembered import Answer
from lingua_scheduler.services.sessions.sessions import Session, Sessions
from lingua_scheduler.services.sessions.terms import terms_of
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.telemetry import logs, metrics
from lingua_scheduler.telemetry.tasks import Nursery

_log = logs.get()

_PAUSES = metrics.by(metrics.PAUSES, "audio", "rate")
_IDLE_SESSIONS = metrics.IDLE_CLOSED.labels("session")

SAMPLE_RATE = 16_000
PAUSE_MS = 1_000
# A client's clock that differs by more than this says nothing about the network.
MAX_UPLINK_MS = 60_000
# More than a timer may be early: uvloop rounds to milliseconds.
HAIR_S = 1e-3

NO_SOUND = (0, False)

TOO_FAST = "audio is arriving faster than it can be processed"
NO_ROOM = "too much audio waits for its translation; this was not taken: pause, then send it again"

_REFUSALS = {
    Entry.TOO_FAR: (ErrorCode.INVALID_MESSAGE, "utterance: the index is too far ahead of the others"),
    Entry.TOO_MANY: (ErrorCode.NODE_OVERLOADED, "too many utterances are under way; try again later"),
    Entry.CLOSED: (ErrorCode.SESSION_CLOSED, "the session is closed"),
}


# No refusal that anybody need hear of.
_KNOWN = Refusal(ErrorCode.INVALID_MESSAGE, "")


class Intake:
    """`clock` is the loop's own, in seconds, read the cheap way."""

    def __init__(
        self,
        sessions: Sessions,
        requests: Requests,
        delivery: Delivery,
        survival: Survival,
        budget: AudioBudget,
        settings: Settings,
        clock: Callable[[], float] = monotonic,
        trails: Trails | None = None,
    ) -> None:
        self._sessions = sessions
        self._requests = requests
        self._delivery = delivery
        self._survival = survival
        self._settings = settings.sessions
        self._affinity = settings.selection.affinity
        self._silence = audio.SilenceLevels(settings.sessions.silence_opus_bytes, settings.sessions.silence_pcm_rms)
        self._budget = budget
        self._clock = clock
        self._trails = trails
        self.jobs = Nursery("jobs")
        self.is_open = True

    @property
    def is_quiet(self) -> bool:
        """Whether nobody speaks and nobody waits for a translation."""
        return not len(self.jobs) and not any(session.conversation.is_speaking for session in self._sessions.all)

    async def open(self, peer: ClientPeer, init: SessionInit) -> Session | Refusal:
        """It is in Redis before the client hears of it, so that another instance can go on with it."""
        terms = terms_of(init)
        if complaint := terms.complaint():
            return Refusal(ErrorCode.INVALID_MESSAGE, f"session_init: {complaint}")
        if self._sessions.is_full:
            return Refusal(ErrorCode.NODE_OVERLOADED, "too many sessions are open; try again later")
        session = self._sessions.make(init, terms, self._survival.owner())
        session.address = peer.address
        while not await self._survival.open(session, init):
            session = self._sessions.make(init, terms, self._survival.owner())
            session.address = peer.address
        self._sessions.add(session)
        self._survival.hold(session, self._taken)
        session.attach(peer)
        return session

    async def adopt(self, init: SessionInit, peer: ClientPeer) -> Session | None:
        """A client comes back with a token that is not ours: perhaps its session was held elsewhere."""
        session_id, _, secret = (init.resume_token or "").partition(".")
        if not secret or self._sessions.is_full:
            return None
        return await self._claim(session_id, peer, init.resume_token or "", init.last_utterance_index)

    async def adopt_by_id(self, session_id: str, peer: ClientPeer) -> Session | None:
        """The API gateway knows its session by the id alone. What we have of it is out of date if it went elsewhere."""
        here = self._sessions.find(session_id)
        if here is not None and here.is_open_to(peer):
            await self.let_go_if_taken(here, peer)
        here = self._sessions.find(session_id)
        if here is not None:
            return here if here.is_open_to(peer) else None
        return None if self._sessions.is_full else await self._claim(session_id, peer)

    async def let_go_if_taken(self, session: Session, peer: ClientPeer) -> None:
        """Before a socket that came back speaks for what we have: another instance may have gone on with it."""
        try:
            is_ours = await self._survival.is_still_ours(session, peer.address)
        except RedisAway:
            # Better what we know than nothing.
            return
        if not is_ours and self._sessions.is_held(session):
            self._taken(session)

    async def _claim(
        self, session_id: str, peer: ClientPeer, token: str = "", last_index: int | None = None
    ) -> Session | None:
        owner = self._survival.owner()
        claimed = await self._survival.claim(session_id, owner, token, peer.address, last_index)
        if claimed is None:
            return None
        if (here := self._sessions.find(session_id)) is not None:
            # Two sockets came with the token at once, and the other was quicker.
            self._drop(here)
        session = self._sessions.make(claimed.init, terms_of(claimed.init), owner, session_id)
        if token:
            session.resume_token = token
            session.is_orphan = True
        session.generation, session.asked = claimed.generation, claimed.asked
        session.address = peer.address
        session.node_session_id = f"{session_id}-{claimed.generation}"
        session.conversation.begin_at(claimed.beginning)
        if claimed.binding is not None:
            session.binding, session.bound_turn = claimed.binding, claimed.beginning.turn
        for outcome in claimed.outcomes:
            session.sent.add(outcome)
        self._sessions.add(session)
        self._survival.hold(session, self._taken)
        _log.info("session.adopted", session_id=session_id, next_index=claimed.beginning.next_index)
        return session

    def renew(self, session: Session) -> None:
        """A sign of life of its client."""
        session.sent.forget_arrived()

    def _taken(self, session: Session) -> None:
        """Its client went on elsewhere: what is left of it here is of no use to anybody."""
        _log.info("session.taken", session_id=session.session_id)
        if session.peer is not None:
            session.peer.close(CloseCode.SUPERSEDED, "the client connected elsewhere")
        self._drop(session)

    def chunk(self, session: Session, seq: int, data: bytes, is_final: bool, client_ms: float | None = None) -> None:
        """A stretch of speech, or the word that it ends here. `client_ms` is when it left, by the client's clock."""
        conversation = session.conversation
        if not self.is_open or conversation.is_repeat(seq):
            return
        if not self._has_room(session, len(data)):
            if self._now_ms() >= session.refused_until_ms:
                # Once in a while, not with every chunk.
                session.refused_until_ms = self._now_ms() + PAUSE_MS
                _log.warning("session.audio_refused", session_id=session.session_id, held_bytes=session.audio_bytes)
                session.post(ErrorMessage(code=ErrorCode.NODE_OVERLOADED.value, message=NO_ROOM))
            return
        session.uplink_ms = _uplink_ms(client_ms)
        if session.piece_terms is not None:
            self._take(session, conversation.flush())
            session.piece_terms = None
        self._hear(session, seq, data, is_final)

    def _hear(self, session: Session, seq: int, data: bytes, is_final: bool) -> None:
        """A chunk that there is room for."""
        conversation = session.conversation
        duration_ms, is_speech = audio.listen(data, self._silence) if data else NO_SOUND
        begins = is_speech and not conversation.is_speaking
        if begins:
            conversation.begin_with(seq)
            self._delivery.input_started(session)
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
        terms = terms_of(message, message.pipeline)
        index, size = message.utterance_index, len(message.audio)
        if terms != session.whole_terms:
            if complaint := terms.complaint():
                return Refusal(ErrorCode.INVALID_MESSAGE, f"utterance: {complaint}")
            session.whole_terms, session.whole_pools = terms, terms.pools()
        if message.audio_format not in ("opus", "pcm16"):
            return Refusal(ErrorCode.INVALID_MESSAGE, "utterance: audio_format is opus or pcm16")
        if not self.is_open:
            return Refusal(*_REFUSALS[Entry.TOO_MANY])
        measured = audio.measure(message.audio, message.sample_rate)
        if self._is_piece(session, message, measured[1]):
            return self._piece(session, message)
        if session.piece_terms is not None:
            # The pieces before it are an utterance by themselves.
            self._take(session, session.conversation.flush())
            session.piece_terms = None
        work = self._whole(session, message, terms, *measured)
        if message.request_id is not None:
            seen = session.requests.look(message.request_id, payload_of(work))
            if seen is Seen.CONFLICT:
                return Refusal(ErrorCode.INVALID_MESSAGE, "utterance: this request_id was used for something else")
            if seen is Seen.REPEAT:
                return None
        if refusal := self._enter(session, index, size):
            if refusal is _KNOWN:
                return None
            if message.request_id is not None:
                session.requests.forget(message.request_id)
            return refusal
        if message.audio:
            self._start(session, work, work.said_at_s, message.trace_id)
        else:
            self._settled(session, self._delivery.silence(session, index))
            self._arm(session)
        return None

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
            return Refusal(*_REFUSALS[Entry.TOO_MANY])
        if not self._has_room(session, len(message.audio)):
            return Refusal(ErrorCode.NODE_OVERLOADED, NO_ROOM)
        if session.piece_terms != session.whole_terms or session.piece_terms is None:
            self._take(session, conversation.flush())
            session.piece_terms, session.piece_pools = session.whole_terms, session.whole_pools
        if not conversation.is_speaking:
            conversation.number_next(message.utterance_index)
        self._hear(session, message.utterance_index, message.audio, message.manual_cut)
        return None

    def _enter(self, session: Session, index: int, size: int) -> Refusal | None:
        if not self._has_room(session, size):
            return Refusal(ErrorCode.NODE_OVERLOADED, NO_ROOM)
        entry = session.conversation.utterance(index)
        if entry is Entry.TAKEN:
            return None
        self._budget.give_back(session, size)
        if entry is Entry.KNOWN and session.conversation.was_resumed:
            # Whoever came back may send again what we have.
            return _KNOWN
        known = (ErrorCode.INVALID_MESSAGE, f"utterance: index {index} was sent already, or is too far behind")
        return Refusal(*_REFUSALS.get(entry, known))

    def _whole(
        self, session: Session, message: Utterance, terms: Terms, detected: audio.AudioFormat, duration_ms: int
    ) -> Work:
        request_id = message.request_id
        return Work(
            session_id=session.session_id,
            node_session_id=session.node_session_id,
            is_adopted=session.is_orphan,
            utterance_index=message.utterance_index,
            terms=terms,
            pools=session.whole_pools,
            audio=message.audio,
            audio_format=detected,
            sample_rate=message.sample_rate,
            duration_ms=duration_ms,
            trace_id=message.trace_id or session.trace_id,
            turn_id=f"turn-{session.session_id}-{session.conversation.turn}",
            reason=CutReason.IS_FINAL if message.manual_cut else CutReason.TIMEOUT,
            padding_ms=self._settings.padding_manual_ms if message.manual_cut else self._settings.padding_auto_ms,
            said_at_s=self._clock(),
            context=session.conversation.context(now_ms()),
            # Of a session that was held elsewhere nobody follows the old jobs any more, so their ids begin anew.
            request=None if request_id is None else Request(session.tenant_id, session.node_session_id, request_id),
        )

    def playback_started(self, session: Session) -> None:
        session.conversation.playback_started(self._now_ms())
        self._delivery.playback(session, "TTS_PLAY_STARTED")

    def playback_ended(self, session: Session) -> None:
        session.conversation.playback_ended(self._now_ms(), now_ms())
        self._delivery.playback(session, "TTS_PLAY_ENDED")
        self._arm(session)

    def close(self, session: Session) -> None:
        """The client has finished: what it said is still translated, then it is told goodbye."""
        self._take(session, session.conversation.close())
        self._drop_if_done(session)

    def attach(self, session: Session, peer: ClientPeer) -> None:
        """Another socket of its client speaks for it."""
        session.attach(peer)
        self._note_socket(session)

    def detached(self, session: Session, peer: ClientPeer) -> None:
        self._sessions.detach(session, peer, self._drop)
        if session.peer is None and not session.is_closed:
            self._note_socket(session)

    def _note_socket(self, session: Session) -> None:
        """Other instances find a session by its id only while no socket speaks for it, so Redis must know."""
        if session.is_gateway:
            self._survival.note(session)

    async def close_idle(self) -> None:
        """Sessions in which nothing is said give their places to others. Their clients may come back at once."""
        for session in self._sessions.silent_for(self._settings.idle_ms / 1000) if self._settings.idle_ms else ():
            _IDLE_SESSIONS.inc()
            _log.info("session.idle", session_id=session.session_id)
            if session.peer is not None:
                session.peer.close(CloseCode.TRY_LATER, "nothing was said for long; connect again")
            self._drop(session)

    def stop_taking_work(self) -> None:
        """What was said so far is still translated; nothing new is taken."""
        for session in self._sessions.all:
            self._take(session, session.conversation.flush())
        self.is_open = False

    def say_goodbye(self) -> None:
        for session in self._sessions.all:
            if session.peer is not None:
                session.peer.close(CloseCode.COME_BACK, "the scheduler restarts; connect again")

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
        if room is not Room.ENOUGH:
            self.ask_to_pause(session, "audio")
        return room is not Room.NONE

    def _take(self, session: Session, cuts: list[Cut]) -> None:
        for cut in cuts:
            if session.is_gateway:
                session.awaited.add(cut.utterance_index)
            self._delivery.input_ended(session, cut)
            self._start(
                session,
                Work(
                    session_id=session.session_id,
                    node_session_id=session.node_session_id,
                    is_adopted=session.is_orphan,
                    utterance_index=cut.utterance_index,
                    terms=session.piece_terms or session.terms,
                    pools=session.piece_pools if session.piece_terms else session.pools,
                    audio=cut.audio,
                    audio_format=audio.detect_format(cut.audio),
                    sample_rate=SAMPLE_RATE,
                    duration_ms=cut.duration_ms,
                    trace_id=session.trace_id,
                    turn_id=f"turn-{session.session_id}-{cut.turn}",
                    reason=cut.reason,
                    padding_ms=cut.padding_ms,
                    said_at_s=self._clock(),
                    context=session.conversation.context(now_ms()),
                    binding=self._binding(session, cut.turn),
                ),
                cut.began_at_ms / 1000,
            )
        if cuts:
            self._survival.note(session)
        self._arm(session)

    def _binding(self, session: Session, turn: int) -> Binding:
        """All jobs of a turn go to one node, because it collects them until the turn ends."""
        if turn != session.bound_turn and self._affinity == "turn":
            session.binding = Binding()
        session.bound_turn = turn
        return session.binding

    def _start(self, session: Session, work: Work, began_s: float, trace_id: str | None = None) -> None:
        session.spoke_at_s = monotonic()
        if self._trails is not None:
            trail = self._trails.utterance(began_s, work.said_at_s, attributes_of(work))
            session.trails[work.utterance_index] = trail
            # Whoever named its own trace goes on under that name; the others find ours under it.
            known_as = trace_id or session.given_trace_id or trail.trace_id
            work = msgspec.structs.replace(work, trail=trail, trace_id=known_as)
        self.jobs.start(self._translate(session, work))

    async def _translate(self, session: Session, work: Work) -> None:
        logs.bind(session_id=session.session_id, utterance_index=work.utterance_index)
        try:
            outcome = _outcome_of(await self._requests.translate(work))
        except asyncio.CancelledError:
            if work.trail is not None:
                work.trail.finish()
            raise
        except Exception:
            # Every utterance has an outcome, whatever surprised us.
            _log.exception("job.surprised")
            outcome = Outcome(JobState.FAILED, "", error=ErrorCode.INTERNAL_ERROR, detail="the scheduler failed")
        finally:
            self._budget.give_back(session, len(work.audio))
        metrics.JOB_SECONDS.observe(self._clock() - work.said_at_s)
        if work.request is not None and outcome.state is JobState.FAILED:
            session.requests.forget(work.request.request_id)
        if work.binding is not None and not work.reason.closes_turn:
            # Only now is it known which node the turn sticks to.
            self._survival.note(session)
        self._settled(session, self._delivery.settle(session, work, outcome))
        self._arm(session)
        self._drop_if_done(session)

    def _settled(self, session: Session, left: list[Answer]) -> None:
        if left and session.peer is None and self._sessions.find(session.session_id) is session:
            self._survival.park(session, left)

    def _drop_if_done(self, session: Session) -> None:
        if session.conversation.is_over:
            session.post(SessionCloseAck(session_id=session.session_id))
            self._drop(session, is_finished=True)

    def _drop(self, session: Session, is_finished: bool = False) -> None:
        self._budget.give_back(session, session.conversation.drop())
        self._survival.close(session)
        self._sessions.drop(session, is_finished=is_finished)

    def _arm(self, session: Session) -> None:
        """One timer a session, for whatever is due first; a timer that rings early is set again."""
        due_ms = session.conversation.wake_at_ms
        if due_ms is None:
            return
        due_s = moment_of(due_ms)
        if session.timer is not None:
            # A timer of uvloop that is due at once does not know when it was set for.
            if session.rings_at_s <= due_s:
                return
            session.timer.cancel()
        session.rings_at_s = due_s
        session.timer = asyncio.get_running_loop().call_at(due_s, self._ring, session)

    def _ring(self, session: Session) -> None:
        session.timer = None
        due = session.conversation.tick(self._now_ms())
        self._settled(session, self._delivery.release(session, due.released))
        self._drop_if_done(session)
        self._take(session, due.cuts)

    def _now_ms(self) -> float:
        return self._clock() * 1000


def moment_of(due_ms: float) -> float:
    """In seconds, and a hair behind it: a timer that rings early is set again, and rings at once."""
    return due_ms / 1000 + HAIR_S


def _outcome_of(end: Outcome | Placement | Refusal) -> Outcome:
    match end:
        case Placement():
            detail = "this request is translated elsewhere, and its outcome goes there"
            return Outcome(JobState.CANCELLED, end.job_id, error=ErrorCode.PROCESSING_ERROR, detail=detail)
        case Refusal():
            return Outcome(JobState.FAILED, "", error=end.code, detail=end.message)
        case _:
            return end


def _uplink_ms(client_ms: float | None) -> int | None:
    if client_ms is None:
        return None
    took_ms = now_ms() - client_ms
    return int(took_ms) if 0 <= took_ms <= MAX_UPLINK_MS else None
