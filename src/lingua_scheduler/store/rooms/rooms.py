"""Rooms in Redis: one hash slot each. They expire by themselves when no instance has members of them any more."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from lingua_scheduler.domain.rooms.guests import GuestsAt
from lingua_scheduler.domain.rooms.rooms import AboutMember, Participant, RoomName, RoomOutcome, RoomState, Stay
from lingua_scheduler.store.connection import RedisLine, Reply
from lingua_scheduler.store.keys import ROOM_SAID, Keys
from lingua_scheduler.store.scripts import Scripts, Value
from lingua_scheduler.store.unreadable import UnreadableKeys
from lingua_sdk.domain.decoding import DECODE_ERRORS

# How long a code stays in use after its room has ended: by then every instance has noticed.
ENDED_MS = 300_000
# A room that no instance holds is kept for so long beyond its expiry, in which one of them ends it.
SPARE_MS = 120_000
# Utterances of a room whose number is remembered: more than can be under way.
MAX_SAID = 512

_MOST = 2**53
_FACTS = 8
_PER_MEMBER = 5
_ABOUT = msgspec.json.Decoder(AboutMember)


class RoomLimits(NamedTuple):
    max_members: int
    expire_ms: int

    @property
    def keep_ms(self) -> int:
        return self.expire_ms + SPARE_MS


class RoomReply(NamedTuple):
    """What was done, the room after it if there still is one, and why it has ended if it has."""

    outcome: RoomOutcome
    room: RoomState | None = None
    why: str = ""


class RoomStore:
    def __init__(self, line: RedisLine, keys: Keys, scripts: Scripts, unreadable: UnreadableKeys) -> None:
        self._line = line
        self._keys = keys
        self._scripts = scripts
        self._unreadable = unreadable

    async def create(
        self, name: RoomName, room_id: str, record: str, member: Participant, limits: RoomLimits
    ) -> RoomReply:
        return await self._run(
            "room_create",
            name,
            id=room_id,
            record=record,
            session=member.session_id,
            holder=member.owner,
            about=msgspec.json.encode(member.about),
            keep_ms=limits.keep_ms,
        )

    async def join(self, name: RoomName, member: Participant, limits: RoomLimits) -> RoomReply:
        return await self._run(
            "room_join",
            name,
            session=member.session_id,
            holder=member.owner,
            about=msgspec.json.encode(member.about),
            most=limits.max_members,
            expire_ms=limits.expire_ms,
            keep_ms=limits.keep_ms,
        )

    async def leave(self, name: RoomName, session_id: str, owner: str) -> RoomReply:
        """`owner` is the hold under which it is a member; under another one it stays."""
        return await self._run_ending("room_leave", name, session=session_id, holder=owner, ended_ms=ENDED_MS)

    async def host(self, name: RoomName, host: str, verb: str, session_id: str = "") -> RoomReply:
        """`verb`: remove (that session), lock, unlock, close. No host: an operator."""
        return await self._run_ending("room_host", name, host=host, verb=verb, session=session_id, ended_ms=ENDED_MS)

    async def wish(self, name: RoomName, session_id: str, speaker: str, *, wants_voice: bool) -> RoomReply:
        return await self._run("room_wish", name, session=session_id, speaker=speaker, wish=int(wants_voice))

    async def update(self, name: RoomName, session_id: str, owner: str, about: AboutMember) -> RoomReply:
        said = msgspec.json.encode(about)
        return await self._run("room_update", name, session=session_id, holder=owner, about=said)

    async def note_guests(self, name: RoomName, room_id: str, guests: GuestsAt) -> RoomReply:
        """How many there are at one instance."""
        return await self._note_guests(name, room_id, guests, "", 0)

    async def let_guest_in(self, name: RoomName, guests: GuestsAt, most: int, limits: RoomLimits) -> RoomReply:
        """`guests` with the one that wants to come in."""
        return await self._note_guests(name, "", guests, str(most), limits.expire_ms)

    async def _note_guests(
        self, name: RoomName, room_id: str, guests: GuestsAt, most: str, expire_ms: int
    ) -> RoomReply:
        return await self._run(
            "room_guests",
            name,
            id=room_id,
            holder=guests.holder,
            counts=str(guests),
            most=most,
            expire_ms=expire_ms,
        )

    async def move(self, stay: Stay, session_id: str, owner: str) -> RoomReply:
        return await self._run("room_move", stay.name, id=stay.room_id, session=session_id, holder=owner)

    async def look(self, name: RoomName) -> RoomReply:
        return await self._run("room_look", name)

    async def hold(
        self, room: RoomState, own: Sequence[Participant], fresh: str, limits: RoomLimits, *, has_spoken: bool
    ) -> RoomReply:
        """Keep a room in which this instance has members, `own`; they are written again if Redis has lost it."""
        reply = await self._hold(room, 0, (), fresh, limits, has_spoken)
        if reply.outcome is RoomOutcome.LOST:
            others = [member for member in room.members if member not in own]
            reply = await self._hold(room, len(own), (*own, *others), fresh, limits, has_spoken)
        return reply

    async def _hold(
        self,
        room: RoomState,
        own: int,
        members: Sequence[Participant],
        fresh: str,
        limits: RoomLimits,
        has_spoken: bool,
    ) -> RoomReply:
        return await self._run_ending(
            "room_hold",
            room.name,
            id=room.room_id,
            record=room.record,
            version=room.version,
            fresh=fresh,
            spoke=int(has_spoken),
            active_ms=room.active_ms,
            locked=int(room.is_locked),
            expire_ms=limits.expire_ms,
            keep_ms=limits.keep_ms,
            ended_ms=ENDED_MS,
            wishing=sum(bool(member.wishes) for member in room.members),
            hosting=len(room.guests),
            own=own,
            known_to=[text for member in members for text in _written(member)],
        )

    async def said(
        self, room: RoomState, session_id: str, index: int, known: int, limits: RoomLimits
    ) -> tuple[RoomOutcome, int]:
        """The number of an utterance in its room; `known` is the highest that the caller has seen. 0: the room has
        ended, or the speaker has left."""
        reply = await self._scripts.run(
            "room_said",
            **self._keys.room_said(str(room.name)),
            id=room.room_id,
            session=session_id,
            index=index,
            known=known,
            most=MAX_SAID,
            keep_ms=limits.keep_ms,
        )
        return RoomOutcome(reply[0]), _number(reply[1]) if len(reply) > 1 else 0

    async def note_stay(self, session_id: str, stay: Stay, keep_ms: int) -> None:
        """So that the instance where the session is resumed finds its room."""
        await self._line.call("SET", self._keys.stay(session_id), str(stay), "PX", keep_ms)

    async def renew_stay(self, session_id: str, keep_ms: int) -> bool:
        """False if Redis does not have it."""
        return bool(await self._line.call("PEXPIRE", self._keys.stay(session_id), keep_ms))

    async def forget_stay(self, session_id: str) -> None:
        await self._line.call("DEL", self._keys.stay(session_id))

    async def stay(self, session_id: str) -> Stay | None:
        return Stay.parse(await self._line.call("GET", self._keys.stay(session_id)) or "")

    async def _run_ending(self, script: str, name: RoomName, **values: Value) -> RoomReply:
        """For scripts that may end a room, of which nothing is to be left."""
        return await self._run(script, name, said=self._keys.room_said(str(name))[ROOM_SAID], **values)

    async def _run(self, script: str, name: RoomName, **values: Value) -> RoomReply:
        reply = await self._scripts.run(script, **self._keys.room_of(str(name)), **values)
        outcome = RoomOutcome(reply[0])
        if len(reply) < _FACTS:
            return RoomReply(outcome, why=reply[1] if len(reply) > 1 else "")
        return RoomReply(outcome, self._read(name, reply))

    def _read(self, name: RoomName, reply: Reply) -> RoomState:
        _, room_id, record, version, active_ms, locked, seq, guests = reply[:_FACTS]
        behind = _FACTS + _number(guests)
        return RoomState(
            name,
            room_id,
            record,
            _number(version),
            _number(active_ms),
            is_locked=locked == "1",
            members=tuple(self._members(name, reply[behind:])),
            seq=_number(seq),
            guests=tuple(GuestsAt.parse(*reply[at : at + 2]) for at in range(_FACTS, behind, 2)),
        )

    def _members(self, name: RoomName, flat: Sequence[str]) -> Iterator[Participant]:
        for at in range(0, len(flat), _PER_MEMBER):
            session_id, joined_us, about, owner, wishes = flat[at : at + _PER_MEMBER]
            try:
                said = _ABOUT.decode(about)
            except DECODE_ERRORS:
                self._unreadable.met("members", self._keys.room_of(str(name))["members"])
                said = AboutMember()
            yield Participant(session_id, owner, said, _number(joined_us), _wishes(wishes))


def _written(member: Participant) -> tuple[str, ...]:
    wishes = " ".join(f"{speaker}={int(wish)}" for speaker, wish in member.wishes.items())
    about = msgspec.json.encode(member.about).decode()
    return member.session_id, str(member.joined_us), about, member.owner, wishes


def _wishes(text: str) -> Mapping[str, bool]:
    return {speaker: value == "1" for speaker, _, value in (wish.rpartition("=") for wish in text.split())}


def _number(text: str) -> int:
    """What cannot be read counts as never."""
    try:
        return min(max(int(float(text)), 0), _MOST)
    except (ValueError, OverflowError):
        return 0
