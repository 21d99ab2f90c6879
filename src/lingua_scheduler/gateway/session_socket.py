"""GET /ws/session: the WebSocket endpoint for clients."""

import asyncio
from time import monotonic
from typing import TypeGuard

from aiohttp import web

from lingua_scheduler.clock import wall_ms
from lingua_scheduler.domain.access.principals import Denied
from lingua_scheduler.domain.access.scopes import Needs, Scope
from lingua_scheduler.domain.guards.rates import Bucket
from lingua_scheduler.gateway.door import Door
from lingua_scheduler.gateway.outbox import Outbox
from lingua_scheduler.gateway.room_frames import ROOM_MESSAGES, RoomFrames
from lingua_scheduler.gateway.socket_pump import Frame, Manners, Sockets, refuse
from lingua_scheduler.gateway.valve import SocketRates
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.services.attempts.work import Refusal
from lingua_scheduler.services.nodes.pairings import Pairings, WrongCode
from lingua_scheduler.services.sessions.intake import Intake
from lingua_scheduler.services.sessions.sessions import Session, Sessions
from lingua_scheduler.services.sessions.terms import languages_used
from lingua_scheduler.setting_sections.sessions import SessionsSettings
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.telemetry import metrics
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.domain.pairing import Pairing
from lingua_sdk.protocol import binary, codec
from lingua_sdk.protocol.bulk import OF_CLIENTS
from lingua_sdk.protocol.codec import UnreadableFrame
from lingua_sdk.protocol.session import (
    AudioChunk,
    ClientHeartbeat,
    ServerHeartbeat,
    SessionClose,
    SessionCloseAck,
    SessionIncoming,
    SessionInit,
    SessionInitAck,
    TokenRefresh,
    TokenRefreshed,
    TtsPlayEnded,
    TtsStarted,
    Utterance,
)

PROTOCOL_VERSION = "1.0"
NEEDS: Needs = (Scope.SESSION_OPEN,)
# A client that was quiet may send this many seconds' worth at once, e.g. after it came back.
BURST_S = 2.0
# Likewise a socket that opens one session after the other.
OPENS_BURST_S = 4
# Number of checks in the time a socket may be without a session.
IDLE_LOOKS = 2
TOO_MANY = "this address has {most} open sessions (sessions.max_per_address); try again later"
NO_SESSION = "unknown session; send session_init first"
# Number of foreign session ids a socket may name before it is closed; it learns nothing from the answers.
MAX_GUESSES = 10
# Word that the gateway's former socket is gone may be on its way; a session that does not exist is looked for as long.
LOOK_AGAIN_S = (0.0, 0.05, 0.15, 0.4)

# Refusals of a session_init that the same one would get again.
_FOR_GOOD = (ErrorCode.INVALID_MESSAGE, ErrorCode.PERMISSION_DENIED)

_SOCKETS = metrics.SOCKETS.labels("session")
_REFUSED = metrics.DOOR_REFUSALS.labels("sessions")
_THROTTLED = metrics.THROTTLED.labels("session")
_IDLE_SOCKETS = metrics.IDLE_CLOSED.labels("socket")
# Chunks first: there are more of them than of all others.
_WAITS = (SessionInit, *ROOM_MESSAGES)
_OF_A_SESSION = (AudioChunk, Utterance, ClientHeartbeat, SessionClose, TtsStarted, TtsPlayEnded)


class NotYours(Exception):
    """The socket named a session that does not exist or is not its own; the peer gets the same answer."""

    def __init__(self, session_id: str) -> None:
        super().__init__(NO_SESSION)
        self.session_id = session_id


