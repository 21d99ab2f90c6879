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

PROTOCOL_VERSION = "1.0"
# A client that was quiet may send this many seconds' worth at once, e.g. after it came back.
BURST_S = 2.0


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
        spoke_for: dict[str, Session] = {}
        frames = Bucket(self._settings.max_frames_per_s, BURST_S * self._settings.max_frames_per_s)
        volume = Bucket(self._settings.max_bytes_per_s, BURST_S * self._settings.max_bytes_per_s)
        try:
            async for frame in self._sockets.frames(socket, outbox, "session"):
                session = None
                try:
                    session = await self._take(outbox, frame)
                except UnreadableFrame as error:
                    refuse(outbox, "session", str(error))
                if session is not None:
                    spoke_for[session.session_id] = session
                now_s = monotonic()
                if wait_s := max(frames.take(1, now_s), volume.take(len(frame.data), now_s)):
                    # Nothing is lost: what we do not read waits at the client, and nobody else waits with it.
                    if session is not None:
                        self._intake.ask_to_pause(session, "rate")
                    await asyncio.sleep(wait_s)
        finally:
            for session in spoke_for.values():
                self._intake.detached(session, outbox)
        return socket

    async def _take(self, outbox: Outbox, frame: Frame) -> Session | None:
        """Handle one frame; the session it spoke for, if any."""
        if not frame.is_text:
            return self._take_binary(outbox, frame.data)
        message = codec.decode_session(frame.data)
        if isinstance(message, SessionInit):
            try:
                return await self._open(outbox, message)
            except RedisAway:
                refuse(outbox, "session", "Redis is away; try again shortly", ErrorCode.SCHEDULER_DEPENDENCY_DOWN)
                return None
        if not isinstance(message, AudioChunk | Utterance | ClientHeartbeat | SessionClose | TtsStarted | TtsPlayEnded):
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

    def _take_binary(self, outbox: Outbox, data: bytes) -> Session | None:
        frame = binary.decode_binary(data)
        session = self._find(outbox, frame.session_id)
        if session is None:
            return None
        if isinstance(frame, binary.AudioChunkFrame):
            # The cutter keeps the audio, so it must not keep the whole frame alive.
            sent_ms = binary.whole_timestamp(frame.timestamp, now_ms())
            self._intake.chunk(session, frame.seq, bytes(frame.audio), frame.is_final, sent_ms)
        else:
            self._intake.chunk(session, frame.seq, b"", True)
        return session

    def _find(self, outbox: Outbox, session_id: str, may_be_closing: bool = False) -> Session | None:
        """The session a message names; it belongs to the socket that speaks for it last."""
        session = self._sessions.find(session_id)
        if session is None or (session.is_closed and not may_be_closing):
            refuse(
                outbox,
                "session",
                "there is no such session; send session_init first",
                ErrorCode.INVALID_SESSION,
            )
            return None
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
