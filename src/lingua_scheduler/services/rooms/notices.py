"""Letters about rooms to the instances that have their other members."""

import asyncio
from collections.abc import Iterable

from lingua_scheduler.domain.rooms.rooms import RoomName, RoomState
from lingua_scheduler.protocol.bus import AnyMessage, RoomChanged, RoomFrame
from lingua_scheduler.services.cluster.mailroom import Mailroom, Posted
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.telemetry import logs

_log = logs.get()

# Pauses before a letter about speech is sent again.
RETRY_S = (0.1, 0.3, 1.0, 3.0)


class RoomNotices:
    """What does not arrive is found when rooms are looked at."""

    def __init__(self, instance: str, mailroom: Mailroom) -> None:
        self.instance = instance
        self._mailroom = mailroom

    async def changed(self, before: RoomState, after: RoomState | None = None) -> None:
        """To all that have members or guests of the room, or had."""
        instances = before.instances() | (set() if after is None else after.instances())
        await asyncio.gather(*(self.post(name, RoomChanged(str(before.name))) for name in self._others(instances)))

    async def to_others(self, state: RoomState, message: AnyMessage) -> bool:
        """To all that have members or guests. Whether all of these that are alive get it."""
        return all(await asyncio.gather(*(self._reaches(name, message) for name in self._others(state.instances()))))

    async def frame(self, instance: str, room: RoomName, sender: str, receiver: str, frame: bytes) -> bool:
        """Whether it was sent."""
        return await self.post(instance, RoomFrame(str(room), sender, receiver, frame))

    async def post(self, instance: str, message: AnyMessage) -> bool:
        """Whether it was sent."""
        try:
            return await self._mailroom.post(instance, message) is Posted.SENT
        except RedisAway:
            return False

    async def _reaches(self, instance: str, message: AnyMessage) -> bool:
        """One that is dead has no readers."""
        try:
            return await self._mailroom.post(instance, message) is not Posted.FULL
        except RedisAway:
            return False

    async def to(self, instances: Iterable[str], message: AnyMessage) -> None:
        """Tried again for a while if too much waits there, or Redis is away."""
        await asyncio.gather(*(self._insist(name, message) for name in self._others(instances)))

    async def _insist(self, instance: str, message: AnyMessage) -> None:
        for pause_s in (*RETRY_S, None):
            try:
                if await self._mailroom.post(instance, message) is not Posted.FULL:
                    return
            except RedisAway:
                pass
            if pause_s is not None:
                await asyncio.sleep(pause_s)
        _log.warning("room.letter_lost", kind=message.kind, instance=instance)

    def _others(self, instances: Iterable[str]) -> list[str]:
        return sorted(set(instances) - {self.instance, ""})
