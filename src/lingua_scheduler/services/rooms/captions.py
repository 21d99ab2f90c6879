"""Who speaks, and what is recognised of it so far, shown to the others in the room. All of it may be lost."""

from contextlib import suppress

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.rooms.rooms import RoomName, RoomState
from lingua_scheduler.protocol.sealing import BrokenSeal, OtherKey
from lingua_scheduler.protocol.signals import RoomEvent
from lingua_scheduler.services.attempts.work import Work
from lingua_scheduler.services.cluster.seals import Seals
from lingua_scheduler.services.rooms.room_here import RoomHere
from lingua_scheduler.services.rooms.rooms_here import RoomsHere
from lingua_scheduler.services.rooms.speakers import SpeakerHere
from lingua_scheduler.services.sessions.sessions import Session
from lingua_scheduler.store.cluster.signals import Signals
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.telemetry import metrics
from lingua_sdk.protocol import codec
from lingua_sdk.protocol import node as from_node
from lingua_sdk.protocol.session import RoomCaption, RoomSpeaking

# The end of what was said is what a reader looks at; a signal must not be long.
MAX_CAPTION_CHARS = 2000

_CAPTIONS = metrics.by(metrics.ROOM_CAPTIONS, "shown", "forwarded", "received", "too_many", "of_another_job")


class RoomCaptions:
    def __init__(
        self, here: RoomsHere, instance: str, signals: Signals, seals: Seals, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._here = here
        self._instance = instance
        self._signals = signals
        self._seals = seals
        self._clock = clock

    def speaking(self, session: Session, is_speaking: bool) -> None:
        """A session that is in a room begins or ends to speak."""
        here = self._here.of(session)
        if here is None or is_alone(here.state):
            return
        speaker = here.speaker(session.session_id)
        if speaker.is_speaking == is_speaking:
            return
        if is_speaking and not speaker.budget.take(self._clock()):
            _CAPTIONS["too_many"].inc()
            return
        speaker.is_speaking = is_speaking
        name = here.state.name
        self._show(here, RoomSpeaking(room_code=name.code, session_id=session.session_id, speaking=is_speaking))

    def partial(self, session: Session, work: Work, partial: from_node.AsrPartial) -> None:
        here = self._here.of(session)
        if here is None or is_alone(here.state):
            return
        speaker = here.speaker(session.session_id)
        if not _is_first(speaker, work.utterance_index, partial.job_id):
            _CAPTIONS["of_another_job"].inc()
            return
        if not partial.is_final and not speaker.budget.take(self._clock()):
            _CAPTIONS["too_many"].inc()
            return
        caption = RoomCaption(
            room_code=here.state.name.code,
            session_id=session.session_id,
            utterance_index=work.utterance_index,
            text=partial.text[-MAX_CAPTION_CHARS:],
            lang=work.terms.src_lang,
            is_final=partial.is_final,
        )
        self._show(here, caption)

    def arrived(self, signal: RoomEvent) -> None:
        """Of a member at another instance."""
        here = self._here.find(RoomName.parse(signal.room))
        if here is None:
            return
        try:
            event = codec.decode_for_client(self._seals.open_signal(signal.frame))
        except (OtherKey, BrokenSeal, codec.UnreadableFrame):
            return
        if isinstance(event, RoomCaption | RoomSpeaking):
            _CAPTIONS["received"].inc()
            here.tell_readers(event)

    def _show(self, here: RoomHere, event: RoomCaption | RoomSpeaking) -> None:
        _CAPTIONS["shown"].inc()
        here.tell_readers(event, besides=event.session_id)
        others = instances_with_readers(here.state) - {self._instance}
        if not others:
            return
        frame = codec.encode(event).decode()
        for instance in others:
            with suppress(RedisAway):
                self._signals.publish(RoomEvent(str(here.state.name), self._seals.signal(instance, frame)), to=instance)
                _CAPTIONS["forwarded"].inc()


def is_alone(state: RoomState) -> bool:
    return len(state.members) < 2 and not state.guests


def instances_with_readers(state: RoomState) -> set[str]:
    reading = {member.instance for member in state.members if member.about.events}
    return reading | {at.instance for at in state.guests}


def _is_first(speaker: SpeakerHere, utterance_index: int, job_id: str) -> bool:
    """Of several jobs of an utterance, one for each language, the first that is heard of makes its captions."""
    jobs = speaker.captioned
    first = jobs.setdefault(utterance_index, job_id)
    while len(jobs) > speaker.MAX_CAPTIONED:
        del jobs[next(iter(jobs))]
    return first == job_id