class SessionSocket:
    def __init__(
        self, door: Door, sockets: Sockets, sessions: Sessions, intake: Intake, settings: SessionsSettings
    ) -> None:
        self._door = door
        self._sockets = sockets
        self._sessions = sessions
        self._intake = intake
        self._openings = intake.openings
        self._settings = settings
        self.max_per_socket = settings.max_per_socket
        self.opens_per_s = settings.max_opens_per_s
        self.most = OF_CLIENTS._replace(size=settings.max_message_bytes)
        self.rooms: RoomFrames | None = None
        self.pairings: Pairings | None = None
        self._rates = SocketRates(settings.max_frames_per_s, settings.max_bytes_per_s, BURST_S)

    async def handle(self, request: web.Request) -> web.WebSocketResponse:
        if not self._intake.is_open:
            raise web.HTTPServiceUnavailable(text="the scheduler is stopping; try again shortly\n")
        socket, outbox = await self._sockets.accept(request, self._rates, self._door.principal(request))
        manners = self._sockets.manners(socket, outbox, "session")
        # The API gateway takes a ping for the end of its wait, and until it has spoken it looks like any other.
        outbox.ping(is_on=False)
        outbox.address, outbox.meter = self._door.caller(request)
        talk = _Talk(self, outbox, manners)
        # A long utterance on a slow line takes its time.
        talk.close_when_idle(self._settings.idle_socket_ms / 1000 / IDLE_LOOKS)
        _SOCKETS.inc()
        try:
            async for frame in self._sockets.frames(
                socket, outbox, manners, talk.take_at_once, talk.too_large, talk.too_fast
            ):
                await talk.take(frame)
        finally:
            _SOCKETS.dec()
            talk.end()
            for session in talk.spoke_for.values():
                self._openings.detached(session, outbox)
        return socket

    async def open(self, outbox: Outbox, message: SessionInit) -> Session | None:
        if message.refreshes_token and outbox.principal.subject and not outbox.principal.is_refreshing:
            # Of a token alone: a key cannot be renewed.
            self._sockets.renew(outbox, outbox.principal, is_refreshing=True)
        here = self._find_by_token(outbox, message)
        if here is not None and self.is_held(here):
            await self._openings.let_go_if_taken(here, outbox)
        # Who comes back to a session that is here takes no place more.
        meter = outbox.meter if self._find_by_token(outbox, message) is None else ""
        if not self._sessions.take_place(meter):
            _REFUSED.inc()
            most = self._settings.max_per_address
            refuse(outbox, "session", TOO_MANY.format(most=most), ErrorCode.NODE_OVERLOADED)
            outbox.close(CloseCode.TRY_LATER, "this address has too many sessions")
            return None
        session = None
        try:
            session = await self._open(outbox, message)
            return session
        except RedisAway:
            refuse(outbox, "session", "Redis is unavailable; try again shortly", ErrorCode.SCHEDULER_DEPENDENCY_DOWN)
            # The browser page tries again after a close alone; on an open socket it would wait for ever.
            outbox.close(CloseCode.TRY_LATER, "Redis is unavailable; connect again")
            return None
        finally:
            self._sessions.settle_place(meter, session)

    def _find_by_token(self, outbox: Outbox, message: SessionInit) -> Session | None:
        if not message.resume_token:
            return None
        return self._sessions.find_by_token(message.resume_token, outbox.principal.owner_digest)

    def is_held(self, session: Session) -> bool:
        return self._sessions.is_held(session)

    def handle_message(self, outbox: Outbox, message: SessionIncoming) -> Session | None:
        """Handle any message but `session_init`. Returns the session it was about, if any. Raises NotYours."""
        if not isinstance(message, _OF_A_SESSION):
            self._handle_other(outbox, message)
            return None
        # To close what is closing already is no mistake: its acknowledgement is on the way.
        session = self._find(outbox, message.session_id, may_be_closing=isinstance(message, SessionClose))
        match message:
            case AudioChunk():
                sent_ms = message.client_timestamp_ms
                self._intake.chunk(session, message.seq, message.payload or b"", message.is_final, sent_ms)
            case Utterance():
                refusal = self._intake.utterance(session, message)
                if refusal is not None:
                    refuse(outbox, "session", refusal.message, refusal.code)
                    if session.is_gateway:
                        outbox.close(CloseCode.TRY_LATER, refusal.message[:100])
            case ClientHeartbeat():
                self._openings.renew(session)
                outbox.post(ServerHeartbeat(session_id=session.session_id, timestamp=int(wall_ms())))
            case SessionClose():
                self._intake.close(session)
            case TtsStarted():
                self._intake.playback_started(session)
            case TtsPlayEnded():
                self._intake.playback_ended(session)
        return session

    def _handle_other(self, outbox: Outbox, message: SessionIncoming) -> None:
        """What is of no session."""
        if not isinstance(message, TokenRefresh):
            return
        found = self._door.renewed(outbox.principal, message.token, outbox.address, NEEDS)
        if isinstance(found, Denied):
            outbox.close(CloseCode.UNAUTHENTICATED, found.detail)
            return
        self._sockets.renew(outbox, found, is_refreshing=True)
        outbox.post(TokenRefreshed(expires_at_ms=found.expires_ms))

    def handle_binary(self, outbox: Outbox, data: bytes) -> Session:
        frame = binary.decode_binary(data)
        session = self._find(outbox, frame.session_id)
        if isinstance(frame, binary.AudioChunkFrame):
            sent_ms = binary.whole_timestamp(frame.timestamp, wall_ms())
            self._intake.chunk(session, frame.seq, frame.audio, frame.is_final, sent_ms)
        else:
            self._intake.chunk(session, frame.seq, b"", True)
        return session

    def ask_to_pause(self, session: Session) -> None:
        self._intake.ask_to_pause(session, "rate")

    async def adopt(self, outbox: Outbox, session_id: str) -> bool:
        """Whether the socket may speak for the session now; if not, it is closed, because the gateway waits for ever.

        The API gateway opens a socket for each utterance, perhaps at another instance than the one before.
        """
        try:
            for pause_s in LOOK_AGAIN_S:
                await asyncio.sleep(pause_s)
                if await self._openings.adopt_by_id(session_id, outbox) is not None:
                    return True
        except RedisAway:
            refuse(outbox, "session", "Redis is unavailable; try again shortly", ErrorCode.SCHEDULER_DEPENDENCY_DOWN)
            outbox.close(CloseCode.TRY_LATER, "Redis is unavailable; connect again")
            return False
        refuse(outbox, "session", NO_SESSION, ErrorCode.INVALID_SESSION)
        outbox.close(CloseCode.TRY_LATER, NO_SESSION)
        return False

    def may_be_elsewhere(self, outbox: Outbox, session_id: str) -> bool:
        """Whether it is unknown here, not this socket's, or the gateway's, who may have been elsewhere since."""
        session = self._sessions.find(session_id)
        if session is None or not session.is_open_to(outbox):
            return True
        return session.is_gateway and session.peer is not outbox

    def _find(self, outbox: Outbox, session_id: str, may_be_closing: bool = False) -> Session:
        session = self._sessions.find(session_id)
        if session is None or (session.conversation.is_closed and not may_be_closing):
            raise NotYours(session_id)
        if session.peer is not outbox:
            if not session.is_open_to(outbox):
                raise NotYours(session_id)
            self._openings.attach(session, outbox)
        return session

    async def _open(self, outbox: Outbox, message: SessionInit) -> Session | None:
        known = None
        if message.resume_token:
            known = self._find_by_token(outbox, message) or await self._openings.adopt(message, outbox)
        if known is not None:
            if refusal := self._openings.may_resume(known, outbox):
                self._turn_away(outbox, refusal)
                return None
            outbox.post(self._ack(outbox, known, message, is_resumed=True))
            known.resume(outbox, message.last_utterance_index)
            if self.rooms is not None:
                await self.rooms.resumed(known, message.last_room_seq)
            if self._sessions.find(known.session_id) is None:
                # It was closed already; the acknowledgement was lost with the socket.
                outbox.post(SessionCloseAck(session_id=known.session_id))
                return None
            return known
        pairing, complaint = await self._pairing(outbox, message)
        session = await self._openings.open(outbox, message, pairing)
        if isinstance(session, Refusal):
            self._turn_away(outbox, session)
            return None
        ack = self._ack(outbox, session, message)
        ack.unserved = await self._openings.unserved(session)
        outbox.post(ack)
        if complaint:
            # After the acknowledgement: the session is open, without the node.
            refuse(outbox, "session", complaint, ErrorCode.INVALID_PAIRING_CODE)
        return session

    async def _pairing(self, outbox: Outbox, message: SessionInit) -> tuple[Pairing | None, str]:
        """The private node that the session is paired with, or what is wrong with its code."""
        if self.pairings is None or not message.pairing_code:
            return None, ""
        try:
            return await self.pairings.redeem(message.pairing_code, outbox.meter), ""
        except WrongCode as wrong:
            return None, str(wrong)

    def _turn_away(self, outbox: Outbox, refusal: Refusal) -> None:
        """Closed if it may come back with the same request, which the browser page does after a close alone."""
        refuse(outbox, "session", refusal.message, refusal.code)
        if refusal.code not in _FOR_GOOD:
            outbox.close(CloseCode.TRY_LATER, refusal.message[:100])

    def _ack(self, outbox: Outbox, session: Session, init: SessionInit, *, is_resumed: bool = False) -> SessionInitAck:
        used = self._openings.languages.used(session.terms, session.whose)
        return SessionInitAck(
            session_id=session.session_id,
            message="session resumed" if is_resumed else "session created",
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
            languages_used=None if used is None else languages_used(used),
            expires_at_ms=outbox.principal.expires_ms,
        )


