"""Members and guests change what they said of themselves: name, languages, whether they want speech."""

from collections.abc import Callable
from contextlib import suppress

from lingua_scheduler.domain.rooms.rooms import AboutMember
from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.services.rooms.about import terms_in, updated
from lingua_scheduler.services.rooms.entry import RoomRefusal
from lingua_scheduler.services.rooms.guests import RoomGuests
from lingua_scheduler.services.rooms.membership import RoomMembership, room_in
from lingua_scheduler.services.rooms.room_here import RoomHere
from lingua_scheduler.services.sessions.sessions import Session
from lingua_scheduler.store.rooms.rooms import RoomStore
from lingua_sdk.protocol.session import RoomUpdate

# The session speaks another language from its next utterance on.
ChangeTerms = Callable[[Session, Terms], None]


class RoomUpdates:
    """The verb raises RoomRefusal and RedisAway."""

    def __init__(
        self, store: RoomStore, membership: RoomMembership, guests: RoomGuests, change_terms: ChangeTerms
    ) -> None:
        self._store = store
        self._membership = membership
        self._guests = guests
        self._change_terms = change_terms

    async def update(self, session: Session, message: RoomUpdate) -> None:
        here = self._membership.room_of(session)
        before = here.about(session.session_id) or AboutMember()
        about = updated(before, message)
        terms = terms_in(session, about.src_lang) if about.src_lang != session.terms.src_lang else session.terms
        if session.session_id in here.guests:
            self._guests.update(here, session, about)
            await self._membership.note_stay(session)
        else:
            reply = await self._store.update(here.state.name, session.session_id, session.owner, about)
            await self._membership.spread(room_in(reply), here.state)
        if terms is not session.terms:
            self._change_terms(session, terms)

    def resumed(self, here: RoomHere, session: Session) -> None:
        """At another instance: its room knows which language it speaks, what it asked for when it began does not."""
        about = here.about(session.session_id)
        if about is not None and about.src_lang not in ("", session.terms.src_lang):
            # Its present credential may not allow it any more.
            with suppress(RoomRefusal):
                self._change_terms(session, terms_in(session, about.src_lang))
