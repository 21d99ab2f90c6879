"""A room that has members or guests at this instance: who they are, and what they are sent."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from lingua_scheduler.clock import Clock
from lingua_scheduler.domain.guards.rates import Budget
from lingua_scheduler.domain.rooms.feeds import Feed
from lingua_scheduler.domain.rooms.history import RoomPast
from lingua_scheduler.domain.rooms.rooms import AboutMember, Participant, RoomState
from lingua_scheduler.domain.rooms.staging import Staging
from lingua_scheduler.protocol.bus import RoomSaid
from lingua_scheduler.services.rooms.pacing import Pacer
from lingua_scheduler.services.rooms.speakers import SpeakerHere, TurnNodes
from lingua_scheduler.services.sessions.remembered import Answer
from lingua_scheduler.services.sessions.sessions import Session
from lingua_sdk.protocol import codec
from lingua_sdk.protocol.session import RoomMember, RoomMembers, WebrtcFrame
from lingua_sdk.protocol.shapes import Message

# Of many changes in a row each member gets the first and then the latest, or a storm of joins would cost the square.
MEMBERS_SHOWN_S = 0.15
# Guests come and go by the hundred: members get their number at most so often.
GUESTS_TOLD_S = 1.0


class Listener(NamedTuple):
    """A member, or a guest: of those no other instance knows."""

    session: Session
    about: AboutMember


class Heard(NamedTuple):
    """An outcome at the instance of its listeners. `plain` is for existing pages; None if there are none here."""

    said: RoomSaid
    plain: Answer | None = None


class RoomHere:
    """A room, and its members and guests at this instance."""

    __slots__ = (
        "absent_since_s",
        "budgets",
        "feed_timer",
        "feeds",
        "guests",
        "guests_want",
        "heard_s",
        "is_recalled",
        "latest_seq",
        "noted_s",
        "on_shown",
        "opened_s",
        "past",
        "sessions",
        "showing",
        "speakers",
        "staging",
        "state",
        "telling",
        "timer",
        "told",
        "translating",
        "wants_servers",
    )

    def __init__(self, state: RoomState, clock: Clock) -> None:
        self.state = state
        self.sessions: dict[str, Session] = {}
        self.guests: dict[str, Listener] = {}
        # How many of them want which language, with speech or without: there may be thousands.
        self.guests_want: Counter[tuple[str, bool]] = Counter()
        self.staging = Staging[WebrtcFrame]()
        # Members that want to know ICE servers, and have not entered yet.
        self.wants_servers: set[str] = set()
        self.timer: asyncio.TimerHandle | None = None
        self.telling = Pacer(GUESTS_TOLD_S, self.tell, clock)
        self.showing = Pacer(MEMBERS_SHOWN_S, self._show, clock)
        # Called when the members have been sent a list with all changes.
        self.on_shown: Callable[[RoomHere], None] = _ignore
        self.budgets: dict[str, Budget] = {}
        # What is on its way to the listeners here, by language.
        self.feeds: dict[str, Feed[Heard, Listener]] = {}
        self.feed_timer: asyncio.TimerHandle | None = None
        # The highest number that each listener here was sent.
        self.told: dict[str, int] = {}
        # The highest number of an utterance that was seen here.
        self.latest_seq = state.seq
        # Of our members, those that spoke: as the others see it, and as nodes know it.
        self.speakers: dict[str, SpeakerHere] = {}
        self.translating: dict[str, TurnNodes] = {}
        # What was said lately, and whether what other instances have kept of it is here.
        self.past = RoomPast()
        self.is_recalled = asyncio.Event()
        # Members without an instance that has them, and since when.
        self.absent_since_s: dict[str, float] = {}
        # When it was last said in Redis that its members speak, and where they are found.
        self.heard_s = self.noted_s = self.opened_s = clock()

    @property
    def own(self) -> list[Participant]:
        return [member for member in self.state.members if member.session_id in self.sessions]

    def listeners(self) -> Iterator[Listener]:
        for member in self.state.members:
            session = self.sessions.get(member.session_id)
            if session is not None:
                yield Listener(session, member.about)
        yield from self.guests.values()

    def session(self, session_id: str) -> Session | None:
        """Of a member or guest here."""
        found = self.sessions.get(session_id)
        if found is None and (guest := self.guests.get(session_id)) is not None:
            return guest.session
        return found

    def languages(self) -> set[str]:
        """Those of members and guests here."""
        return {member.about.language for member in self.own} | {language for language, _ in self.guests_want}

    def note_told(self, session_id: str, seq: int) -> None:
        if seq > self.told.get(session_id, 0):
            self.told[session_id] = seq

    @property
    def is_empty(self) -> bool:
        return not self.sessions and not self.guests

    def has_spoken(self) -> bool:
        return any(session.spoke_at_s > self.heard_s for session in self.sessions.values())

    def everyone(self) -> list[Session]:
        """Members and guests who have entered. A member that is entering gets the list when it has."""
        entered = [session for name, session in self.sessions.items() if not self.staging.is_entering(name)]
        return [*entered, *(guest.session for guest in self.guests.values())]

    def turn_nodes(self, session_id: str) -> TurnNodes:
        """Of a member that is not here any more, they are not kept."""
        if session_id not in self.sessions:
            return TurnNodes()
        return self.translating.setdefault(session_id, TurnNodes())

    def speaker(self, session_id: str) -> SpeakerHere:
        return self.speakers.setdefault(session_id, SpeakerHere())

    def about(self, session_id: str) -> AboutMember | None:
        """What a member, or a guest here, said of itself."""
        if (guest := self.guests.get(session_id)) is not None:
            return guest.about
        member = self.state.find(session_id)
        return None if member is None else member.about

    def tell_readers(self, message: Message, besides: str = "") -> None:
        """To all who have entered and whose clients can read events of rooms, but not to `besides`."""
        readers = [guest.session for guest in self.guests.values() if guest.about.events]
        for member in self.state.members:
            session = self.sessions.get(name := member.session_id)
            if session is not None and member.about.events and name != besides and not self.staging.is_entering(name):
                readers.append(session)
        _post_to(readers, message)

    def add_guest(self, session: Session, about: AboutMember) -> None:
        self.remove_guest(session.session_id)
        self.guests[session.session_id] = Listener(session, about)
        self.guests_want[about.language, about.speech] += 1

    def remove_guest(self, session_id: str) -> Session | None:
        guest = self.guests.pop(session_id, None)
        if guest is None:
            return None
        self.told.pop(session_id, None)
        wanted = guest.about.language, guest.about.speech
        self.guests_want[wanted] -= 1
        if not self.guests_want[wanted]:
            del self.guests_want[wanted]
        return guest.session

    def members_message(self) -> RoomMembers:
        return members_message(self.state)

    def tell(self) -> None:
        _post_to(self.everyone(), self.members_message())

    def _show(self) -> None:
        self.tell()
        self.on_shown(self)


def _post_to(sessions: Iterable[Session], message: Message) -> None:
    """Encoded once for all of them."""
    frame = codec.encode(message)
    for session in sessions:
        if session.peer is not None:
            session.peer.post_encoded(message, frame)


def _ignore(_: RoomHere) -> None:
    """Until it is set."""


def members_message(state: RoomState) -> RoomMembers:
    host = state.host
    return RoomMembers(
        room_code=state.name.code,
        locked=state.is_locked,
        guests=state.guest_count,
        members=[
            RoomMember(
                participant_id=member.session_id,
                session_id=member.session_id,
                display_name=member.about.name or None,
                preferred_lang=member.about.language or None,
                raw_voice_preferences=state.shown_wishes(member.session_id),
                joined_at=member.joined_at,
                role="host" if member is host else None,
                src_lang=member.about.src_lang or None,
            )
            for member in state.members
        ],
    )