class _Talk:
    """One WebSocket of a client; handles its frames in order."""

    __slots__ = (
        "_guesses",
        "_handler",
        "_idle_looks",
        "_initialised",
        "_latest",
        "_manners",
        "_opens",
        "_outbox",
        "_timer",
        "spoke_for",
    )

    def __init__(self, handler: SessionSocket, outbox: Outbox, manners: Manners) -> None:
        self._handler = handler
        self._outbox = outbox
        self._manners = manners
        self._guesses: set[str] = set()
        self._opens = Bucket(handler.opens_per_s, OPENS_BURST_S * handler.opens_per_s)
        self._idle_looks = 0
        # The session that room messages are of.
        self._initialised: Session | None = None
        self._timer: asyncio.TimerHandle | None = None
        # A message that was read and has to wait for its turn, and the frame it came in.
        self._latest: tuple[bytes, SessionIncoming] | None = None
        self.spoke_for: dict[str, Session] = {}

    def take_at_once(self, data: bytes, is_text: bool) -> bool:
        """Handle a message that needs no await; False for `session_init` and those about rooms."""
        session = None
        try:
            if is_text:
                message = codec.decode_session(data, self._handler.most)
                if isinstance(message, _WAITS) or (not self.spoke_for and self._may_be_elsewhere(message)):
                    self._latest = data, message
                    return False
                session = self._handler.handle_message(self._outbox, message)
            else:
                session = self._handler.handle_binary(self._outbox, data)
        except UnreadableFrame as error:
            self._refuse(error, len(data))
        except NotYours as error:
            self._missed(error.session_id)
        if session is not None:
            self.spoke_for[session.session_id] = session
        return True

    async def take(self, frame: Frame) -> None:
        session = None
        try:
            if not frame.is_text:
                session = self._handler.handle_binary(self._outbox, frame.data)
            elif isinstance(message := self._read(frame.data), SessionInit):
                if self._has_room():
                    await self._wait_to_open()
                    session = self._initialised = await self._handler.open(self._outbox, message)
            elif isinstance(message, ROOM_MESSAGES):
                if self._handler.rooms is not None:
                    await self._handler.rooms.take(self._outbox, self._initialised, message)
            elif self._may_be_elsewhere(message):
                if await self._handler.adopt(self._outbox, message.session_id):
                    session = self._handler.handle_message(self._outbox, message)
                else:
                    metrics.SESSION_MISSES.inc()
            else:
                session = self._handler.handle_message(self._outbox, message)
        except UnreadableFrame as error:
            self._refuse(error, len(frame.data))
        except NotYours as error:
            self._missed(error.session_id)
        self._spoke_for(session)

    def _read(self, data: bytes) -> SessionIncoming:
        latest, self._latest = self._latest, None
        if latest is not None and latest[0] is data:
            return latest[1]
        return self._manners.weigh(data, codec.decode_session, self._handler.most)

    def _may_be_elsewhere(self, message: SessionIncoming) -> TypeGuard[Utterance]:
        """Whether the utterance is for a session that may have been opened on another socket."""
        if not isinstance(message, Utterance) or self.spoke_for:
            return False
        return self._handler.may_be_elsewhere(self._outbox, message.session_id)

    def too_large(self) -> None:
        """A frame was too large to be read. Only a gateway sends such, without a session on the socket."""
        if not self.spoke_for or self._is_gateway:
            self._outbox.close(CloseCode.TRY_LATER, "the frame is too large")

    def close_when_idle(self, look_every_s: float) -> None:
        """Look now and then, and close the socket when it had no open session at several looks in a row."""
        self._timer = asyncio.get_running_loop().call_later(look_every_s, self._look, look_every_s)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self, look_every_s: float) -> None:
        if self._open_sessions():
            # It is in use now, so the time without a session begins at the next look at the earliest.
            self._idle_looks = -1
        else:
            self._idle_looks += 1
        if self._idle_looks >= IDLE_LOOKS:
            _IDLE_SOCKETS.inc()
            told = "no open session for too long" if self.spoke_for else "session_init did not arrive in time"
            self._outbox.close(CloseCode.TRY_LATER, told)
        else:
            self.close_when_idle(look_every_s)

    def _open_sessions(self) -> dict[str, Session]:
        """Those that this socket speaks for now."""
        held = self._handler.is_held
        return {
            name: session for name, session in self.spoke_for.items() if session.peer is self._outbox and held(session)
        }

    def _has_room(self) -> bool:
        """Whether one more session may be opened on this socket; if not, the client gets an error."""
        most = self._handler.max_per_socket
        if len(self.spoke_for) < most:
            return True
        still_open = self._open_sessions()
        if len(still_open) < most:
            # The last one stays: a socket that spoke for a session is treated otherwise than one that never did.
            self.spoke_for = still_open or dict(list(self.spoke_for.items())[-1:])
            return True
        _REFUSED.inc()
        self._manners.refuse(f"session_init: this socket has {most} open sessions (sessions.max_per_socket)")
        return False

    async def _wait_to_open(self) -> None:
        """Rate limit for opening sessions. Nothing is lost: later frames wait too, in the end at the client."""
        wait_s = self._opens.take(1, monotonic())
        if wait_s:
            _THROTTLED.inc()
            await asyncio.sleep(wait_s)

    @property
    def _is_gateway(self) -> bool:
        return any(session.is_gateway for session in self.spoke_for.values())

    def _refuse(self, error: UnreadableFrame, size: int) -> None:
        """Close the API gateway's socket: it would wait for ever for the result of an unreadable utterance."""
        self._manners.refuse(str(error), size)
        if self._is_gateway or (not self.spoke_for and str(error).startswith("utterance:")):
            self._outbox.close(CloseCode.TRY_LATER, "unreadable frame")

    def too_fast(self) -> None:
        """Back-pressure: stop reading for a while. Nothing is lost: unread frames wait at the client."""
        for session in self.spoke_for.values():
            self._handler.ask_to_pause(session)

    def _missed(self, session_id: str) -> None:
        """The same answer whether the session exists or not.

        A session the socket itself had and lost is not a guess.
        """
        refuse(self._outbox, "session", NO_SESSION, ErrorCode.INVALID_SESSION)
        if session_id in self.spoke_for:
            return
        metrics.SESSION_MISSES.inc()
        self._guesses.add(session_id)
        if len(self._guesses) >= MAX_GUESSES:
            self._outbox.close(CloseCode.GUESSING, "too many frames named sessions of other sockets")

    def _spoke_for(self, session: Session | None) -> None:
        if session is not None:
            self.spoke_for[session.session_id] = session
