"""Text messages of members, to everyone in the room whose client can read them, at any instance."""

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock, wall_ms
from lingua_scheduler.domain.guards.rates import MinuteAllowances
from lingua_scheduler.domain.rooms.history import PastLine
from lingua_scheduler.domain.rooms.rooms import RoomErrorCode, RoomName
from lingua_scheduler.protocol.bus import RoomWritten
from lingua_scheduler.services.cluster.letters import Letter
from lingua_scheduler.services.rooms.entry import RoomRefusal
from lingua_scheduler.services.rooms.history import RoomHistories
from lingua_scheduler.services.rooms.notices import RoomNotices
from lingua_scheduler.services.rooms.room_here import RoomHere
from lingua_scheduler.services.rooms.rooms_here import RoomsHere
from lingua_scheduler.services.sessions.sessions import Session
from lingua_scheduler.setting_sections.rooms import RoomsSettings
from lingua_scheduler.telemetry import metrics
from lingua_sdk.protocol import codec
from lingua_sdk.protocol.session import RoomMessage

_TEXTS = metrics.by(metrics.ROOM_TEXTS, "sent", "received", "refused", "too_many", "lost")


class RoomMessages:
    def __init__(
        self,
        here: RoomsHere,
        notices: RoomNotices,
        histories: RoomHistories,
        settings: RoomsSettings,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._here = here
        self._notices = notices
        self._histories = histories
        self._allowances = MinuteAllowances(settings.messages_per_min)
        self._clock = clock
        self._latest_ms = 0

    async def say(self, session: Session, here: RoomHere, text: str) -> None:
        """Raises RoomRefusal."""
        member = here.state.find(session.session_id)
        if member is None or session.session_id not in here.sessions:
            _TEXTS["refused"].inc()
            raise RoomRefusal(RoomErrorCode.DENIED, "旁听者不能发送消息 (guests listen and read; they cannot write)")
        text = _readable(text)
        if not text:
            return
        if not self._allowances.take(session.session_id, self._clock()):
            _TEXTS["too_many"].inc()
            raise RoomRefusal(RoomErrorCode.TOO_OFTEN, "消息过于频繁，请稍后再试 (too many messages; wait a moment)")
        # It is a sign that the room is in use, as speech is.
        session.spoke_at_s = self._clock()
        message = RoomMessage(
            room_code=here.state.name.code,
            session_id=session.session_id,
            display_name=member.about.name or None,
            text=text,
            sent_at_ms=self._now_ms(),
        )
        _TEXTS["sent"].inc()
        self._deliver(here, message)
        letter = RoomWritten(str(here.state.name), here.state.room_id, codec.encode(message))
        if not await self._notices.to_others(here.state, letter):
            _TEXTS["lost"].inc()
            raise RoomRefusal(RoomErrorCode.INTERNAL, "消息未送达所有人 (not everyone in the room got the message)")

    def arrived(self, message: RoomWritten, letter: Letter) -> None:
        """Of a member at another instance."""
        here = self._here.find(RoomName.parse(message.room))
        if letter.is_repeat or letter.adopted_from or here is None or here.state.room_id != message.room_id:
            return
        written = codec.decode_for_client(message.frame)
        if isinstance(written, RoomMessage):
            _TEXTS["received"].inc()
            self._deliver(here, written)

    def _deliver(self, here: RoomHere, message: RoomMessage) -> None:
        here.tell_readers(message)
        self._histories.add(
            here,
            PastLine(
                session_id=message.session_id,
                name=message.display_name or "",
                at_ms=int(message.sent_at_ms),
                text=message.text,
            ),
        )

    def _now_ms(self) -> int:
        """Two messages never have the same, so that a client recognises one that it has."""
        self._latest_ms = max(self._latest_ms + 1, int(wall_ms()))
        return self._latest_ms


def _readable(text: str) -> str:
    """Without what no screen shows; lines stay lines."""
    return "".join(char if char.isprintable() or char == "\n" else " " for char in text).strip()
