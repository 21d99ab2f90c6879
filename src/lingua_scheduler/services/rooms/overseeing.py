"""Rooms for operators: the list of live ones, who is in each, and closing one."""

import asyncio
from collections import Counter
from typing import NamedTuple

from lingua_scheduler.domain.rooms.rooms import RoomOutcome, RoomState
from lingua_scheduler.services.rooms.notices import RoomNotices
from lingua_scheduler.services.rooms.rooms_here import RoomsHere
from lingua_scheduler.store.rooms.live_rooms import LiveRoom, LiveRooms
from lingua_scheduler.store.rooms.rooms import RoomStore

# Rooms read at once, and entries of the list that are looked through for one page.
TOGETHER = 50
MOST_LOOKED_AT = 1_000
OPERATOR = "operator"


class OpenRoom(NamedTuple):
    state: RoomState
    opened_ms: int


class RoomPage(NamedTuple):
    rooms: list[OpenRoom]
    # Where the next page begins; 0: there is none.
    next_before_ms: int


class RoomOverseer:
    """A tenant that is None stands for all. Methods raise RedisAway."""

    def __init__(self, store: RoomStore, live: LiveRooms, here: RoomsHere, notices: RoomNotices) -> None:
        self._store = store
        self._live = live
        self._here = here
        self._notices = notices

    async def note(self) -> None:
        """Say which rooms have members here; to be called every few seconds."""
        await self._live.note(here.state for here in self._here)

    async def page(self, tenant: str | None, before_ms: int, count: int) -> RoomPage:
        """Newest first. It may be short, and still have a next one."""
        found: list[OpenRoom] = []
        looked_at = 0
        while len(found) < count and looked_at < MOST_LOOKED_AT:
            listed, before_ms = await self._live.page(before_ms, min(TOGETHER, count - len(found)))
            own = [room for room in listed if tenant in (None, room.name.tenant)]
            for room in await asyncio.gather(*map(self._open, own)):
                found += [room] if room is not None else []
            looked_at += len(listed)
            if not before_ms:
                break
        return RoomPage(found, before_ms)

    async def find(self, room_id: str, tenant: str | None) -> OpenRoom | None:
        listed = await self._live.find(room_id)
        return await self._open(listed) if listed is not None and tenant in (None, listed.name.tenant) else None

    async def close(self, room_id: str, tenant: str | None) -> bool:
        """Whether there was such a room; its members get `room_expired`."""
        room = await self.find(room_id, tenant)
        if room is None:
            return False
        name = room.state.name
        reply = await self._store.host(name, "", "close")
        if reply.outcome is not RoomOutcome.ENDED:
            return False
        here = self._here.find(name)
        if here is not None:
            self._here.end(here, OPERATOR)
        await self._notices.changed(room.state)
        return True

    async def _open(self, listed: LiveRoom) -> OpenRoom | None:
        """The room as it is; None if it is over."""
        state = (await self._store.look(listed.name)).room
        return OpenRoom(state, listed.opened_ms) if state is not None and state.room_id == listed.room_id else None


def languages_of(state: RoomState) -> dict[str, int]:
    """Language → how many members and guests read and hear the others in it."""
    counts = Counter(member.about.language for member in state.members if member.about.language)
    for at in state.guests:
        counts.update({language: guests.total for language, guests in at.languages.items()})
    return dict(sorted(counts.items()))
