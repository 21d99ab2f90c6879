"""A conversation of the scripted scheduler with a client: sessions are opened and resumed, utterances get outcomes."""

import time
from collections.abc import Callable
from itertools import count

from lingua_scheduler.conformance.book import Book
from lingua_scheduler.conformance.checks import PeerProfile
from lingua_scheduler.conformance.client_record import ClientRecord, EndedSpeech
from lingua_scheduler.conformance.listening import Entrance, Line, PeerFrame
from lingua_scheduler.conformance.play import PeerLost, Play, arriving
from lingua_sdk.protocol.session import (
    ClientHeartbeat,
    MissingResult,
    ServerHeartbeat,
    SessionClose,
    SessionCloseAck,
    SessionInitAck,
    TranslationResult,
)
from lingua_sdk.protocol.shapes import Message

# How long the acknowledgement is held back, to see whether the client waits for it.
HOLD_ACK_S = 0.3


class ClientTalk:
    def __init__(self, door: Entrance, book: Book, play: Play) -> None:
        self.door = door
        self.book = book
        self.play = play
        self.record = ClientRecord(book)
        self.line: Line | None = None
        # Translations that were sent, by their text, which a client may show.
        self.sent: dict[str, TranslationResult] = {}
        self._serials = count(1)

    @property
    def is_connected(self) -> bool:
        return self.line is not None and not self.line.is_over

    async def meet(self, within_s: float) -> bool:
        """Take the next connection in, up to its `session_init`; False if there is none."""
        self.line = await arriving(self.door, self.play.program, within_s)
        if self.line is None:
            return False
        self.record.connected()
        before = self.record.spoken
        try:
            # The gateway speaks at once, on a connection of its own.
            return await self.until(lambda: self.record.init is not None or self.record.spoken > before)
        except PeerLost:
            return False

    async def open(self, within_s: float) -> bool:
        """A new session on the next connection."""
        if not await self.meet(within_s):
            return False
        if self.record.init is not None:
            await self.acknowledge()
        return True

    async def acknowledge(self) -> None:
        """Open a new session, after a moment in which nothing may come."""
        assert self.record.init is not None
        await self.until(lambda: self.book.has_failed("waits-for-ack"), HOLD_ACK_S)
        self.book.passed("waits-for-ack")
        serial = next(self._serials)
        session_id = f"s-C0F0{serial:04X}"
        self.record.opened(session_id, f"token-{serial}", bool(self.record.init.use_binary_frame))
        await self._ack(resumed=False)

    async def resume(self, next_seq: int | None) -> None:
        self.record.resumed(next_seq)
        await self._ack(resumed=True, next_seq=next_seq)

    async def must_be_connected(self) -> None:
        """After a scene that the connection did not survive. Raises PeerLost."""
        if self.is_connected:
            return
        if self.play.program is not None and not self.play.program.is_running:
            await self.play.program.start()
        if not await self.meet(self.play.reconnect_within_s):
            raise PeerLost("the client did not come back")
        await self.take_in()

    async def take_in(self) -> None:
        """Acknowledge a connection as a scheduler does: the session goes on if its token is known."""
        if self.record.init is None:
            return
        if self.record.init.resume_token and self.record.init.resume_token == self.record.token:
            await self.resume(self.record.next_seq)
        else:
            await self.acknowledge()

    async def lose(self, frames: int) -> None:
        """Read frames and forget them, as if they were lost with the connection."""
        for _ in range(frames):
            if self.line is None or await self.line.next(self.play.patience_s) is None:
                raise PeerLost("the client closed the connection")

    async def until(self, is_met: Callable[[], bool], within_s: float | None = None) -> bool:
        """Read until it is so; False if it is not in time. Raises PeerLost."""
        deadline_s = time.monotonic() + (self.play.patience_s if within_s is None else within_s)
        while not is_met():
            if self.line is None:
                raise PeerLost("the client is not connected")
            try:
                heard = await self.line.next(max(0.0, deadline_s - time.monotonic()))
            except TimeoutError:
                return False
            if heard is None and not await self._is_followed():
                raise PeerLost("the client closed the connection")
            if heard is not None:
                await self._take(heard)
        return True

    async def _is_followed(self) -> bool:
        """Whether a first-generation gateway, which opens a connection for every question, is there again."""
        if self.play.profile is not PeerProfile.EXISTING or not self.record.session_id:
            return False
        return await self.open(self.play.patience_s)

    async def say(self, message: Message, **unknown_fields: object) -> None:
        if self.line is not None:
            await self.line.send_fields(message, **unknown_fields)

    async def next_speech(self) -> EndedSpeech:
        """The next utterance without an outcome. Raises PeerLost."""
        if not await self.until(lambda: bool(self.record.ended)):
            raise PeerLost("the client said nothing more")
        return self.record.ended[0]

    async def goes_on(self, check: str, expected: str) -> bool:
        """The outcome of a check whose proof is that the client speaks on. Utterances are translated meanwhile."""
        before = self.record.spoken
        is_met = await self.until(lambda: self.record.spoken > before)
        return self.book.judge(check, is_met, expected, f"no speech for {self.play.patience_s:g} s")

    async def translate(self, speech: EndedSpeech, *, late: bool = False, **unknown_fields: object) -> None:
        text = f"[{self.record.session_id} {speech.number}]"
        result = TranslationResult(
            session_id=self.record.session_id,
            utterance_index=speech.number,
            job_id=f"job-{speech.number}",
            trace_id="trace-1",
            text_asr=f"heard {text}",
            text_translated=f"said {text}",
            tts_audio="",
            tts_format="pcm16",
            scheduler_sent_at_ms=int(time.time() * 1000),
            late=late,
        )
        self.sent[result.text_translated] = result
        self.record.outcome(speech)
        await self.say(result, **unknown_fields)

    async def miss(self, speech: EndedSpeech) -> None:
        self.record.outcome(speech)
        message = MissingResult(
            session_id=self.record.session_id,
            utterance_index=speech.number,
            reason="no_text",
            created_at_ms=int(time.time() * 1000),
        )
        await self.say(message)

    async def catch_up(self) -> None:
        """Give every utterance its outcome, so that a client that waits for them can go on."""
        for speech in list(self.record.ended):
            await self.translate(speech)

    async def _ack(self, *, resumed: bool, next_seq: int | None = None) -> None:
        ack = SessionInitAck(
            session_id=self.record.session_id,
            message="session resumed" if resumed else "session created",
            trace_id="trace-1",
            protocol_version="1.0",
            use_binary_frame=self.record.use_binary,
            negotiated_codec="opus",
            negotiated_audio_format="opus",
            negotiated_sample_rate=16_000,
            negotiated_channel_count=1,
            resume_token=self.record.token,
            resumed=resumed,
            next_seq=(next_seq or 0) if resumed else None,
            next_utterance_index=self.record.contiguous + 1 if resumed else None,
        )
        await self.say(ack, conformance_unknown={"is": ["unknown"]}, unserved=None)

    async def _take(self, heard: PeerFrame) -> None:
        match self.record.heard(heard.data):
            case ClientHeartbeat():
                beat = ServerHeartbeat(session_id=self.record.session_id, timestamp=int(time.time() * 1000))
                await self.say(beat)
            case SessionClose():
                await self.catch_up()
                await self.say(SessionCloseAck(session_id=self.record.session_id))
