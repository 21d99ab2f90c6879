"""A client: opens a session, sends speech, receives translations."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

import aiohttp

from lingua_scheduler.protocol import binary, codec
from lingua_scheduler.protocol.session import (
    AsrPartial,
    AudioChunk,
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
from lingua_scheduler.sdk.address import socket_url

Heard = TranslationResult | MissingResult | AsrPartial | UiEvent


class SessionFailed(Exception):
    """The scheduler refused the session, or closed it; the message says why."""


class Client:
    """`async with Client(…) as client:` — then `send`, `final` and iterate over `client.heard()`."""

    def __init__(self, address: str, src_lang: str, tgt_lang: str, *, platform: str = "python") -> None:
        self._url = socket_url(address, "/ws/session")
        self._init = SessionInit(
            client_version="lingua-python-1", platform=platform, src_lang=src_lang, tgt_lang=tgt_lang
        )
        self._http = aiohttp.ClientSession()
        self._seq = 0
        self._utterances = 0
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        # Everything that was said has its outcome.
        self.is_finished = False
        self.session_id = ""
        self.use_binary_frame = False

    async def __aenter__(self) -> Self:
        try:
            self._socket = await self._http.ws_connect(self._url, max_msg_size=0)
            await self._post(self._init)
            async with asyncio.timeout(10):
                ack = await self._next()
            if not isinstance(ack, SessionInitAck):
                said = f"{ack.code}: {ack.message}" if isinstance(ack, ErrorMessage) else "it closed the connection"
                raise SessionFailed(f"the scheduler did not open a session: {said}")
        except BaseException:
            if self._socket is not None:
                await self._socket.close()
            await self._http.close()
            raise
        self.session_id = ack.session_id
        self.use_binary_frame = ack.use_binary_frame
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connected.close()
        await self._http.close()

    @property
    def _connected(self) -> aiohttp.ClientWebSocketResponse:
        if self._socket is None:
            raise SessionFailed("the session is not open; use: async with Client(…) as client")
        return self._socket

    async def send(self, audio: bytes, *, is_final: bool = False) -> None:
        """A stretch of audio, PCM16 or framed Opus, 16 kHz mono; about 200 ms at a time is good."""
        seq, self._seq = self._seq, self._seq + 1
        if self.use_binary_frame:
            frame = binary.encode_audio_chunk(self.session_id, seq, int(time.time() * 1000), audio, is_final=is_final)
            await self._connected.send_bytes(frame)
        else:
            await self._post(AudioChunk(session_id=self.session_id, seq=seq, is_final=is_final, payload=audio))

    async def final(self) -> None:
        """The person has finished a sentence."""
        await self.send(b"", is_final=True)

    async def finish(self) -> None:
        """Nothing more will be said: `heard` ends when everything has been translated."""
        await self._post(SessionClose(session_id=self.session_id, reason="done"))

    async def utterance(
        self, audio: bytes, *, audio_format: str = "pcm16", pipeline: PipelineChoice | None = None
    ) -> int:
        """A whole utterance at once; its number is returned."""
        index, self._utterances = self._utterances, self._utterances + 1
        await self._post(
            Utterance(
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
        )
        return index

    async def heard(self) -> AsyncIterator[Heard]:
        """Results, gaps, partials and events as they come, until the session or the connection ends."""
        while (message := await self._next()) is not None:
            match message:
                case TranslationResult() | MissingResult() | AsrPartial() | UiEvent():
                    # What the scheduler cut from our chunks has used up numbers too.
                    self._utterances = max(self._utterances, message.utterance_index + 1)
                    yield message
                case SessionCloseAck():
                    self.is_finished = True
                    return
                case ErrorMessage():
                    raise SessionFailed(f"{message.code}: {message.message}")

    async def _post(self, message: Message) -> None:
        await self._connected.send_str(codec.encode(message).decode())

    async def _next(self) -> SessionOutgoing | None:
        """The next message we understand; None when the connection ends."""
        async for frame in self._connected:
            if frame.type is not aiohttp.WSMsgType.TEXT:
                continue
            with contextlib.suppress(codec.UnreadableFrame):  # of a newer scheduler, perhaps
                message = codec.decode_for_client(frame.data)
                if message is not None:
                    return message
        return None
