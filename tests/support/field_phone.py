"""The existing mobile app: every 200 ms of speech is an `utterance` of its own, and nothing ever says that it ended."""

import asyncio
import base64
import contextlib
import json
import time

import aiohttp

from tests.support.field_frames import NO_FEATURES
from tests.support.field_sockets import abort, url_of
from tests.support.field_speech import SLICE_MS, pcm16, say
from tests.support.peers import Frame
from tests.support.waiting import until

_PIECE_SLICES = 10


class FieldPhone:
    """Counts `utterance_index` on over reconnects. It keeps what it said and heard, and the time of each result."""

    def __init__(
        self,
        port: int,
        src_lang: str = "en",
        tgt_lang: str = "zh",
        *,
        reconnect_s: float = 1.0,
        credential: str = "",
    ) -> None:
        self.port = port
        self.credential = credential
        # HTTP statuses of refused handshakes.
        self.refusals: list[int] = []
        self.session_id = ""
        self.sessions: list[str] = []
        self.said: list[Frame] = []
        self.heard: list[Frame] = []
        self.results: list[tuple[float, Frame]] = []
        self.ended_at = 0.0
        self._languages = {"src_lang": src_lang, "tgt_lang": tgt_lang}
        self._reconnect_s = reconnect_s
        self._index = 0
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def errors(self) -> list[Frame]:
        return [frame for frame in self.heard if frame["type"] == "error"]

    @property
    def missing(self) -> list[Frame]:
        return [frame for frame in self.heard if frame["type"] == "missing_result"]

    async def start(self, within_s: float = 30.0) -> "FieldPhone":
        self.open()
        await until(lambda: self.session_id, within_s, "the phone has a session")
        return self

    def open(self) -> None:
        self._task = asyncio.create_task(self._live())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def cut(self) -> None:
        abort(self._socket)

    async def say(self, text: str, language: str | None = None) -> None:
        """Five pieces a second, as it is spoken; pieces without a session are lost, but counted."""
        slices = say(text, language or self._languages["src_lang"])
        due = time.monotonic()
        for begin in range(0, len(slices), _PIECE_SLICES):
            due += _PIECE_SLICES * SLICE_MS / 1000
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await self._utter(pcm16(slices[begin : begin + _PIECE_SLICES]))
        self.ended_at = time.monotonic()

    async def _utter(self, audio: bytes) -> None:
        index, self._index = self._index, self._index + 1
        if not self.session_id:
            return
        about = {"type": "utterance", "session_id": self.session_id, "utterance_index": index, "manual_cut": False}
        asks = self._languages | {"dialect": None, "features": dict(NO_FEATURES)}
        sound = {"audio": base64.b64encode(audio).decode(), "audio_format": "pcm16", "sample_rate": 16000}
        await self._send(about | asks | sound)

    async def _live(self) -> None:
        async with aiohttp.ClientSession() as http:
            while True:
                try:
                    url = url_of(self.port, "/ws/session", self.credential)
                    # React Native makes up an Origin from the address it connects to.
                    own = f"http://127.0.0.1:{self.port}"
                    async with http.ws_connect(url, max_msg_size=0, origin=own) as socket:
                        self._socket = socket
                        await self._send(self._init())
                        async for frame in socket:
                            if frame.type is aiohttp.WSMsgType.TEXT:
                                self._read(json.loads(frame.data))
                except aiohttp.WSServerHandshakeError as refused:
                    self.refusals.append(refused.status)
                except (aiohttp.ClientError, OSError):
                    pass
                finally:
                    self._socket, self.session_id = None, ""
                await asyncio.sleep(self._reconnect_s)

    def _init(self) -> Frame:
        about = {"type": "session_init", "client_version": "1.0.0", "platform": "ios"}
        return about | self._languages | {"dialect": None, "features": dict(NO_FEATURES), "pairing_code": None}

    def _read(self, message: Frame) -> None:
        self.heard.append(message)
        match message["type"]:
            case "session_init_ack":
                self.session_id = message["session_id"]
                self.sessions.append(self.session_id)
            case "translation_result":
                self.results.append((time.monotonic(), message))

    async def _send(self, frame: Frame) -> None:
        self.said.append(frame)
        if self._socket is not None:
            with contextlib.suppress(aiohttp.ClientError, ConnectionError):  # the reader finds out
                await self._socket.send_str(json.dumps(frame, ensure_ascii=False))
