"""GET /ws/session: a client talks and listens."""

import asyncio
from time import monotonic

from aiohttp import web

from lingua_scheduler.domain.errors import ErrorCode
from lingua_scheduler.domain.rates import Bucket
from lingua_scheduler.gateway.outbox import Outbox
from lingua_scheduler.gateway.sockets import Frame, Sockets, refuse
from lingua_scheduler.protocol import binary, codec
from lingua_scheduler.protocol.codec import UnreadableFrame
from lingua_scheduler.protocol.session import (
    AudioChunk,
    ClientHeartbeat,
    RoomError,
    ServerHeartbeat,
    SessionClose,
    SessionCloseAck,
    SessionIncoming,
    SessionInit,
    SessionInitAck,
    TtsPlayEnded,
    TtsStarted,
    Utterance,
)
from lingua_scheduler.services.intake import Intake
from lingua_scheduler.services.registry import Refusal
from lingua_scheduler.services.sessions import Session, Sessions, now_ms
from lingua_scheduler.settings import SessionsSettings
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.telemetry import metrics

PROTOCOL_VERSION = "1.0"
# A client that was quiet may send this many seconds' worth at once, e.g. after it came back.
BURST_S = 2.0

_SOCKETS = metrics.SOCKETS.labels("session")
# Chunks first: there are more of them than of all others.
_OF_A_SESSION = (AudioChunk, Utterance, ClientHeartbeat, SessionClose, TtsStarted, TtsPlayEnded)


class SessionSocket:
    def __init__(self, sockets: Sockets, sessions: Sessions, intake: Intake, settings: SessionsSettings) -> None:
        self._sockets = sockets
        self._sessions = sessions
        self._intake = intake
        self._settings = settings

    async def handle(self, request: web.Request) -> web.WebSocketResponse:
        if not self._intake.is_open:
            raise web.HTTPServiceUnavailable(text="the scheduler is stopping; try again shortly\n")
        socket, outbox = await self._sockets.accept(request)
        talk = _Talk(self, outbox, self._settings)
        _SOCKETS.inc()
        try:
            async for frame in self._sockets.frames(socket, outbox, "session", talk.take_at_once):
                await talk.take(frame)
        finally:
            _SOCKETS.dec()
            for session in talk.spoke_for.values():
                self._intake.detached(session, outbox)
        return socket

    async def open(self, outbox: Outbox, message: SessionInit) -> Session | None:
        try:
            return await self._open(outbox, message)
        except RedisAway:
            refuse(outbox, "session", "Redis is away; try again shortly", ErrorCode.SCHEDULER_DEPENDENCY_DOWN)
            return None

    def handle_message(self, outbox: Outbox, message: SessionIncoming) -> Session | None:
        """Anything but an opening; the session it spoke for, if any."""
        if not isinstance(message, _OF_A_SESSION):
            outbox.post(RoomError(code="INTERNAL_ERROR", message="this scheduler does not serve rooms yet"))
            return None
        # To close what is closing already is no mistake: its acknowledgement is on the way.
        session = self._find(outbox, message.session_id, may_be_closing=isinstance(message, SessionClose))
        if session is None:
            return None
        match message:
            case AudioChunk():
                sent_ms = message.client_timestamp_ms
                self._intake.chunk(session, message.seq, message.payload or b"", message.is_final, sent_ms)
            case Utterance():
                refusal = self._intake.utterance(session, message)
                if refusal is not None:
                    refuse(outbox, "session", refusal.message, refusal.code)
            case ClientHeartbeat():
                self._intake.renew(session)
                outbox.post(ServerHeartbeat(session_id=session.session_id, timestamp=int(now_ms())))
            case SessionClose():
                self._intake.close(session)
            case TtsStarted():
                self._intake.playback_started(session)
            case TtsPlayEnded():
                self._intake.playback_ended(session)
        return session

    def handle_binary(self, outbox: Outbox, data: bytes) -> Session | None:
        frame = binary.decode_binary(data)
        session = self._find(outbox, frame.session_id)
        if session is None:
            return None
        if isinstance(frame, binary.AudioChunkFrame):
            sent_ms = binary.whole_timestamp(frame.timestamp, now_ms())
            self._intake.chunk(session, frame.seq, frame.audio, frame.is_final, sent_ms)
        else:
            self._intake.chunk(session, frame.seq, b"", True)
        return session

    def ask_to_pause(self, session: Session) -> None:
        self._intake.ask_to_pause(session, "rate")

    def _find(self, outbox: Outbox, session_id: str, may_be_closing: bool = False) -> Session | None:
        """The session a message names; it belongs to the socket that speaks for it last."""
        session = self._sessions.find(session_id)
        if session is None or (session.conversation.is_closed and not may_be_closing):
            refuse(
                outbox,
                "session",
                "there is no such session; send session_init first",
                ErrorCode.INVALID_SESSION,
            )
            return None
        if session.peer is not outbox:
            session.attach(outbox)
        return session

    async def _open(self, outbox: Outbox, message: SessionInit) -> Session | None:
        known = None
        if message.resume_token:
            known = self._sessions.find_by_token(message.resume_token) or await self._intake.adopt(message)
        if known is not None:
            outbox.post(self._ack(known, message, "session resumed", is_resumed=True))
            known.resume(outbox, message.last_utterance_index)
            if self._sessions.find(known.session_id) is None:
                # It was over already; the goodbye got lost with the socket.
                outbox.post(SessionCloseAck(session_id=known.session_id))
                return None
            return known
        session = await self._intake.open(outbox, message)
        if isinstance(session, Refusal):
            refuse(outbox, "session", session.message, session.code)
            return None
        outbox.post(self._ack(session, message, "session created"))
        return session

    def _ack(self, session: Session, init: SessionInit, told: str, is_resumed: bool = False) -> SessionInitAck:
        return SessionInitAck(
            session_id=session.session_id,
            message=told,
            trace_id=session.trace_id,
            protocol_version=PROTOCOL_VERSION,
            use_binary_frame=self._settings.use_binary_frame or init.use_binary_frame is True,
            negotiated_codec="opus",
            negotiated_audio_format="opus",
            negotiated_sample_rate=16_000,
            negotiated_channel_count=1,
            resume_token=session.resume_token,
            resumed=is_resumed,
            next_seq=session.conversation.next_seq if is_resumed else None,
            next_utterance_index=session.conversation.next_index if is_resumed else None,
        )


