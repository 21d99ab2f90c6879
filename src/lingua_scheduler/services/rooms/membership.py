"""Creating, joining and leaving rooms. Redis decides; members here get it at once, other instances get letters."""

import secrets
import uuid
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol

from lingua_scheduler.domain.rooms.rooms import (
    AboutMember,
    RoomErrorCode,
    RoomName,
    RoomOutcome,
    RoomState,
    Stay,
    draw_code,
    is_code,
)
from lingua_scheduler.services.rooms.about import about_of, member_of
from lingua_scheduler.services.rooms.entry import RoomEntry, RoomRefusal
from lingua_scheduler.services.rooms.guests import RoomGuests
from lingua_scheduler.services.rooms.room_here import RoomHere
from lingua_scheduler.services.rooms.rooms_here import OVER
from lingua_scheduler.services.rooms.voices import Voices
from lingua_scheduler.services.sessions.sessions import Session
from lingua_scheduler.setting_sections.rooms import RoomsSettings
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.rooms.rooms import RoomLimits, RoomReply, RoomStore
from lingua_scheduler.telemetry import logs, metrics
from lingua_sdk.protocol.session import RoomCreate, RoomExpired, RoomJoin

_log = logs.get()

# A code of 900 000 is hardly ever in use so often in a row.
DRAWS = 20
NOT_FOUND = "房间不存在 (there is no such room)"

_REFUSALS = {
    RoomOutcome.UNKNOWN: (RoomErrorCode.NOT_FOUND, NOT_FOUND),
    RoomOutcome.ALREADY: (RoomErrorCode.ALREADY_IN_ROOM, "已在房间中 (you are in this room already)"),
    RoomOutcome.FULL: (RoomErrorCode.FULL, "房间已满 (the room is full)"),
    RoomOutcome.LOCKED: (RoomErrorCode.LOCKED, "房间已锁定 (the room is locked)"),
    RoomOutcome.DENIED: (RoomErrorCode.DENIED, "只有主持人可以这样做 (only the host may do this)"),
}
_ENTRIES = metrics.by(metrics.ROOM_ENTRIES, "created", "joined", "listening", "missed", "refused")


class CatchUp(Protocol):
    def __call__(self, here: RoomHere, session: Session, seq: int | None, *, has_moved: bool) -> None: ...


