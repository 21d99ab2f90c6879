"""The list of live rooms in Redis: instances renew what they have, and an entry that none renews expires.

Rooms themselves are found by tenant and code, each in its own hash slot; this is how operators find all of them."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lingua_scheduler.domain.rooms.rooms import RoomName, RoomState, is_code
from lingua_scheduler.store.connection import RedisLine
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.reading import is_text, whole
from lingua_scheduler.store.scripts import Scripts
from lingua_scheduler.store.unreadable import UnreadableKeys

# An instance renews its rooms every few seconds. This is far below the time for which a code stays in use after the end
# of its room, so an entry never leads to another room with the same code.
KEEP_MS = 30_000
# Rooms noted in one call, and entries removed by it.
TOGETHER = 200
# Rooms that were opened in the same millisecond are on the same page, as many as these.
MOST_TIES = 1_000


class LiveRoom(NamedTuple):
    room_id: str
    name: RoomName
    opened_ms: int


class LivePage(NamedTuple):
    rooms: list[LiveRoom]
    # Where the next page begins; 0: there is none.
    next_before_ms: int


class LiveRooms:
    def __init__(self, line: RedisLine, keys: Keys, scripts: Scripts, unreadable: UnreadableKeys) -> None:
        self._line = line
        self._keys = keys.live_rooms
        self._scripts = scripts
        self._unreadable = unreadable

    async def note(self, rooms: Iterable[RoomState]) -> None:
        """An instance has members of these."""
        known = [room for room in rooms if room.members]
        for at in range(0, len(known), TOGETHER):
            words = [word for room in known[at : at + TOGETHER] for word in _words(room)]
            await self._scripts.run("room_note", **self._keys, keep_ms=KEEP_MS, most_gone=TOGETHER, rooms=words)

    async def page(self, before_ms: int, count: int) -> LivePage:
        """The latest rooms that were opened before this (0: all), newest first; some of them may be over."""
        found = await self._opened("-inf", f"({before_ms}" if before_ms else "+inf", count)
        next_ms = 0
        if len(found) == count:
            next_ms = min(found.values())
            found |= await self._opened(str(next_ms), str(next_ms), MOST_TIES)
        return LivePage(await self._named(found), next_ms)

    async def find(self, room_id: str) -> LiveRoom | None:
        score = await self._line.call("ZSCORE", self._keys["opened"], room_id)
        rooms = await self._named({room_id: whole(score)}) if score is not None else []
        return rooms[0] if rooms else None

    async def _opened(self, least: str, most: str, count: int) -> dict[str, int]:
        flat: Sequence[str] = await self._line.call(
            "ZRANGE", self._keys["opened"], most, least, "BYSCORE", "REV", "LIMIT", 0, count, "WITHSCORES"
        )
        return {room_id: whole(score) for room_id, score in zip(flat[::2], flat[1::2], strict=True)}

    async def _named(self, opened: dict[str, int]) -> list[LiveRoom]:
        """Those of them that have a name; others have just been removed, or are none of ours."""
        if not opened:
            return []
        names: Sequence[str | None] = await self._line.call("HMGET", self._keys["named"], *opened)
        found = [
            LiveRoom(room_id, name, opened_ms)
            for (room_id, opened_ms), text in zip(opened.items(), names, strict=True)
            if text and is_text(text) and is_code((name := RoomName.parse(text)).code) and is_text(room_id)
        ]
        self._unreadable.met("named", self._keys["named"], sum(map(bool, names)) - len(found))
        return found


def _words(room: RoomState) -> tuple[str, str, str]:
    """When its first member joined is when it was opened, unless another instance has said so before."""
    return room.room_id, str(room.members[0].joined_us // 1000), str(room.name)
