"""Room messages of a client's socket: to the right verb, and refusals back to the person."""

from time import monotonic
from typing import get_args

from lingua_scheduler.domain.guards.rates import MinuteAllowances
from lingua_scheduler.domain.rooms.rooms import RoomErrorCode
from lingua_scheduler.services.attempts.peers import ClientPeer
from lingua_scheduler.services.rooms.entry import RoomRefusal, counted_as
from lingua_scheduler.services.rooms.membership import RoomMembership
from lingua_scheduler.services.rooms.messages import RoomMessages
from lingua_scheduler.services.rooms.updates import RoomUpdates
from lingua_scheduler.services.rooms.voices import Voices
from lingua_scheduler.services.sessions.sessions import Session
from lingua_scheduler.store.connection import RedisAway
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.protocol.session import (
    RoomClose,
    RoomCreate,
    RoomError,
    RoomIncoming,
    RoomJoin,
    RoomLeave,
    RoomLock,
    RoomRawVoicePreference,
    RoomRemove,
    RoomSay,
    RoomUpdate,
    WebrtcAnswer,
    WebrtcIce,
    WebrtcOffer,
)
from lingua_sdk.protocol.shapes import ErrorMessage

ROOM_MESSAGES = get_args(RoomIncoming)
# Changes of a person per minute, in all its sessions: of itself, of whose voice it wants, of the room.
CHANGES_PER_MIN = 120
TOO_MANY_CHANGES = "操作过于频繁，请稍后再试 (too many changes; wait a moment)"
# In the words of earlier schedulers.
NOT_INITIALISED = "Failed to process message: Session not initialized"
REDIS_AWAY = "服务暂不可用，请稍后再试 (Redis is unavailable; try again shortly)"

# Their senders wait for an answer, and a person with them.
_SHOWN = (RoomCreate, RoomJoin, RoomLock, RoomRemove, RoomClose)


class RoomFrames:
    def __init__(
        self, membership: RoomMembership, voices: Voices, updates: RoomUpdates, messages: RoomMessages
    ) -> None:
        self._membership = membership
        self._voices = voices
        self._updates = updates
        self._messages = messages
        self._changes = MinuteAllowances(CHANGES_PER_MIN)

    async def take(self, peer: ClientPeer, session: Session | None, message: RoomIncoming) -> None:
        """`session` is the one that the socket has initialised last, if it still speaks for it."""
        if session is None or session.peer is not peer:
            peer.post(ErrorMessage(code=ErrorCode.INTERNAL_ERROR.value, message=NOT_INITIALISED))
            return
        try:
            await self._do(session, message)
        except RoomRefusal as refusal:
            self._refuse(peer, message, refusal.code, str(refusal))
        except RedisAway:
            self._refuse(peer, message, RoomErrorCode.INTERNAL, REDIS_AWAY)

    async def resumed(self, session: Session, last_seq: int | None) -> None:
        try:
            await self._membership.resumed(session, last_seq)
        except RedisAway:
            session.post(RoomError(code=RoomErrorCode.INTERNAL.value, message=REDIS_AWAY))

    def _refuse(self, peer: ClientPeer, message: RoomIncoming, code: RoomErrorCode, told: str) -> None:
        """Existing pages only log a `room_error`; the ordinary error beside it is what a person sees."""
        peer.post(RoomError(code=code.value, message=told))
        if isinstance(message, _SHOWN):
            peer.post(ErrorMessage(code=code.value, message=told))

    async def _do(self, session: Session, message: RoomIncoming) -> None:
        match message:
            case WebrtcOffer() | WebrtcAnswer() | WebrtcIce():
                await self._voices.relay(session, message)
            case RoomCreate():
                await self._membership.create(session, message)
            case RoomJoin():
                await self._membership.join(session, message)
            case RoomLeave():
                if session.stay is not None and session.stay.name.code == message.room_code:
                    await self._membership.leave(session)
            case _:
                await self._change(session, message)

    async def _change(
        self,
        session: Session,
        message: RoomUpdate | RoomSay | RoomRawVoicePreference | RoomLock | RoomRemove | RoomClose,
    ) -> None:
        """What is for the room that it is in; another one is none that it knows."""
        here = self._membership.check_in(session, message.room_code)
        # All of the room are told of a change; messages have a limit of their own.
        if not isinstance(message, RoomSay) and not self._changes.take(counted_as(session), monotonic()):
            raise RoomRefusal(RoomErrorCode.TOO_OFTEN, TOO_MANY_CHANGES)
        match message:
            case RoomSay():
                await self._messages.say(session, here, message.text)
            case RoomUpdate():
                await self._updates.update(session, message)
            case RoomRawVoicePreference():
                wants_voice = message.receive_raw_voice
                await self._membership.prefer(session, message.target_session_id, wants_voice=wants_voice)
            case RoomLock():
                await self._membership.host(session, "lock" if message.locked else "unlock")
            case RoomRemove():
                await self._membership.host(session, "remove", message.target_session_id)
            case RoomClose():
                await self._membership.host(session, "close")