class RoomMembership:
    """Verbs raise RoomRefusal and RedisAway."""

    def __init__(
        self, store: RoomStore, voices: Voices, guests: RoomGuests, entry: RoomEntry, settings: RoomsSettings
    ) -> None:
        self._store = store
        self._voices = voices
        self._here = voices.here
        self._guests = guests
        self._notices = guests.notices
        self._entry = entry
        self._max_rooms = settings.max_rooms
        self.limits = RoomLimits(settings.max_members, settings.expire_ms)
        self.tasks = guests.tasks
        # Called when the client of a member or guest is connected again.
        self.on_resumed: tuple[Callable[[RoomHere, Session], None], ...] = ()
        # Sends what was said while its client was away.
        self.catch_up: CatchUp = _ignore

    async def create(self, session: Session, message: RoomCreate) -> None:
        try:
            self._entry.check_create(session)
            if len(self._here) >= self._max_rooms:
                raise RoomRefusal(RoomErrorCode.TOO_OFTEN, "房间过多，请稍后再试 (too many rooms; try again later)")
            state = await self._create(session, message)
        except RoomRefusal:
            _ENTRIES["refused"].inc()
            raise
        _ENTRIES["created"].inc()
        await self._enter(session, state, awaited=frozenset(), wants_servers=message.ice_servers is True)

    async def _create(self, session: Session, message: RoomCreate) -> RoomState:
        member = member_of(session, message)
        for _ in range(DRAWS):
            name = RoomName.of(session.tenant_id, draw_code(secrets.randbelow))
            reply = await self._store.create(name, str(uuid.uuid4()), secrets.token_hex(8), member, self.limits)
            if reply.room is not None:
                return reply.room
        raise RoomRefusal(RoomErrorCode.INTERNAL, "没有可用的房间号 (no room code is free; try again)")

    async def join(self, session: Session, message: RoomJoin) -> None:
        """As a member, or as a guest if it wants to listen only, or may not do more."""
        try:
            if not is_code(message.room_code):
                raise RoomRefusal(RoomErrorCode.INVALID_CODE, "房间号应为六位数字 (a room code has six digits)")
            self._entry.check_join(session, message.room_code)
            name = RoomName.of(session.tenant_id, message.room_code)
            if message.listen_only or session.caller.is_listener:
                await self._join_as_guest(session, name, about_of(session, message))
            else:
                await self._join(session, name, message)
        except RoomRefusal:
            _ENTRIES["refused"].inc()
            raise

    async def _join(self, session: Session, name: RoomName, message: RoomJoin) -> None:
        member = member_of(session, message)
        state = await self._found(session, name, partial(self._store.join, name, member, self.limits))
        _ENTRIES["joined"].inc()
        awaited = state.offering_to(session.session_id) if member.about.offers_voice else frozenset[str]()
        await self._enter(session, state, awaited, wants_servers=message.ice_servers is True)

    async def _join_as_guest(self, session: Session, name: RoomName, about: AboutMember) -> None:
        if session.stay is not None and session.stay.name == name:
            raise RoomRefusal(*_REFUSALS[RoomOutcome.ALREADY])
        with self._guests.coming(name, about):
            state = await self._found(session, name, partial(self._guests.let_in, name, self.limits))
            if await self._settle(session, Stay(name, state.room_id, about, state.seq)):
                self._guests.enter(session, state, about, state.seq)
                _ENTRIES["listening"].inc()
        if session.stay is None:
            self._guests.changed(name, state.room_id)

    async def _found(
        self, session: Session, name: RoomName, enter: Callable[[], Coroutine[Any, Any, RoomReply]]
    ) -> RoomState:
        """Raises RoomRefusal."""
        async with self._entry.trying(session, name) as attempt:
            reply = await enter()
            attempt.is_right = reply.outcome is not RoomOutcome.UNKNOWN
        if not attempt.is_right:
            _ENTRIES["missed"].inc()
        return room_in(reply)

    async def _settle(self, session: Session, stay: Stay) -> bool:
        """It leaves the room that it is in for another. Whether it is still there afterwards."""
        if session.stay is not None:
            await self.leave(session)
        await self._store.note_stay(session.session_id, stay, self.limits.keep_ms)
        return self._voices.is_held(session) and not session.is_closed

    async def _enter(self, session: Session, state: RoomState, awaited: frozenset[str], *, wants_servers: bool) -> None:
        """The session is a member in Redis. It enters when the offers of the others have come (see staging)."""
        if not await self._settle(session, Stay(state.name, state.room_id, since=state.seq)):
            # It ended while this was under way.
            await self._take_out(state, session.session_id, session.owner)
            return
        here = self._here.add(state, session, state.seq)
        self._voices.enter(here, session.session_id, awaited, wants_servers=wants_servers)
        self._here.show(here, state)
        self._voices.pass_due(here)
        await self._notices.changed(state)

    async def note_stay(self, session: Session) -> None:
        if session.stay is not None:
            await self._store.note_stay(session.session_id, session.stay, self.limits.keep_ms)

    async def leave(self, session: Session) -> None:
        """The one that leaves gets no answer; of one that is in no room nothing happens."""
        stay, here = session.stay, self._here.forget(session)
        if here is None or stay is None:
            return
        if stay.guest is not None:
            self._guests.changed(stay.name, stay.room_id)
        else:
            await self._take_out(here.state, session.session_id, session.owner)
        await self._store.forget_stay(session.session_id)

    async def _take_out(self, state: RoomState, session_id: str, owner: str) -> None:
        await self.removed(state, await self._store.leave(state.name, session_id, owner))

    async def removed(self, before: RoomState, reply: RoomReply) -> None:
        """A member has left. With the last one the room ends, also for its guests."""
        if reply.room is not None:
            await self.spread(reply.room, before)
        elif reply.outcome is RoomOutcome.ENDED:
            here = self._here.find(before.name)
            if here is not None and here.state.room_id == before.room_id:
                self._here.end(here, "")
            await self._notices.changed(before)

    async def prefer(self, session: Session, speaker: str, *, wants_voice: bool) -> None:
        here = self.room_of(session)
        reply = await self._store.wish(here.state.name, session.session_id, speaker, wants_voice=wants_voice)
        await self.spread(room_in(reply), here.state)

    async def host(self, session: Session, verb: str, target: str = "") -> None:
        """Remove a member, lock, unlock or close the room."""
        here = self.room_of(session)
        before = here.state
        reply = await self._store.host(before.name, session.session_id, verb, target)
        if reply.outcome is RoomOutcome.ENDED:
            self._here.end(here, "closed")
            await self._notices.changed(before)
        else:
            await self.spread(room_in(reply), before)

    async def spread(self, state: RoomState, before: RoomState) -> None:
        """Tell members here, and the instances that have others, or had them before."""
        here = self._here.find(state.name)
        if here is not None:
            self._here.show(here, state)
        await self._notices.changed(before, state)

    def check_in(self, session: Session, code: str) -> RoomHere:
        """Raises RoomRefusal if it is not in the room with this code."""
        here = self.room_of(session)
        if here.state.name.code != code:
            raise RoomRefusal(RoomErrorCode.NOT_FOUND, NOT_FOUND)
        return here

    def room_of(self, session: Session) -> RoomHere:
        """Raises RoomRefusal."""
        here = self._here.of(session)
        if here is None:
            raise RoomRefusal(RoomErrorCode.NOT_FOUND, NOT_FOUND)
        return here

    async def resumed(self, session: Session, last_seq: int | None = None) -> None:
        """Its client came back, perhaps to another instance than before: it is still in its room.

        It has every outcome of speech there up to `last_seq`.
        """
        here = self._here.of(session)
        if here is not None:
            session.post(here.members_message())
            self._tell_resumed(here, session, last_seq, has_moved=False)
            return
        stay = await self._store.stay(session.session_id)
        if stay is None:
            return
        if stay.guest is not None:
            await self._resume_guest(session, stay, stay.guest, last_seq)
            return
        reply = await self._store.move(stay, session.session_id, session.owner)
        if reply.room is None:
            await self._send_away(session, stay)
            return
        here = self._here.add(reply.room, session, stay.since)
        known = here.state.members
        self._here.show(here, reply.room)
        if known == reply.room.members or here.showing.is_waiting:
            session.post(here.members_message())
        self._tell_resumed(here, session, last_seq, has_moved=True)
        await self._notices.changed(reply.room)

    async def _resume_guest(self, session: Session, stay: Stay, about: AboutMember, last_seq: int | None) -> None:
        with self._guests.coming(stay.name, about):
            reply = await self._guests.let_back_in(stay)
            if reply.room is None:
                await self._send_away(session, stay)
            elif self._voices.is_held(session) and not session.is_closed:
                here = self._guests.enter(session, reply.room, about, stay.since)
                self.catch_up(here, session, last_seq, has_moved=True)

    def _tell_resumed(self, here: RoomHere, session: Session, last_seq: int | None, *, has_moved: bool) -> None:
        for hook in self.on_resumed:
            hook(here, session)
        self.catch_up(here, session, last_seq, has_moved=has_moved)

    async def _send_away(self, session: Session, stay: Stay) -> None:
        await self._store.forget_stay(session.session_id)
        session.post(RoomExpired(room_code=stay.name.code, message=OVER))

    async def stop(self) -> None:
        """What is under way is finished, for a while."""
        self._guests.stop()
        await self.tasks.settle(1.0)
        await self.tasks.close()

    def dropped(self, session: Session) -> None:
        """It has ended, and leaves its room."""
        self.tasks.start(self._leave_quietly(session))

    def taken(self, session: Session) -> None:
        """Another instance has it, where it stays in its room."""
        stay = session.stay
        self._here.forget(session)
        if stay is not None and stay.guest is not None:
            self._guests.changed(stay.name, stay.room_id)

    async def _leave_quietly(self, session: Session) -> None:
        """If Redis is away, other instances remove it when its time is over."""
        try:
            await self.leave(session)
        except RedisAway:
            _log.info("room.not_left", session_id=session.session_id)


def _ignore(here: RoomHere, session: Session, seq: int | None, *, has_moved: bool) -> None:
    """Until it is set."""


def room_in(reply: RoomReply) -> RoomState:
    """Raises RoomRefusal."""
    if reply.outcome in _REFUSALS or reply.room is None:
        raise RoomRefusal(*_REFUSALS.get(reply.outcome, _REFUSALS[RoomOutcome.UNKNOWN]))
    return reply.room
