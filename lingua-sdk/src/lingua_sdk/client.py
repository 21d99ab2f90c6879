"""A client: opens a session, sends speech, receives translations, and carries on after a broken connection."""

import asyncio
import random
import time
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import NamedTuple, Self

import msgspec

from lingua_sdk.access import AccessDenied, Token, TokenNotFetched
from lingua_sdk.audio import SAMPLE_RATE
from lingua_sdk.domain.backoff import Backoff
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.domain.languages import AUTO
from lingua_sdk.domain.pairing import NO_PAIRING_CODE, code_in
from lingua_sdk.domain.received_frames import Received
from lingua_sdk.domain.vocabulary import TWO_WAY_AUTO
from lingua_sdk.line import SessionFailed, SessionLine
from lingua_sdk.protocol import binary
from lingua_sdk.protocol.session import (
    AsrPartial,
    AudioChunk,
    Backpressure,
    MissingResult,
    RoomCreate,
    RoomJoin,
    SessionClose,
    SessionCloseAck,
    SessionInit,
    SessionInitAck,
    SessionOutgoing,
    TranslationResult,
    UiEvent,
    Utterance,
)
from lingua_sdk.protocol.shapes import ErrorMessage, PipelineChoice
from lingua_sdk.recording import paced
from lingua_sdk.results import Failed, Gap, Heard, NoText, Partial, Reading, Result, Translation
from lingua_sdk.room_desk import RoomDesk
from lingua_sdk.rooms import Room, RoomFailed, RoomRefused, Speech
from lingua_sdk.spoken import Chunk, Spoken
from lingua_sdk.tls import ClientTls
from lingua_sdk.trouble import Failures, retry_after_s

__all__ = [
    "AccessDenied",
    "Client",
    "ClientTls",
    "Failed",
    "Gap",
    "Heard",
    "NoText",
    "Partial",
    "Result",
    "Resumption",
    "Room",
    "RoomFailed",
    "RoomRefused",
    "SessionFailed",
    "Token",
    "TokenNotFetched",
    "Translation",
    "paced",
]

# The scheduler keeps a session for a while after its socket is gone; after that there is nothing to resume.
RESUME_WITHIN_S = 25.0
MAX_PAUSE_S = 10.0
RECONNECTS = Backoff(0.1, 5.0, jitter=1.0)
# After audio was refused, that long nothing is said.
REFUSED_PAUSE_S = 1.0
# Unread messages. When it is full, partial results and steps are dropped, and outcomes wait in the connection.
MAX_UNREAD = 1_000

TEXT_ALONE = PipelineChoice(use_asr=True, use_nmt=True, use_tts=False)


class Resumption(NamedTuple):
    """The first chunk that the scheduler asked for, and the number of the next utterance it cuts from the chunks."""

    next_seq: int
    next_index: int


