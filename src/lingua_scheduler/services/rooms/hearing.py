"""The listeners' side of speech in rooms: each gets every outcome in its language once, in the order of the room."""

import asyncio
from collections.abc import Callable

import msgspec

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock, wall_ms
from lingua_scheduler.domain.rooms.fan_out import is_for
from lingua_scheduler.domain.rooms.feeds import Feed, FeedOutcome, RoomUtterance
from lingua_scheduler.domain.rooms.history import PastLine
from lingua_scheduler.domain.rooms.rooms import RoomName
from lingua_scheduler.domain.sessions.ordering import WINDOW
from lingua_scheduler.protocol.bus import RoomMissed, RoomSaid, RoomSpoken
from lingua_scheduler.services.cluster.letters import Letter
from lingua_scheduler.services.rooms.notices import RoomNotices
from lingua_scheduler.services.rooms.outcome_frames import answer_in, late, lost, marked_late
from lingua_scheduler.services.rooms.playable import playable
from lingua_scheduler.services.rooms.replays import Replays
from lingua_scheduler.services.rooms.room_here import Heard, Listener, RoomHere
from lingua_scheduler.services.rooms.rooms_here import RoomsHere
from lingua_scheduler.services.sessions.remembered import Answer
from lingua_scheduler.services.sessions.sessions import Session
from lingua_scheduler.setting_sections.sessions import DeliverySettings
from lingua_scheduler.telemetry import metrics
from lingua_scheduler.telemetry.tasks import Nursery
from lingua_sdk.protocol.session import TranslationResult

_DELIVERIES = metrics.by(metrics.ROOM_DELIVERIES, "sent", "missed", "late", "lost")

# One that comes back gets the latest of what it missed.
MAX_REPLAYED = 256
# How a frame without a translation begins.
_MISSING = b'{"type":"missing_result"'
# More than a timer may be early.
EARLY_MS = 1.0


