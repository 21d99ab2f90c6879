"""Guests of rooms: they listen, read, and are counted. Redis has the counts of each instance, which writes its own."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.rooms.guests import GuestsAt, counted
from lingua_scheduler.domain.rooms.rooms import AboutMember, RoomName, RoomOutcome, RoomState, Stay
from lingua_scheduler.services.rooms.notices import RoomNotices
from lingua_scheduler.services.rooms.pacing import Pacer
from lingua_scheduler.services.rooms.room_here import GUESTS_TOLD_S, RoomHere
from lingua_scheduler.services.rooms.rooms_here import RoomsHere
from lingua_scheduler.services.sessions.sessions import Session
from lingua_scheduler.setting_sections.rooms import RoomsSettings
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.rooms.rooms import RoomLimits, RoomReply, RoomStore
from lingua_scheduler.telemetry import logs
from lingua_scheduler.telemetry.tasks import Nursery
from lingua_sdk.protocol.session import RoomCreateAck

_log = logs.get()


class RoomGuests:
    def __init__(
        self,
        store: RoomStore,
        here: RoomsHere,
        notices: RoomNotices,
        incarnation: str,
        settings: RoomsSettings,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._store = store
        self._here = here
        self.notices = notices
        self._incarnation = incarnation
        self._most = settings.max_guests
        self._clock = clock
        # Those that are about to come in.
        self._coming: defaultdict[RoomName, Counter[tuple[str, bool]]] = defaultdict(Counter)
        # One for each room whose counts have changed here.
        self._pacers: dict[RoomName, Pacer] = {}
        self._is_open = True
        # Rooms whose counts could not be written, by their id.
        self._unwritten: dict[RoomName, str] = {}
        self.tasks = Nursery("rooms")
        # Called when one has entered.
        self.on_entered: Callable[[RoomHere, Session], None] | None = None

    @contextmanager
    def coming(self, name: RoomName, about: AboutMember) -> Iterator[None]:
        """It is counted while it comes in."""
        wanted = about.language, about.speech
        self._coming[name][wanted] += 1
        try:
            yield
        finally:
            self._coming[name][wanted] -= 1
            if not self._coming[name].total():
                del self._coming[name]

    async def let_in(self, name: RoomName, limits: RoomLimits) -> RoomReply:
        """Asks Redis for one that is coming. Raises RedisAway."""
        with self._doubted(name, ""):
            return await self._store.let_guest_in(name, self._at(name), self._most, limits)

    async def let_back_in(self, stay: Stay) -> RoomReply:
        """The same for one that was a guest at another instance: the room may be locked or full. Raises RedisAway."""
        with self._doubted(stay.name, stay.room_id):
            return await self._store.note_guests(stay.name, stay.room_id, self._at(stay.name))

    @contextmanager
    def _doubted(self, name: RoomName, room_id: str) -> Iterator[None]:
        """What was not answered may have been written: it is written again."""
        try:
            yield
        except RedisAway:
            self._unwritten[name] = room_id
            raise

    def enter(self, session: Session, state: RoomState, about: AboutMember, since: int) -> RoomHere:
        here = self._here.add_guest(state, session, about, since)
        seq = here.latest_seq if about.events else None
        session.post(RoomCreateAck(room_code=state.name.code, room_id=state.room_id, room_seq=seq))
        session.post(here.members_message())
        self._here.show(here, state)
        self.changed(state.name, state.room_id)
        if self.on_entered is not None:
            self.on_entered(here, session)
        return here

    def update(self, here: RoomHere, session: Session, about: AboutMember) -> None:
        """What it wants to hear."""
        self._here.add_guest(here.state, session, about, session.stay.since if session.stay is not None else 0)
        session.post(here.members_message())
        self.changed(here.state.name, here.state.room_id)

    def changed(self, name: RoomName, room_id: str) -> None:
        """One came, left or wants another language. Redis and other instances get the counts at most once a second."""
        if not self._is_open:
            return
        pacer = self._pacers.get(name)
        if pacer is None:
            pacer = self._pacers[name] = Pacer(GUESTS_TOLD_S, partial(self._spread, name, room_id), self._clock)
        pacer.ask()

    def stop(self) -> None:
        """The instance stops: its guests come back elsewhere, and others remove its counts."""
        self._is_open = False
        for pacer in self._pacers.values():
            pacer.cancel()

    def _spread(self, name: RoomName, room_id: str) -> None:
        self.tasks.start(self._write_and_tell(name, room_id))

    async def look(self, here: RoomHere) -> None:
        """Put right what Redis says of our guests: it may have lost it. Raises RedisAway."""
        known = {at.holder: at for at in here.state.guests}
        ours = self._at(here.state.name)
        if str(known.get(ours.holder, "")) != str(ours) and not self._coming.get(here.state.name):
            await self._write(here.state.name, here.state.room_id)

    async def look_again(self) -> None:
        """Write what could not be written, and forget rooms that are not here any more."""
        for gone in [name for name, pacer in self._pacers.items() if not pacer.is_waiting]:
            if self._here.find(gone) is None:
                del self._pacers[gone]
        for name, room_id in list(self._unwritten.items()):
            await self._write_and_tell(name, room_id)

    async def forget(self, here: RoomHere, dead: GuestsAt) -> None:
        """The guests of an instance that is dead. Those that come back are counted where they are then."""
        reply = await self._store.note_guests(here.state.name, here.state.room_id, dead._replace(languages={}))
        if reply.room is not None:
            self._here.show(here, reply.room)
            await self.notices.changed(reply.room)

    async def _write_and_tell(self, name: RoomName, room_id: str) -> None:
        try:
            with self._doubted(name, room_id):
                state = await self._write(name, room_id)
        except RedisAway:
            _log.info("room.guests_not_counted", room_id=room_id)
            return
        self._unwritten.pop(name, None)
        if state is not None:
            await self.notices.changed(state)

    async def _write(self, name: RoomName, room_id: str) -> RoomState | None:
        reply = await self._store.note_guests(name, room_id, self._at(name))
        here = self._here.find(name)
        if here is not None and reply.outcome is RoomOutcome.NOTED and reply.room is not None:
            self._here.show(here, reply.room)
        return reply.room

    def _at(self, name: RoomName) -> GuestsAt:
        """All that are here or about to be."""
        here = self._here.find(name)
        wants = Counter[tuple[str, bool]]() if here is None else here.guests_want
        if name in self._coming:
            wants = wants + self._coming[name]
        return GuestsAt(self.notices.instance, self._incarnation, counted(wants))
