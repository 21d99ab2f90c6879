"""The speaker's side of speech in rooms: an utterance becomes one job for each language of those who listen."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from lingua_scheduler.clock import wall_ms
from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.rooms.fan_out import FanOut, fan_out, instances_of, terms_in_room, terms_of_recognition
from lingua_scheduler.domain.rooms.feeds import RoomUtterance
from lingua_scheduler.domain.rooms.room_jobs import RoomJobs
from lingua_scheduler.domain.rooms.rooms import RoomOutcome
from lingua_scheduler.protocol.bus import RoomMissed, RoomSaid, RoomSpoken
from lingua_scheduler.services.attempts.work import Outcome, Work
from lingua_scheduler.services.cluster.letters import Letter
from lingua_scheduler.services.dispatch.staged import Listeners, StagedJobs
from lingua_scheduler.services.rooms.entry import counted_as
from lingua_scheduler.services.rooms.hearing import Hearing
from lingua_scheduler.services.rooms.room_here import RoomHere
from lingua_scheduler.services.sessions.delivery import answer_of
from lingua_scheduler.services.sessions.intake import Intake
from lingua_scheduler.services.sessions.sessions import UNTOLD, Session
from lingua_scheduler.setting_sections.rooms import RoomsSettings
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.rooms.rooms import RoomLimits, RoomStore
from lingua_scheduler.telemetry import metrics
from lingua_scheduler.telemetry.tasks import Nursery
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.protocol import codec
from lingua_sdk.protocol.node import JobResult
from lingua_sdk.protocol.session import TranslationResult

_UTTERANCES = metrics.by(metrics.ROOM_UTTERANCES, "fanned_out", "refused", "failed")

# Pauses before an utterance is numbered again while Redis is away; later its jobs would come too late as well.
RETRY_S = (0.1, 0.3, 1.0, 3.0)

TOO_MANY_JOBS = "too many translations of yours or of this room are under way (rooms.max_jobs); speak again in a moment"
REDIS_AWAY = "Redis is unavailable; try again shortly"


class FannedOut:
    """One utterance in a room, until every language has its outcome."""

    __slots__ = (
        "asking",
        "counted_as",
        "here",
        "letters",
        "outcomes",
        "plan",
        "session",
        "spoken",
        "text",
        "waiting",
        "work",
    )

    def __init__(self, here: RoomHere, session: Session, work: Work, plan: FanOut, spoken: RoomUtterance) -> None:
        self.here = here
        self.session = session
        self.work = work
        self.plan = plan
        self.spoken = spoken
        # Whose jobs they are, as its limit is counted.
        self.counted_as = ""
        # What was recognised.
        self.text = ""
        # Languages without an outcome.
        self.waiting: set[str] = set()
        self.outcomes: list[Outcome] = []
        # With outcomes for other instances.
        self.letters: list[asyncio.Task[None]] = []
        # Instances to which listeners came meanwhile.
        self.asking: set[str] = set()


class RoomSpeech:
    """`staged` runs the jobs; what they say goes to the listeners here and, by letters, at other instances."""

    def __init__(
        self, store: RoomStore, hearing: Hearing, intake: Intake, staged: StagedJobs, settings: RoomsSettings
    ) -> None:
        self._store = store
        self._hearing = hearing
        self._intake = intake
        self._staged = staged
        self._delivery = intake.delivery
        self._settings = settings
        self._limits = RoomLimits(settings.max_members, settings.expire_ms)
        self._jobs = RoomJobs(settings.max_jobs)
        self._under_way: dict[tuple[str, int], FannedOut] = {}
        self.tasks = Nursery("room_speaking")
        # Writes a room again that Redis has lost.
        self.restore: Callable[[RoomHere], Awaitable[None]] = _nothing
        intake.into_room = self.take

    def take(self, session: Session, work: Work) -> bool:
        """An utterance of a member has ended. False if no one else is there: then it is translated for the speaker."""
        here = self._hearing.here.of(session)
        if here is None:
            return False
        source, most = work.terms.src_lang, self._settings.max_languages
        into = msgspec.structs.replace(work, terms=terms_in_room(work.terms))
        plan = fan_out(here.state, session.session_id, source, most, partial(self._staged.served_as, into))
        if plan.is_empty:
            return False
        self.tasks.start(self._say(here, session, work, plan))
        return True

    async def _say(self, here: RoomHere, session: Session, work: Work, plan: FanOut) -> None:
        room_id, speaker, jobs = here.state.room_id, counted_as(session), max(1, len(plan.targets))
        if not self._jobs.take(room_id, speaker, jobs):
            self._refuse(session, work, "refused", ErrorCode.NODE_OVERLOADED, TOO_MANY_JOBS)
            return
        try:
            outcome, seq = await self._number(here, session, work)
            if outcome is RoomOutcome.UNKNOWN and here.sessions.get(session.session_id) is session:
                # Redis may have lost the room.
                await self.restore(here)
                outcome, seq = await self._number(here, session, work)
        except RedisAway:
            self._jobs.give_back(room_id, speaker, jobs)
            self._refuse(session, work, "failed", ErrorCode.SCHEDULER_DEPENDENCY_DOWN, REDIS_AWAY)
            return
        if outcome is RoomOutcome.UNKNOWN:
            # It has left the room, or the room has ended.
            self._jobs.give_back(room_id, speaker, jobs)
            self._intake.translate(session, work)
            return
        _UTTERANCES["fanned_out"].inc()
        spoken = RoomUtterance(seq, session.session_id, work.utterance_index, plan.source, plan.languages, plan.read_as)
        utterance = FannedOut(here, session, work, plan, spoken)
        utterance.counted_as = speaker
        self._begin(utterance)

    async def _number(self, here: RoomHere, session: Session, work: Work) -> tuple[RoomOutcome, int]:
        """Raises RedisAway."""
        for pause_s in RETRY_S:
            try:
                return await self._ask_number(here, session, work)
            except RedisAway:
                await asyncio.sleep(pause_s)
        return await self._ask_number(here, session, work)

    async def _ask_number(self, here: RoomHere, session: Session, work: Work) -> tuple[RoomOutcome, int]:
        return await self._store.said(
            here.state, session.session_id, work.utterance_index, here.latest_seq, self._limits
        )

    def _begin(self, utterance: FannedOut) -> None:
        here, session, spoken = utterance.here, utterance.session, utterance.spoken
        member = here.state.find(session.session_id)
        is_told = member is not None and member.about.events
        if session.room_places is None:
            session.room_places = {}
        session.room_places[spoken.utterance_index] = spoken.seq if is_told else UNTOLD
        self._under_way[here.state.room_id, spoken.seq] = utterance
        self._hearing.announce(here, spoken)
        name, room_id = str(here.state.name), here.state.room_id
        self._send(here.state.instances(), RoomSpoken(name, room_id, spoken))
        self._translate(utterance)

    def _translate(self, utterance: FannedOut) -> None:
        """Into each language; if all listeners share the speaker's, what was said is recognised."""
        work, plan = utterance.work, utterance.plan
        targets = plan.targets or {plan.source: False}
        terms = terms_in_room(work.terms) if plan.targets else terms_of_recognition(work.terms)
        nodes = utterance.here.turn_nodes(utterance.session.session_id)
        utterance.waiting.update(targets)
        self._staged.start(
            msgspec.structs.replace(work, terms=terms, pools=terms.pools(), request=None),
            targets,
            Listeners(
                on_recognised=partial(self._recognised, utterance),
                on_outcome=partial(self._ended, utterance),
                binding_of=partial(nodes.binding, work),
            ),
        )

    def _recognised(self, utterance: FannedOut, text: str, _language: str) -> None:
        """Those who share the speaker's language read it at once."""
        utterance.text = text
        if utterance.plan.is_source_heard:
            self._tell(utterance, utterance.plan.source, utterance.work, recognised(utterance, is_read=True))

    def _ended(self, utterance: FannedOut, language: str, outcome: Outcome) -> None:
        """A language has its outcome."""
        terms = utterance.work.terms._replace(tgt_lang=language)
        work = msgspec.structs.replace(utterance.work, terms=terms, pools=terms.pools(), trail=None)
        self._delivery.count(work, outcome)
        utterance.outcomes.append(outcome)
        utterance.waiting.discard(language)
        self._jobs.give_back(utterance.here.state.room_id, utterance.counted_as, 1)
        if language in utterance.plan.targets:
            self._tell(utterance, language, work, outcome)
        if utterance.waiting:
            return
        best = min(utterance.outcomes, key=_worth)
        if not utterance.text and utterance.plan.is_source_heard:
            self._tell(utterance, utterance.plan.source, utterance.work, best)
        told = recognised(utterance) if utterance.text else best
        if utterance.letters:
            self.tasks.start(self._settle_when_sent(utterance, told))
        else:
            self._settle(utterance, told)

    async def _settle_when_sent(self, utterance: FannedOut, outcome: Outcome) -> None:
        """Until the letters to other instances are in Redis, only the speaker's client can say it again."""
        await asyncio.wait(utterance.letters)
        self._settle(utterance, outcome)

    def _settle(self, utterance: FannedOut, outcome: Outcome) -> None:
        """Every language has its outcome, so the speaker gets one."""
        del self._under_way[utterance.here.state.room_id, utterance.spoken.seq]
        work = utterance.work
        if work.trail is not None:
            work.trail.settled(outcome.state, outcome.error, outcome.job_id)
        self._intake.settle_utterance(utterance.session, work, outcome)

    def _tell(self, utterance: FannedOut, language: str, work: Work, outcome: Outcome) -> None:
        """An outcome to all who read this language, here and at other instances."""
        here, spoken = utterance.here, utterance.spoken
        answer = answer_of(utterance.session, work, outcome)
        answer.room_seq, answer.lang = spoken.seq, language
        if isinstance(answer, TranslationResult):
            answer.scheduler_sent_at_ms = int(wall_ms())
        said = RoomSaid(str(here.state.name), here.state.room_id, spoken, language, codec.encode(answer))
        self._hearing.take(here, said, is_ours=True)
        letter = self._send(instances_of(here.state, spoken, language) | utterance.asking, said)
        if letter is not None:
            utterance.letters.append(letter)

    def missed(self, message: RoomMissed, letter: Letter) -> None:
        """A listener came back to another instance: it gets what it missed, and what is under way."""
        here = self._hearing.find(message.room, message.room_id)
        if here is None or letter.adopted_from:
            return
        for (room_id, _), utterance in self._under_way.items():
            if room_id == message.room_id:
                utterance.asking.add(letter.sender)
        for said in self._hearing.missed_by(here, message):
            self._send({letter.sender}, said)

    def _send(self, instances: set[str], message: RoomSpoken | RoomSaid) -> asyncio.Task[None] | None:
        if not instances - {self._hearing.notices.instance, ""}:
            return None
        return self.tasks.start(self._hearing.notices.to(instances, message))

    def _refuse(self, session: Session, work: Work, why: str, code: ErrorCode, told: str) -> None:
        _UTTERANCES[why].inc()
        self._intake.ended(session, work, Outcome(JobState.FAILED, "", error=code, detail=told))


async def _nothing(_: RoomHere) -> None:
    """Until it is set."""


def recognised(utterance: FannedOut, *, is_read: bool = False) -> Outcome:
    """What was said, without a translation. `is_read`: for those who need none, and read it as one."""
    spoken, work = utterance.spoken, utterance.work
    job_id = next((outcome.job_id for outcome in utterance.outcomes if outcome.job_id), "")
    result = JobResult(
        job_id=job_id,
        attempt_id=1,
        node_id="",
        session_id=spoken.speaker,
        utterance_index=spoken.utterance_index,
        success=True,
        trace_id=work.trace_id,
        text_asr=utterance.text,
        text_translated=utterance.text if is_read else "",
    )
    return Outcome(JobState.DONE, job_id, result=result)


def _worth(outcome: Outcome) -> int:
    """A translation says more than no text, and that more than a failure."""
    return {JobState.DONE: 0, JobState.NO_TEXT: 1}.get(outcome.state, 2)
