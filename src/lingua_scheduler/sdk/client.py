"""A client: opens a session, sends speech, receives translations, and carries on after a broken connection."""

import asyncio
import contextlib
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import NamedTuple, Self

import aiohttp
import msgspec

from lingua_scheduler.protocol import binary, codec
from lingua_scheduler.protocol.session import (
    AsrPartial,
    AudioChunk,
    Backpressure,
    MissingResult,
    SessionClose,
    SessionCloseAck,
    SessionInit,
    SessionInitAck,
    SessionOutgoing,
    TranslationResult,
    UiEvent,
    Utterance,
)
from lingua_scheduler.protocol.shapes import ErrorMessage, Message, PipelineChoice
from lingua_scheduler.sdk.address import Addresses

Heard = TranslationResult | MissingResult | AsrPartial | UiEvent

# The scheduler keeps a session for a while after its socket is gone; after that there is nothing to resume.
RESUME_WITHIN_S = 25.0
# What was sent lately, in case the connection swallowed it: about a minute of 200 ms chunks.
MAX_REMEMBERED_CHUNKS = 300
ACK_WITHIN_S = 10.0
MAX_PAUSE_S = 10.0


class SessionFailed(Exception):
    """The scheduler refused the session, forgot it, or hung up for good; the message says why."""


class _HungUp(ConnectionError):
    """The connection ended before the session was acknowledged."""


class _Chunk(NamedTuple):
    seq: int
    audio: bytes
    is_final: bool


