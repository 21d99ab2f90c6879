"""The last minutes of a room as text, for those who join. They are in memory alone: an instance that has its first
member or guest of a room asks another one for them."""

import asyncio
from contextlib import suppress

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock, wall_ms
from lingua_scheduler.domain.guards.rates import MinuteAllowances
from lingua_scheduler.domain.rooms.history import PastLine, RoomPasts
from lingua_scheduler.domain.rooms.rooms import RoomName, RoomState
from lingua_scheduler.protocol.bus import RoomChanged, RoomPastAsked, RoomPastTold
from lingua_scheduler.services.cluster.letters import Letter
from lingua_scheduler.services.rooms.notices import RoomNotices
from lingua_scheduler.services.rooms.room_here import RoomHere
from lingua_scheduler.services.rooms.rooms_here import RoomsHere
from lingua_scheduler.services.sessions.sessions import Session
from lingua_scheduler.setting_sections.rooms import RoomsSettings
from lingua_scheduler.telemetry.tasks import Nursery
from lingua_sdk.protocol.session import RoomHistory, RoomLine

# How long one that joins waits for what another instance has kept.
WAIT_S = 1.0
# How often a session gets it in a minute, by joining or resuming: it may be 128 KiB.
SENT_PER_MIN = 5
# Instances that are asked, one after the other, until one can be.
ASKED = 3


class RoomHistories:
    def __init__(
        self,
        here: RoomsHere,
        notices: RoomNotices,
        tasks: Nursery,
        settings: RoomsSettings,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._here = here
        self._notices = notices
        self._tasks = tasks
        self._clock = clock
        self._keep_ms = settings.history_ms
        self._allowances = MinuteAllowances(SENT_PER_MIN)
        self._pasts = RoomPasts(settings.history_ms / 1000, settings.history_bytes)
        here.on_first, here.on_last = self._begin, self._end

    def add(self, here: RoomHere, line: PastLine) -> None:
        """What was said or written. Of speech it is called for each language, with the same `seq`."""
        if self._keep_ms:
            self._pasts.add(here.past, (line,), self._clock())

    def entered(self, here: RoomHere, session: Session) -> None:
        """It gets what was said before, in its language where there is a translation."""
        about = here.about(session.session_id)
        if not self._keep_ms or about is None or not about.events:
            return
        if here.is_recalled.is_set():
            self._send(here, session, self._clock())
        else:
            self._tasks.start(self._send_when_recalled(here, session, self._clock()))

    def resumed(self, here: RoomHere, session: Session) -> None:
        """What was written while its client was away. What was said it gets as results."""
        about = here.about(session.session_id)
        if self._keep_ms and about is not None and about.events:
            self._tell(here, session, [line for line in self._recent(here) if line.seq is None])

    async def look(self) -> None:
        self._pasts.trim(self._clock())

    def _begin(self, here: RoomHere) -> None:
        others = self._others(here.state) if self._keep_ms else []
        if others:
            self._tasks.start(self._ask(here, others))
        else:
            here.is_recalled.set()

    def _end(self, here: RoomHere) -> None:
        self._pasts.drop(here.past)

    def _others(self, state: RoomState) -> list[str]:
        """The host has been there for longest."""
        hosted = [state.host.instance] if state.host is not None else []
        others = dict.fromkeys([*hosted, *sorted(state.instances())])
        return [instance for instance in others if instance not in ("", self._notices.instance)][:ASKED]

    async def _ask(self, here: RoomHere, others: list[str]) -> None:
        room = str(here.state.name)
        for instance in others:
            # Letters of a room are read in order: what is said after its answer, it sends here.
            if await self._notices.post(instance, RoomChanged(room)):
                await self._notices.post(instance, RoomPastAsked(room, here.state.room_id))
                return
        here.is_recalled.set()

    async def asked(self, message: RoomPastAsked, letter: Letter) -> None:
        here = self._room(message.room, message.room_id)
        if letter.adopted_from or letter.is_repeat:
            return
        lines = self._recent(here) if here is not None else []
        await self._notices.post(letter.sender, RoomPastTold(message.room, message.room_id, lines))

    def told(self, message: RoomPastTold, letter: Letter) -> None:
        here = self._room(message.room, message.room_id)
        if here is None or letter.adopted_from or not self._keep_ms:
            return
        # Before anyone entered here.
        self._pasts.add(here.past, message.lines, here.opened_s)
        here.is_recalled.set()

    def _room(self, room: str, room_id: str) -> RoomHere | None:
        here = self._here.find(RoomName.parse(room))
        return here if here is not None and here.state.room_id == room_id else None

    async def _send_when_recalled(self, here: RoomHere, session: Session, entered_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S):
                await here.is_recalled.wait()
        if self._here.of(session) is here:
            self._send(here, session, entered_s)

    def _send(self, here: RoomHere, session: Session, entered_s: float) -> None:
        """What came since it entered, it got when it came."""
        self._tell(here, session, self._recent(here, entered_s))

    def _recent(self, here: RoomHere, before_s: float = float("inf")) -> list[PastLine]:
        since_ms = wall_ms() - self._keep_ms
        return [line for line in here.past.lines(before_s) if line.at_ms >= since_ms]

    def _tell(self, here: RoomHere, session: Session, lines: list[PastLine]) -> None:
        about = here.about(session.session_id)
        if lines and about is not None and self._allowances.take(session.session_id, self._clock()):
            told = [_shown(line, about.language) for line in lines]
            session.post(RoomHistory(room_code=here.state.name.code, lines=told))


def _shown(line: PastLine, language: str) -> RoomLine:
    text, lang = line.text_in(language)
    return RoomLine(
        session_id=line.session_id,
        display_name=line.name or None,
        text=text,
        lang=lang or None,
        text_asr=None if line.seq is None else line.text,
        room_seq=line.seq,
        at_ms=line.at_ms,
    )
