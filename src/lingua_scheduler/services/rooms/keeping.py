"""Keeps the rooms that have members here: renews them, ends quiet ones, removes members that are gone, and writes
rooms again that Redis has lost."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.rooms.rooms import RoomName, RoomOutcome, RoomState
from lingua_scheduler.domain.sessions.handover import SessionOwner
from lingua_scheduler.protocol.bus import RoomChanged
from lingua_scheduler.services.cluster.letters import Letter
from lingua_scheduler.services.rooms.guests import RoomGuests
from lingua_scheduler.services.rooms.membership import RoomMembership
from lingua_scheduler.services.rooms.room_here import RoomHere
from lingua_scheduler.services.rooms.rooms_here import RoomsHere
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.rooms.rooms import RoomStore
from lingua_scheduler.telemetry import logs, metrics

_log = logs.get()

LOOK_S = 5.0
TOGETHER = 64
# Where its members are found is written again so often before it would expire.
RENEWALS = 3

# Whether an instance is alive, in this incarnation.
IsAlive = Callable[[str, str], Awaitable[bool]]


class RoomKeeper:
    """`grace_s`: how long a member whose instance died may stay away."""

    def __init__(
        self,
        store: RoomStore,
        here: RoomsHere,
        membership: RoomMembership,
        guests: RoomGuests,
        is_alive: IsAlive,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._store = store
        self._here = here
        self._membership = membership
        self._guests = guests
        self._notices = guests.notices
        self._is_alive = is_alive
        self._clock = clock
        self.grace_s = 30.0
        # Called with every look.
        self.on_look: Callable[[], None] = _nothing
        here.on_lost = self._lost
        limits = membership.limits
        # Speech at another instance is known in Redis by its next look.
        self._limits = limits._replace(expire_ms=limits.expire_ms + int(LOOK_S * 1000))

    async def look(self) -> None:
        self.on_look()
        rooms = list(self._here)
        for at in range(0, len(rooms), TOGETHER):
            await asyncio.gather(*map(self._keep, rooms[at : at + TOGETHER]))
        await self._guests.look_again()

    async def changed(self, message: RoomChanged, letter: Letter) -> None:
        """Another instance changed a room."""
        here = self._here.find(RoomName.parse(message.room))
        if here is None or letter.adopted_from:
            return
        reply = await self._store.look(here.state.name)
        if reply.room is not None and reply.room.room_id == here.state.room_id:
            self._here.show(here, reply.room)
        elif reply.outcome is RoomOutcome.UNKNOWN:
            await self._hold(here)
        else:
            self._here.end(here, reply.why)

    async def restore(self, here: RoomHere) -> None:
        """Write it again if Redis has lost it. Raises RedisAway."""
        await self._hold(here)

    def _lost(self, here: RoomHere) -> None:
        self._membership.tasks.start(self._keep(here))

    async def _keep(self, here: RoomHere) -> None:
        try:
            await self._hold(here)
            if self._here.find(here.state.name) is here:
                await self._remove_absent(here)
                await self._guests.look(here)
        except RedisAway:
            _log.info("room.not_kept", room_id=here.state.room_id)

    async def _hold(self, here: RoomHere) -> None:
        before, now_s = here.state, self._clock()
        has_spoken = here.has_spoken()
        reply = await self._store.hold(before, here.own, secrets.token_hex(8), self._limits, has_spoken=has_spoken)
        if has_spoken:
            here.heard_s = now_s
        match reply.outcome:
            case RoomOutcome.EXPIRED | RoomOutcome.ENDED:
                _log.info("room.ended", room_id=before.room_id, why=reply.why or "expired")
                self._here.end(here, reply.why or "expired")
                if reply.outcome is RoomOutcome.EXPIRED:
                    await self._notices.changed(before, reply.room)
                return
            case RoomOutcome.RESTORED:
                metrics.ROOMS_RESTORED.inc()
                here.noted_s = float("-inf")
                await self._membership.spread(_known(reply.room), before)
            case RoomOutcome.OPEN:
                self._here.show(here, _known(reply.room))
        if now_s - here.noted_s > self._limits.expire_ms / 1000 / RENEWALS or not await self._has_stay(here):
            here.noted_s = now_s
            await asyncio.gather(*map(self._membership.note_stay, here.everyone()))

    async def _has_stay(self, here: RoomHere) -> bool:
        """Of one of those here: if it is lost, others may be too."""
        everyone = here.everyone()
        probed = secrets.choice(everyone).session_id if everyone else ""
        return not probed or await self._store.renew_stay(probed, self._limits.keep_ms)

    async def _remove_absent(self, here: RoomHere) -> None:
        """Members whose instance is dead, or has them no more, and whose client did not come back elsewhere."""
        now_s = self._clock()
        for member in here.state.members:
            if await self._is_present(here, member.session_id, SessionOwner.parse(member.owner)):
                here.absent_since_s.pop(member.session_id, None)
            elif now_s - here.absent_since_s.setdefault(member.session_id, now_s) >= self.grace_s:
                _log.info("room.member_gone", room_id=here.state.room_id, session_id=member.session_id)
                reply = await self._store.leave(here.state.name, member.session_id, member.owner)
                await self._membership.removed(here.state, reply)
        for guests in here.state.guests:
            if not await self._is_alive(guests.instance, guests.incarnation):
                await self._guests.forget(here, guests)

    async def _is_present(self, here: RoomHere, session_id: str, owner: SessionOwner) -> bool:
        if owner.instance == self._notices.instance:
            return session_id in here.sessions
        return await self._is_alive(owner.instance, owner.incarnation)


def _nothing() -> None:
    """Until it is set."""


def _known(state: RoomState | None) -> RoomState:
    """These replies have the room in them."""
    assert state is not None
    return state