class _Talk:
    """One socket of a client: its frames in order, no faster than allowed."""

    __slots__ = ("_frames", "_handler", "_outbox", "_rest_until_s", "_volume", "spoke_for")

    def __init__(self, handler: SessionSocket, outbox: Outbox, settings: SessionsSettings) -> None:
        self._handler = handler
        self._outbox = outbox
        self._frames = Bucket(settings.max_frames_per_s, BURST_S * settings.max_frames_per_s)
        self._volume = Bucket(settings.max_bytes_per_s, BURST_S * settings.max_bytes_per_s)
        self._rest_until_s = 0.0
        self.spoke_for: dict[str, Session] = {}

    def take_at_once(self, data: bytes, is_text: bool) -> bool:
        """Whatever needs nobody else's answer; False for an opening, and while the client has to wait."""
        now_s = monotonic()
        if self._rest_until_s > now_s:
            return False
        session = None
        try:
            if is_text:
                message = codec.decode_session(data)
                if isinstance(message, SessionInit):
                    return False
                session = self._handler.handle_message(self._outbox, message)
            else:
                session = self._handler.handle_binary(self._outbox, data)
        except UnreadableFrame as error:
            refuse(self._outbox, "session", str(error))
        self._count(session, len(data), now_s)
        return True

    async def take(self, frame: Frame) -> None:
        if (rest_s := self._rest_until_s - monotonic()) > 0:
            # Nothing is lost: what we do not read waits at the client, and nobody else waits with it.
            await asyncio.sleep(rest_s)
        session = None
        try:
            if not frame.is_text:
                session = self._handler.handle_binary(self._outbox, frame.data)
            elif isinstance(message := codec.decode_session(frame.data), SessionInit):
                session = await self._handler.open(self._outbox, message)
            else:
                session = self._handler.handle_message(self._outbox, message)
        except UnreadableFrame as error:
            refuse(self._outbox, "session", str(error))
        self._count(session, len(frame.data), monotonic())

    def _count(self, session: Session | None, size: int, now_s: float) -> None:
        if session is not None:
            self.spoke_for[session.session_id] = session
        frames_s, volume_s = self._frames.take(1, now_s), self._volume.take(size, now_s)
        if frames_s or volume_s:
            if session is not None:
                self._handler.ask_to_pause(session)
            self._rest_until_s = now_s + max(frames_s, volume_s)
