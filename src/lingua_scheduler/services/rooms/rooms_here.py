"""The rooms that have members or guests at this instance: found, opened, shown to those in them, and dropped."""

from collections.abc import Callable, Iterator

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.rooms.rooms import AboutMember, RoomName, RoomState, Stay
from lingua_scheduler.services.rooms.lag import RoomLag
from lingua_scheduler.services.rooms.room_here import RoomHere
from lingua_scheduler.services.sessions.sessions import Session
from lingua_scheduler.telemetry import metrics
from lingua_sdk.protocol.session import RoomExpired

# Existing pages show this to a person, and go back to their menu.
ENDS = {
    "expired": "30分钟无人发言，房间已过期 (the room was quiet for too long)",
    "removed": "您已被移出房间 (the host removed you from the room)",
    "closed": "主持人已关闭房间 (the host closed the room)",
    "operator": "管理员已关闭房间 (an operator closed the room)",
}
OVER = "房间已结束 (the room has ended)"


class RoomsHere:
    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self.lag = RoomLag(clock)
        self._rooms: dict[RoomName, RoomHere] = {}
        # Asked for the frames that may pass when a member has left, or one has entered.
        self.on_staged: Callable[[RoomHere], None] = _ignore
        # Called when Redis lost a room, and what is there now is not all of it.
        self.on_lost: Callable[[RoomHere], None] = _ignore
        # Called with a room that has its first member or guest here, and with one that has none any more.
        self.on_first: Callable[[RoomHere], None] = _ignore
        self.on_last: Callable[[RoomHere], None] = _ignore

    def __len__(self) -> int:
        return len(self._rooms)

    def __iter__(self) -> Iterator[RoomHere]:
        return iter(list(self._rooms.values()))

    def find(self, name: RoomName) -> RoomHere | None:
        return self._rooms.get(name)

    def of(self, session: Session) -> RoomHere | None:
        return self._rooms.get(session.stay.name) if session.stay is not None else None

    def add(self, state: RoomState, session: Session, since: int) -> RoomHere:
        """One of our sessions is a member; what was said until `since` is not for it."""
        here = self._open(state)
        here.sessions[session.session_id] = session
        session.stay = Stay(state.name, state.room_id, since=since)
        self._count()
        return here

    def add_guest(self, state: RoomState, session: Session, about: AboutMember, since: int) -> RoomHere:
        """One of our sessions is a guest."""
        here = self._open(state)
        here.add_guest(session, about)
        session.stay = Stay(state.name, state.room_id, about, since)
        self._count()
        return here

    def _open(self, state: RoomState) -> RoomHere:
        here = self._rooms.get(state.name)
        if here is not None and here.state.room_id != state.room_id:
            self.end(here, "")
            here = None
        if here is None:
            here = self._rooms[state.name] = RoomHere(state, self._clock)
            here.on_shown = self._shown
            self.on_first(here)
        return here

    def show(self, here: RoomHere, state: RoomState) -> None:
        """The room has changed: its members here get it, also those of them that were removed."""
        before = here.state
        if state.room_id != before.room_id or (state.record == before.record and state.version < before.version):
            return
        present = {member.session_id for member in state.members}
        if state.record != before.record and here.sessions.keys() - present:
            self.on_lost(here)
            return
        for gone in {member.session_id for member in before.members} - present:
            here.staging.forget(gone)
            here.absent_since_s.pop(gone, None)
            here.budgets.pop(gone, None)
        here.state = state
        here.latest_seq = max(here.latest_seq, state.seq)
        for session_id in here.sessions.keys() - present:
            self._send_away(here, session_id, ENDS["removed"])
        if (state.members, state.is_locked) != (before.members, before.is_locked):
            here.showing.ask()
        elif state.guest_count != before.guest_count:
            here.telling.ask()
        self.on_staged(here)
        self._drop_if_empty(here)

    def _shown(self, here: RoomHere) -> None:
        """Those who joined may enter."""
        self.on_staged(here)

    def forget(self, session: Session) -> RoomHere | None:
        """It left, or another instance has it. Returns the room that it was in."""
        here, session.stay = self.of(session), None
        if here is not None:
            self._take_out(here, session.session_id)
            self._drop_if_empty(here)
        return here

    def end(self, here: RoomHere, why: str) -> None:
        for session_id in [*here.sessions, *here.guests]:
            self._send_away(here, session_id, ENDS.get(why, OVER))
        self._drop_if_empty(here)

    def _send_away(self, here: RoomHere, session_id: str, told: str) -> None:
        session = self._take_out(here, session_id)
        if session is not None:
            session.stay = None
            session.post(RoomExpired(room_code=here.state.name.code, message=told))

    def _take_out(self, here: RoomHere, session_id: str) -> Session | None:
        if (guest := here.remove_guest(session_id)) is not None:
            return guest
        session = here.sessions.pop(session_id, None)
        if session is not None:
            here.staging.forget(session_id)
            here.wants_servers.discard(session_id)
            for known in (here.speakers, here.translating, here.told):
                known.pop(session_id, None)
        return session

    def _drop_if_empty(self, here: RoomHere) -> None:
        if here.is_empty and self._rooms.get(here.state.name) is here:
            del self._rooms[here.state.name]
            here.telling.cancel()
            here.showing.cancel()
            for timer in (here.timer, here.feed_timer):
                if timer is not None:
                    timer.cancel()
            self.on_last(here)
        self._count()

    def _count(self) -> None:
        metrics.ROOMS.set(len(self._rooms))
        metrics.ROOM_MEMBERS.set(sum(len(here.sessions) for here in self._rooms.values()))
        metrics.ROOM_GUESTS.set(sum(len(here.guests) for here in self._rooms.values()))


def _ignore(_: RoomHere) -> None:
    """Until it is set."""