class Hearing:
    def __init__(
        self,
        here: RoomsHere,
        notices: RoomNotices,
        replays: Replays,
        settings: DeliverySettings,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.here = here
        self.notices = notices
        self._replays = replays
        self._settings = settings
        self._clock = clock
        # Told of every outcome with text.
        self.on_said: Callable[[RoomHere, PastLine], None] = _ignore
        self.tasks = Nursery("room_hearing")

    def spoken(self, message: RoomSpoken, letter: Letter) -> None:
        """A member at another instance has ended an utterance."""
        here = self.find(message.room, message.room_id)
        if here is not None and not letter.adopted_from:
            self.announce(here, message.utterance)

    def announce(self, here: RoomHere, utterance: RoomUtterance) -> None:
        """To every instance of the room, because none tells its listeners what comes after a gap."""
        self._expect(here, utterance)
        now_ms = self._now_ms()
        for language, feed in list(here.feeds.items()):
            if language not in utterance.languages:
                self._release(here, feed.skip(utterance.seq, now_ms))
        for language in utterance.languages:
            if listeners := _listeners(here, utterance, language):
                self._feed(here, language).announce(utterance, listeners, now_ms)
            elif language in here.feeds:
                self._release(here, here.feeds[language].skip(utterance.seq, now_ms))
        self._arm(here)

    def _expect(self, here: RoomHere, utterance: RoomUtterance) -> None:
        """Numbers between the highest that was seen and this one belong to speech of which we have not heard yet."""
        seq = utterance.seq
        if seq > here.latest_seq + 1:
            for language in {*here.feeds, *utterance.languages}:
                feed = self._feed(here, language)
                for missing in range(max(here.latest_seq + 1, seq - WINDOW), seq):
                    feed.expect(missing, self._now_ms())
        here.latest_seq = max(here.latest_seq, seq)

    def said(self, message: RoomSaid, letter: Letter) -> None:
        """An outcome from another instance."""
        here = self.find(message.room, message.room_id)
        if here is None or letter.adopted_from:
            return
        if not message.listener:
            self.take(here, message)
        elif (session := here.session(message.listener)) is not None:
            self._replay(here, session, message)

    def take(self, here: RoomHere, said: RoomSaid, *, is_ours: bool = False) -> None:
        """An outcome for the listeners of a language who are here. `is_ours`: it was said at this instance."""
        if self._replays.add(said, is_ours=is_ours):
            self._note(here, said)
        spoken, now_ms = said.utterance, self._now_ms()
        self._expect(here, spoken)
        listeners = _listeners(here, spoken, said.language)
        if said.language not in here.feeds and not listeners:
            return
        feed = self._feed(here, said.language)
        # For those who listen now, if it was not announced here.
        feed.announce(spoken, listeners, now_ms)
        if all(listener.about.events for listener in feed.listeners(spoken.seq)):
            self._settle(here, feed, Heard(said))
        else:
            self.tasks.start(self._settle_for_pages(here, feed, said))

    def _note(self, here: RoomHere, said: RoomSaid) -> None:
        """For those who join later."""
        answer = answer_in(said)
        if isinstance(answer, TranslationResult):
            speaker = here.about(said.utterance.speaker)
            self.on_said(
                here,
                PastLine(
                    session_id=said.utterance.speaker,
                    name="" if speaker is None else speaker.name,
                    at_ms=int(answer.scheduler_sent_at_ms),
                    text=answer.text_asr,
                    lang=said.utterance.source,
                    seq=said.utterance.seq,
                    translations={said.language: answer.text_translated},
                ),
            )

    async def _settle_for_pages(self, here: RoomHere, feed: Feed[Heard, Listener], said: RoomSaid) -> None:
        answer = answer_in(said)
        if isinstance(answer, TranslationResult):
            answer = await playable(answer)
        self._settle(here, feed, Heard(said, answer))

    def _settle(self, here: RoomHere, feed: Feed[Heard, Listener], heard: Heard) -> None:
        self._release(here, feed.settle(heard.said.utterance.seq, heard, self._now_ms()))
        self._arm(here)

    def _release(self, here: RoomHere, released: list[FeedOutcome[Heard, Listener]]) -> None:
        for due in released:
            said = due.item.said
            if not said.frame.startswith(_MISSING):
                self.here.lag.note_lag(said.language, (self._now_ms() - due.said_ms) / 1000)
            behind: Heard | None = None
            for listener in due.listeners:
                session_id = listener.session.session_id
                if here.session(session_id) is not listener.session:
                    continue
                heard = due.item
                # Another instance may have told this listener alone of a later one.
                if due.is_late or said.utterance.seq < here.told.get(session_id, 0):
                    behind = behind or late(heard)
                    heard = behind
                self._deliver(listener, heard)
                here.note_told(session_id, said.utterance.seq)
            if due.is_late:
                _DELIVERIES["late"].inc()

    def _deliver(self, listener: Listener, heard: Heard) -> None:
        session = listener.session
        frame, plain = heard.said.frame, heard.plain
        is_sent = False
        if session.peer is not None and listener.about.events:
            is_sent = session.peer.post_frame(frame)
        elif session.peer is not None and plain is not None:
            is_sent = session.peer.post(_numbered(session, plain))
        _DELIVERIES["sent" if is_sent else "missed"].inc()

    def _arm(self, here: RoomHere) -> None:
        """One timer a room, for the next outcome that has waited long enough for the one before it."""
        if here.feed_timer is not None:
            here.feed_timer.cancel()
            here.feed_timer = None
        due_ms = min((at for feed in here.feeds.values() if (at := feed.wake_at_ms) is not None), default=None)
        if due_ms is not None:
            wait_s = max(0.0, due_ms / 1000 - self._clock())
            here.feed_timer = asyncio.get_running_loop().call_later(wait_s, self._ring, here)

    def _ring(self, here: RoomHere) -> None:
        here.feed_timer = None
        for feed in list(here.feeds.values()):
            self._release(here, feed.tick(self._now_ms() + EARLY_MS))
        self._arm(here)

    def end_overdue(self, after_s: float) -> None:
        """Every listener gets an outcome, also if the speaker's instance died before it sent one."""
        before_ms = self._now_ms() - after_s * 1000
        for here in self.here:
            languages = here.languages()
            for language, feed in list(here.feeds.items()):
                for spoken in feed.overdue(before_ms):
                    _DELIVERIES["lost"].inc()
                    self.take(here, lost(here, spoken, language))
                for seq in feed.unknown(before_ms):
                    self._release(here, feed.skip(seq, self._now_ms()))
                if feed.is_idle and language not in languages:
                    del here.feeds[language]

    def catch_up(self, here: RoomHere, session: Session, seq: int | None, *, has_moved: bool) -> None:
        """A listener came back and has everything up to `seq`. Existing pages do not say, and get nothing again."""
        about = here.about(session.session_id)
        if seq is None or about is None or not about.events or not self._replays.may_ask(session.session_id):
            return
        # What was said before it came is not for it.
        seq = max(seq, session.stay.since if session.stay is not None else 0)
        for said in self._replays.since(here.state.room_id, seq, MAX_REPLAYED):
            if said.utterance.speaker != session.session_id and is_for(about.language, said.utterance, said.language):
                self._replay(here, session, said)
        if has_moved:
            self._admit(here, Listener(session, about), seq)
            name, room_id = str(here.state.name), here.state.room_id
            message = RoomMissed(name, room_id, seq, session.session_id, about.language)
            self.tasks.start(self.notices.to(here.state.instances(), message))

    def _admit(self, here: RoomHere, listener: Listener, seq: int) -> None:
        """What is under way was announced here before the listener came."""
        own, about = listener.session.session_id, listener.about
        for language, feed in here.feeds.items():

            def is_missed(utterance: RoomUtterance, language: str = language) -> bool:
                return utterance.seq > seq and utterance.speaker != own and is_for(about.language, utterance, language)

            feed.admit(listener, is_missed)

    def missed_by(self, here: RoomHere, message: RoomMissed) -> list[RoomSaid]:
        """What this instance has for a listener of another one: what was said here, and what speakers said who are here
        or at no instance now."""
        return [
            msgspec.structs.replace(said, listener=message.listener)
            for said in self._replays.since(message.room_id, message.seq, MAX_REPLAYED)
            if is_for(message.language, said.utterance, said.language)
            and said.utterance.speaker != message.listener
            and (
                said.utterance.speaker in here.sessions
                or here.state.find(said.utterance.speaker) is None
                or self._replays.is_ours(said)
            )
        ]

    def find(self, room: str, room_id: str) -> RoomHere | None:
        here = self.here.find(RoomName.parse(room))
        return here if here is not None and here.state.room_id == room_id else None

    def _replay(self, here: RoomHere, session: Session, said: RoomSaid) -> None:
        """Clients know by its number whether they have it."""
        is_late = said.utterance.seq < here.told.get(session.session_id, 0)
        if session.peer is not None and session.peer.post_frame(marked_late(said) if is_late else said.frame):
            here.note_told(session.session_id, said.utterance.seq)
            _DELIVERIES["sent"].inc()

    def _feed(self, here: RoomHere, language: str) -> Feed[Heard, Listener]:
        feed = here.feeds.get(language)
        if feed is None:
            feed = here.feeds[language] = Feed(self._settings.hold_ms, self._settings.max_held)
        return feed

    def _now_ms(self) -> float:
        return self._clock() * 1000


def _ignore(_here: RoomHere, _line: PastLine) -> None:
    """Until it is set."""


def _listeners(here: RoomHere, spoken: RoomUtterance, language: str) -> list[Listener]:
    return [
        listener
        for listener in here.listeners()
        if is_for(listener.about.language, spoken, language) and listener.session.session_id != spoken.speaker
    ]


def _numbered(session: Session, answer: Answer) -> Answer:
    """As existing pages read it: a number that no other result of theirs has, and a group of their own playback."""
    number = session.conversation.number_other()
    plain = msgspec.structs.replace(answer, utterance_index=number, room_seq=None, lang=None)
    if isinstance(plain, TranslationResult):
        # No node gets these words as context: they are not the listener's.
        plain.group_id, plain.part_index = session.conversation.part(plain.text_asr, wall_ms(), "")
        session.playing = plain.job_id, number
    return plain