class Client:
    """`async with Client(…) as client:` — then `send`, `final`, `finish`, and iterate over `client.results()`.

    When the connection breaks, the session is resumed by itself and what the scheduler did not get is sent again. Of
    several addresses, all of one scheduler's instances, the first that takes the session is used until it fails; any
    other can go on with the session. With `both_ways` two people speak, each in one of the two languages.

    `token` is a key or a token, or an async function that fetches one and is asked before each connect and before its
    last token expires; by default what LINGUA_KEY or the file LINGUA_KEY_FILE has. If it is refused or revoked,
    AccessDenied is raised and nothing is tried again.

    `pairing_code` is what `lingua pair` printed: one private node translates the session, and no other. If the code is
    not accepted, no session is opened.
    """

    def __init__(
        self,
        address: str | Sequence[str],
        src_lang: str,
        tgt_lang: str,
        *,
        platform: str = "python",
        both_ways: tuple[str, str] | None = None,
        partials: bool = False,
        pairing_code: str = "",
        token: Token = None,
        tls: ClientTls | None = None,
    ) -> None:
        if pairing_code and not code_in(pairing_code):
            raise ValueError(NO_PAIRING_CODE.format(pairing_code))
        self._line = SessionLine(address, token, tls)
        self._init = SessionInit(
            client_version="lingua-python-1",
            platform=platform,
            src_lang=AUTO if both_ways else src_lang,
            tgt_lang=tgt_lang,
            mode=TWO_WAY_AUTO if both_ways else None,
            lang_a=both_ways[0] if both_ways else None,
            lang_b=both_ways[1] if both_ways else None,
            enable_streaming_asr=partials,
            pairing_code=code_in(pairing_code) or None,
        )
        self._keeping: asyncio.Task[None] | None = None
        self._spoken = Spoken()
        self._next_index = 0
        # Of which utterances the outcome has come.
        self._outcomes = Received()
        self._unread: deque[Heard] = deque()
        # Something has changed: there is more to hear, more may be said, or all is over.
        self._news = asyncio.Condition()
        self._is_up = self._is_over = self._is_finishing = False
        self._failure: SessionFailed | AccessDenied | None = None
        self._paused_until_s = 0.0
        speech = Speech(self._say, self.send, self.final, self.stream)
        self._rooms = RoomDesk(speech, self._line.post, self._is_news)
        # Everything that was said has its outcome.
        self.is_finished = False
        self.session_id = ""
        self.use_binary_frame = False
        # Why no connected node serves these languages, when the session was opened; empty if one does.
        self.unserved = ""
        # Where the session went on each time it was resumed; a handover may have cut the sentence being spoken in two.
        self.resumptions: list[Resumption] = []

    @property
    def times_resumed(self) -> int:
        return len(self.resumptions)

    async def __aenter__(self) -> Self:
        ack = await self._line.open(self._init)
        self.session_id = self._rooms.session_id = ack.session_id
        self.use_binary_frame = ack.use_binary_frame
        self.unserved = ack.unserved or ""
        self._init.resume_token = ack.resume_token
        # It is used up, and the session stays paired.
        self._init.pairing_code = None
        self._is_up = True
        self._keeping = asyncio.create_task(self._keep())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._rooms.leave()
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait((self._keeping,))
        await self._line.close()

    async def send(self, audio: bytes, *, is_final: bool = False) -> None:
        """A stretch of audio, PCM16 or framed Opus, 16 kHz mono; about 200 ms at a time is good.

        Waits while the scheduler asks for a pause, which it does when more is said than the nodes can translate, and
        while the connection is broken, once two minutes wait to be sent.
        """
        await self._may_speak(lambda: self._is_up or not self._spoken.is_full)
        chunk = self._spoken.add_chunk(audio, is_final)
        if self._is_up:
            await self._post_chunk(chunk)

    async def final(self) -> None:
        """The person has finished a sentence."""
        await self.send(b"", is_final=True)

    async def stream(self, chunks: AsyncIterable[bytes]) -> None:
        """Send chunks as they come, then a final; an empty one says that a sentence has ended."""
        async for chunk in chunks:
            await self.send(chunk, is_final=not chunk)
        await self.final()

    async def finish(self) -> None:
        """Nothing more will be said: what is heard ends when everything has been translated."""
        self._must_be_open()
        self._is_finishing = True
        if self._is_up:
            await self._line.post(SessionClose(session_id=self.session_id, reason="done"))

    async def utterance(
        self,
        audio: bytes,
        *,
        audio_format: str = "pcm16",
        speech: bool = True,
        pipeline: PipelineChoice | None = None,
    ) -> int:
        """A whole utterance at once; its number is returned. Without `speech` its translation is text alone.

        Waits while too many others have no outcome yet.
        """
        await self._may_speak(lambda: not self._spoken.has_many_unanswered)
        index, self._next_index = self._next_index, self._next_index + 1
        message = Utterance(
            session_id=self.session_id,
            utterance_index=index,
            manual_cut=True,
            src_lang=self._init.src_lang,
            tgt_lang=self._init.tgt_lang,
            mode=self._init.mode,
            lang_a=self._init.lang_a,
            lang_b=self._init.lang_b,
            enable_streaming_asr=self._init.enable_streaming_asr,
            audio=audio,
            audio_format=audio_format,
            sample_rate=SAMPLE_RATE,
            pipeline=pipeline or (None if speech else TEXT_ALONE),
        )
        self._spoken.add_utterance(message)
        if self._is_up:
            await self._line.post(message)
        return index

    async def create_room(self, *, name: str = "", language: str = "", speech: bool = True) -> Room:
        """Open a room and enter it; others join with its `code`. Raises RoomRefused and RoomFailed.

        `language` is the one in which you read and hear the others, by default that of the session. A client is in one
        room at a time: entering another one leaves the first.
        """
        await self._may_speak(lambda: self._is_up)
        return await self._rooms.enter(
            RoomCreate(display_name=name or None, preferred_lang=language or None, room_events=True, speech=speech)
        )

    async def join_room(
        self, code: str, *, name: str = "", language: str = "", speech: bool = True, listen_only: bool = False
    ) -> Room:
        """Enter the room with this code; with `listen_only` as a guest, who is counted and not listed."""
        await self._may_speak(lambda: self._is_up)
        return await self._rooms.enter(
            RoomJoin(
                room_code=code,
                display_name=name or None,
                preferred_lang=language or None,
                room_events=True,
                speech=speech,
                listen_only=listen_only or None,
            )
        )

    async def results(self) -> AsyncIterator[Result]:
        """Translations, partials, and why there is none, until the end; raises SessionFailed or AccessDenied."""
        reading = Reading()
        async for heard in self.heard():
            result = reading.take(heard)
            if result is not None:
                yield result
        if not self.is_finished:
            raise SessionFailed("the scheduler closed the connection before everything was translated")

    async def heard(self, *, steps: bool = False) -> AsyncIterator[Heard]:
        """The messages behind the results, as they come, until everything is said or the session is lost.

        With `steps` also how each utterance gets on: INPUT_ENDED, DISPATCHED, NODE_ACCEPTED …
        """
        while True:
            async with self._news:
                await self._news.wait_for(lambda: self._unread or self._is_over)
                if not self._unread:
                    break
                message = self._unread.popleft()
                self._news.notify_all()
            if steps or not _is_step(message):
                yield message
        if self._failure is not None:
            raise self._failure

    # What goes out

    async def _may_speak(self, has_room: Callable[[], bool]) -> None:
        """Wait until something more may be said."""
        self._must_be_open()
        while True:
            if self._failure is not None:
                raise self._failure
            if self._is_over or self._is_finishing:
                raise SessionFailed("the session has ended; open a new one")
            if (pause_s := self._paused_until_s - time.monotonic()) > 0:
                await asyncio.sleep(pause_s)
            elif has_room():
                return
            else:
                async with self._news:
                    await self._news.wait_for(lambda: has_room() or self._is_over)

    def _must_be_open(self) -> None:
        if not self.session_id:
            raise SessionFailed("the session is not open; use: async with Client(…) as client")

    async def _say(self, audio: bytes, audio_format: str) -> int:
        return await self.utterance(audio, audio_format=audio_format)

    async def _post_chunk(self, chunk: Chunk) -> None:
        if not self.use_binary_frame:
            message = AudioChunk(
                session_id=self.session_id, seq=chunk.seq, is_final=chunk.is_final, payload=chunk.audio
            )
            await self._line.post(message)
        else:
            now_ms = int(time.time() * 1000)
            frame = binary.encode_audio_chunk(self.session_id, chunk.seq, now_ms, chunk.audio, is_final=chunk.is_final)
            await self._line.post_binary(frame)

    # What comes in

    async def _keep(self) -> None:
        """Read until everything is said, and come back whenever the connection breaks."""
        try:
            while not self._is_over:
                message = await self._line.next()
                if message is not None:
                    await self._take(message)
                elif self._init.resume_token is None:
                    break
                else:
                    await self._resume()
        except (SessionFailed, AccessDenied) as error:
            self._failure = error
        except Exception as error:
            # This task is not awaited, so the error goes to the reader.
            self._failure = SessionFailed(f"the client failed: {type(error).__name__}: {error}")
            self._failure.__cause__ = error
        finally:
            self._is_over = True
            self._is_up = False
            await self._rooms.over(self._failure)
            async with self._news:
                self._news.notify_all()

    async def _take(self, message: SessionOutgoing) -> None:
        if await self._rooms.take(message):
            return
        match message:
            case TranslationResult() | MissingResult():
                if self._is_news(message.utterance_index):
                    await self._hear(message)
            case AsrPartial() | UiEvent():
                if len(self._unread) < MAX_UNREAD or (isinstance(message, UiEvent) and message.status != "ok"):
                    await self._hear(message)
            case Backpressure():
                self._paused_until_s = time.monotonic() + min(message.resume_after_ms / 1000, MAX_PAUSE_S)
            case SessionCloseAck():
                self.is_finished = self._is_over = True
            case ErrorMessage(code=ErrorCode.NODE_OVERLOADED.value) if self._init.resume_token is not None:
                # Something was not accepted; the acknowledgement of the resumed session tells what is missing. Outcomes
                # that come until then are read: an instance that is stopping is the only one that has them.
                self._paused_until_s = time.monotonic() + REFUSED_PAUSE_S
                self._line.end_in(REFUSED_PAUSE_S)
            case ErrorMessage():
                raise SessionFailed(f"{message.code}: {message.message}")

    async def _hear(self, message: Heard) -> None:
        async with self._news:
            await self._news.wait_for(lambda: len(self._unread) < MAX_UNREAD)
            self._unread.append(message)
            self._news.notify_all()

    def _is_news(self, index: int) -> bool:
        """An outcome may be overtaken by later ones; one that comes again after a resume is known."""
        self._spoken.answered(index)
        # What the scheduler cut from our chunks has used up numbers too.
        self._next_index = max(self._next_index, index + 1)
        if index in self._outcomes:
            return False
        self._outcomes.add(index)
        return True

    # The connection

    async def _resume(self) -> None:
        """Connect again with the session's token, and send what the scheduler did not get."""
        self._is_up = False
        ack = await self._reconnect()
        if not ack.resumed:
            raise SessionFailed("the scheduler no longer knows the session; untranslated speech is lost")
        self.resumptions.append(Resumption(ack.next_seq or 0, ack.next_utterance_index or 0))
        for message in self._spoken.unanswered:
            await self._line.post(message)
        for chunk in self._spoken.chunks_from(ack.next_seq or 0):
            await self._post_chunk(chunk)
        # Nothing came between the last of them and this: the next utterance follows directly.
        self._is_up = True
        if self._is_finishing:
            await self.finish()
        async with self._news:
            self._news.notify_all()

    async def _reconnect(self) -> SessionInitAck:
        give_up_at_s = time.monotonic() + RESUME_WITHIN_S
        failures = 0
        while True:
            try:
                # What came after one that is still missing comes again, and is known then.
                last = self._outcomes.next - 1
                init = msgspec.structs.replace(
                    self._init,
                    last_utterance_index=last if last >= 0 else None,
                    last_room_seq=self._rooms.last_seq,
                )
                return await self._line.connect(init)
            except (*Failures, TokenNotFetched) as error:
                asked_s = retry_after_s(error)
                if time.monotonic() + asked_s > give_up_at_s:
                    if isinstance(error, TokenNotFetched):
                        raise
                    raise SessionFailed(f"the connection was lost and could not be restored: {error}") from error
            failures += 1
            await asyncio.sleep(asked_s + RECONNECTS.pause_s(failures, random.random()))


def _is_step(message: Heard) -> bool:
    return isinstance(message, UiEvent) and message.status == "ok"
