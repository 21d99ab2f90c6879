"""Relays WebRTC frames between members, staged so that existing browsers connect. What must not pass is dropped in
silence: an error would raise an alert in front of a person."""

import asyncio
from collections.abc import Callable

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.guards.rates import Budget
from lingua_scheduler.domain.rooms.rooms import RoomName
from lingua_scheduler.domain.rooms.staging import Ruling
from lingua_scheduler.protocol.bus import RoomFrame
from lingua_scheduler.services.cluster.letters import Letter
from lingua_scheduler.services.rooms.notices import RoomNotices
from lingua_scheduler.services.rooms.relay_servers import RelayServers
from lingua_scheduler.services.rooms.room_here import RoomHere
from lingua_scheduler.services.rooms.rooms_here import RoomsHere
from lingua_scheduler.services.sessions.sessions import Session
from lingua_scheduler.setting_sections.rooms import RoomsSettings
from lingua_scheduler.telemetry import metrics
from lingua_sdk.protocol import codec
from lingua_sdk.protocol.session import RoomCreateAck, WebrtcAnswer, WebrtcFrame, WebrtcIce, WebrtcOffer

# A member that joins a large room answers everyone in it at once.
BURST = 10

_SIGNALS = metrics.by(
    metrics.ROOM_SIGNALS, "passed", "forwarded", "held", "crossed", "outside", "too_large", "too_many", "lost"
)


class Voices:
    def __init__(
        self,
        here: RoomsHere,
        notices: RoomNotices,
        servers: RelayServers,
        settings: RoomsSettings,
        is_held: Callable[[Session], bool],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.here = here
        self.is_held = is_held
        self._notices = notices
        self._servers = servers
        self._settings = settings
        self._clock = clock
        # Called when a member has entered, and knows it.
        self.on_entered: Callable[[RoomHere, Session], None] | None = None
        here.on_staged = self.pass_due

    def enter(self, here: RoomHere, session_id: str, awaited: frozenset[str], *, wants_servers: bool) -> None:
        here.staging.enter(session_id, awaited, self._clock())
        if wants_servers:
            here.wants_servers.add(session_id)

    async def relay(self, session: Session, message: WebrtcFrame) -> None:
        here, sender, receiver = self.here.of(session), session.session_id, message.to
        if here is None or here.state.name.code != message.room_code or not here.state.carries_voice(sender, receiver):
            _SIGNALS["outside"].inc()
            return
        if not self._budget(here, sender).take(self._clock()):
            _SIGNALS["too_many"].inc()
            return
        # The receiver learns from whom it is.
        message.to = sender
        frame = codec.encode(message)
        settings = self._settings
        if len(frame) > (settings.max_candidate_bytes if isinstance(message, WebrtcIce) else settings.max_sdp_bytes):
            _SIGNALS["too_large"].inc()
            return
        is_away = receiver not in here.sessions
        if self._stage(here, sender, receiver, message, is_away=is_away) and is_away:
            await self._forward(here, sender, receiver, frame)

    async def _forward(self, here: RoomHere, sender: str, receiver: str, frame: bytes) -> None:
        member = here.state.find(receiver)
        instance = member.instance if member is not None else ""
        is_sent = await self._notices.frame(instance, here.state.name, sender, receiver, frame)
        _SIGNALS["forwarded" if is_sent else "lost"].inc()

    def arrived(self, message: RoomFrame, letter: Letter) -> None:
        """A frame from a member at another instance."""
        here = self.here.find(RoomName.parse(message.room))
        if letter.is_repeat or letter.adopted_from or here is None or message.receiver not in here.sessions:
            return
        if not here.state.carries_voice(message.sender, message.receiver):
            _SIGNALS["outside"].inc()
            return
        frame = codec.decode_for_client(message.frame)
        if isinstance(frame, WebrtcFrame):
            self._stage(here, message.sender, message.receiver, frame, is_from_away=True)

    def _stage(
        self,
        here: RoomHere,
        sender: str,
        receiver: str,
        frame: WebrtcFrame,
        *,
        is_away: bool = False,
        is_from_away: bool = False,
    ) -> bool:
        """Whether it may pass; to a member here it has."""
        staging, now_s = here.staging, self._clock()
        match frame:
            case WebrtcOffer():
                ruling = staging.offer(sender, receiver, frame, now_s, is_away=is_away, is_from_away=is_from_away)
            case WebrtcAnswer():
                ruling = staging.answer(sender, receiver, now_s)
            case WebrtcIce():
                ruling = staging.candidate(sender, receiver, frame, now_s, is_away=is_away)
        if ruling is Ruling.PASS and not is_away:
            here.sessions[receiver].post(frame)
            _SIGNALS["passed"].inc()
        elif ruling is not Ruling.PASS:
            _SIGNALS["held" if ruling is Ruling.HOLD else "crossed"].inc()
        self.pass_due(here)
        return ruling is Ruling.PASS

    def pass_due(self, here: RoomHere) -> None:
        """Send what may pass now, and come back when the next may. One that joins enters when the others see it: its
        client may offer its voice at once, and existing pages refuse offers of those whom they do not see."""
        is_shown = not here.showing.is_waiting
        if here.timer is not None:
            here.timer.cancel()
            here.timer = None
        for passing in here.staging.due(self._clock(), is_shown=is_shown):
            session = here.sessions.get(passing.receiver)
            if session is None:
                continue
            if passing.is_entering:
                self._tell_entered(here, session)
            for frame in passing.frames:
                session.post(frame)
                _SIGNALS["passed"].inc()
        next_s = here.staging.next_s(is_shown=is_shown)
        if next_s is not None and here.sessions:
            wait_s = max(0.0, next_s - self._clock())
            here.timer = asyncio.get_running_loop().call_later(wait_s, self.pass_due, here)

    def _tell_entered(self, here: RoomHere, session: Session) -> None:
        """Existing clients that join enter on the acknowledgement alone, and look at nothing before it."""
        name, servers = here.state.name, None
        if session.session_id in here.wants_servers:
            here.wants_servers.discard(session.session_id)
            servers = self._servers.told_to(session.session_id)
        member = here.state.find(session.session_id)
        seq = here.latest_seq if member is not None and member.about.events else None
        session.post(RoomCreateAck(room_code=name.code, room_id=here.state.room_id, ice_servers=servers, room_seq=seq))
        session.post(here.members_message())
        if self.on_entered is not None:
            self.on_entered(here, session)

    def _budget(self, here: RoomHere, sender: str) -> Budget:
        budget = here.budgets.get(sender)
        if budget is None:
            per_s = self._settings.max_signals_per_s
            budget = here.budgets[sender] = Budget(per_s, BURST * per_s)
        return budget