class Client:
    """`async with Client(…) as client:` — then `send`, `final` and iterate over `client.heard()`.

    Whoever iterates over `heard` also keeps the connection: when it breaks, the session is resumed and what the
    scheduler did not get is sent again. Of several addresses, all of one scheduler's instances, the first that takes
    the session is used until it fails; any other can go on with the session.
    """

    def __init__(self, address: str | Sequence[str], src_lang: str, tgt_lang: str, *, platform: str = "python") -> None:
        self._addresses = Addresses(address, "/ws/session")
        self._init = SessionInit(
            client_version="lingua-python-1", platform=platform, src_lang=src_lang, tgt_lang=tgt_lang
        )
        self._http = aiohttp.ClientSession()
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._seq = 0
        self._chunks: deque[_Chunk] = deque(maxlen=MAX_REMEMBERED_CHUNKS)
        self._utterances = 0
        self._unanswered: dict[int, Utterance] = {}
        self._last_outcome: int | None = None
        self._is_finishing = False
        self._paused_until = 0.0
        # Everything that was said has its outcome.
        self.is_finished = False
        self.session_id = ""
        self.use_binary_frame = False
        self.times_resumed = 0

    async def __aenter__(self) -> Self:
        try:
            ack = await self._connect_somewhere(self._init)
        except BaseException as error:
            await self._hang_up()
            await self._http.close()
            if isinstance(error, _HungUp):
                raise SessionFailed("the scheduler did not open a session: it closed the connection") from error
            raise
        self.session_id = ack.session_id
        self.use_binary_frame = ack.use_binary_frame
        self._init.resume_token = ack.resume_token
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._hang_up()
        await self._http.close()

    async def send(self, audio: bytes, *, is_final: bool = False) -> None:
        """A stretch of audio, PCM16 or framed Opus, 16 kHz mono; about 200 ms at a time is good.

        Waits while the scheduler asks for a pause, which it does when more is said than the nodes can translate.
        """
        self._must_be_open()
        while (pause_s := self._paused_until - time.monotonic()) > 0:
            await asyncio.sleep(pause_s)
        chunk = _Chunk(self._seq, audio, is_final)
        self._seq += 1
        self._chunks.append(chunk)
        await self._post_chunk(chunk)

    async def final(self) -> None:
        """The person has finished a sentence."""
        await self.send(b"", is_final=True)

    async def finish(self) -> None:
        """Nothing more will be said: `heard` ends when everything has been translated."""
        self._is_finishing = True
        await self._post(SessionClose(session_id=self.session_id, reason="done"))

    async def utterance(
        self, audio: bytes, *, audio_format: str = "pcm16", pipeline: PipelineChoice | None = None
    ) -> int:
        """A whole utterance at once; its number is returned."""
        self._must_be_open()
        index, self._utterances = self._utterances, self._utterances + 1
        message = Utterance(
            session_id=self.session_id,
            utterance_index=index,
            manual_cut=True,
            src_lang=self._init.src_lang,
            tgt_lang=self._init.tgt_lang,
            audio=audio,
            audio_format=audio_format,
            sample_rate=16_000,
            pipeline=pipeline,
        )
        self._unanswered[index] = message
        await self._post(message)
        return index

    async def heard(self, *, steps: bool = False) -> AsyncIterator[Heard]:
        """Results, gaps, partials and failures as they come, until everything is said or the session is lost.

        With `steps` also how each utterance gets on: INPUT_ENDED, DISPATCHED, NODE_ACCEPTED …
        """
        while True:
            message = await self._next()
            match message:
                case None if self._init.resume_token is None:
                    return
                case None:
                    await self._resume()
                case TranslationResult() | MissingResult():
                    if self._is_news(message.utterance_index):
                        yield message
                case UiEvent(status="ok") if not steps:
                    pass
                case AsrPartial() | UiEvent():
                    yield message
                case Backpressure():
                    self._paused_until = time.monotonic() + min(message.resume_after_ms / 1000, MAX_PAUSE_S)
                case SessionCloseAck():
                    self.is_finished = True
                    return
                case ErrorMessage():
                    raise SessionFailed(f"{message.code}: {message.message}")

    def _is_news(self, index: int) -> bool:
        """Outcomes come in order; one that comes again after a resume is known."""
        self._unanswered.pop(index, None)
        # What the scheduler cut from our chunks has used up numbers too.
        self._utterances = max(self._utterances, index + 1)
        if self._last_outcome is not None and index <= self._last_outcome:
            return False
        self._last_outcome = index
        return True

    def _must_be_open(self) -> None:
        if not self.session_id:
            raise SessionFailed("the session is not open; use: async with Client(…) as client")

    async def _resume(self) -> None:
        """Connect again with the session's token, and send what the scheduler did not get."""
        give_up_at = time.monotonic() + RESUME_WITHIN_S
        pause_s = 0.1
        while True:
            try:
                init = msgspec.structs.replace(self._init, last_utterance_index=self._last_outcome)
                ack = await self._connect(init)
                break
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                if time.monotonic() > give_up_at:
                    raise SessionFailed(f"the connection broke and did not come back: {error}") from error
            await asyncio.sleep(random.uniform(0, pause_s))
            pause_s = min(pause_s * 2, 5.0)
        if not ack.resumed:
            raise SessionFailed("the scheduler does not know the session any more; what was said is lost")
        self.times_resumed += 1
        for chunk in [chunk for chunk in self._chunks if chunk.seq >= (ack.next_seq or 0)]:
            await self._post_chunk(chunk)
        for index, message in list(self._unanswered.items()):
            if index >= (ack.next_utterance_index or 0):
                await self._post(message)
        if self._is_finishing:
            await self.finish()

    async def _connect_somewhere(self, init: SessionInit) -> SessionInitAck:
        """At the first address that answers; the last failure is told."""
        for _ in range(len(self._addresses) - 1):
            with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
                return await self._connect(init)
        return await self._connect(init)

    async def _connect(self, init: SessionInit) -> SessionInitAck:
        """At the present address; when that fails, the next one is present."""
        try:
            return await self._introduce(init)
        except (aiohttp.ClientError, OSError, TimeoutError):
            self._addresses.turn()
            raise

    async def _introduce(self, init: SessionInit) -> SessionInitAck:
        await self._hang_up()
        # A process that is frozen takes connections and says nothing.
        async with asyncio.timeout(ACK_WITHIN_S):
            self._socket = await self._http.ws_connect(self._addresses.url, max_msg_size=0, heartbeat=20)
            await self._post(init)
            ack = await self._next()
        if not isinstance(ack, SessionInitAck):
            if ack is None:
                raise _HungUp("the scheduler closed the connection")
            said = f"{ack.code}: {ack.message}" if isinstance(ack, ErrorMessage) else "it said something else"
            raise SessionFailed(f"the scheduler did not open a session: {said}")
        return ack

    async def _hang_up(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            await socket.close()

    async def _post_chunk(self, chunk: _Chunk) -> None:
        if not self.use_binary_frame:
            message = AudioChunk(
                session_id=self.session_id, seq=chunk.seq, is_final=chunk.is_final, payload=chunk.audio
            )
            await self._post(message)
        elif self._socket is not None:
            now_ms = int(time.time() * 1000)
            frame = binary.encode_audio_chunk(self.session_id, chunk.seq, now_ms, chunk.audio, is_final=chunk.is_final)
            with contextlib.suppress(ConnectionError):
                await self._socket.send_bytes(frame)

    async def _post(self, message: Message) -> None:
        """Into a broken connection nothing is sent; what matters is sent again after the resume."""
        if self._socket is not None:
            with contextlib.suppress(ConnectionError):
                await self._socket.send_str(codec.encode(message).decode())

    async def _next(self) -> SessionOutgoing | None:
        """The next message we understand; None when the connection ends."""
        if self._socket is None:
            return None
        async for frame in self._socket:
            if frame.type is not aiohttp.WSMsgType.TEXT:
                continue
            with contextlib.suppress(codec.UnreadableFrame):  # of a newer scheduler, perhaps
                message = codec.decode_for_client(frame.data)
                if message is not None:
                    return message
        return None
