"""The existing web page: its frames and their timing, what it shows, hides and alerts, and how it comes back."""

import asyncio
import base64
import contextlib
import json
import math
import time
import uuid
from collections.abc import Coroutine
from typing import Any, NamedTuple

import aiohttp

from tests.support.field_microphone import FRAME_S, FRAME_SLICES, Recorder
from tests.support.field_sockets import abort, binary_audio, now_ms, url_of
from tests.support.field_speech import SLICE_MS, packets_of, say
from tests.support.peers import Frame
from tests.support.waiting import until

HEARTBEAT_S = 30.0
FIRST_RECONNECT_S = 1.0
# Doubled until it is so many times the first: 1 to 30 s.
LONGEST_RECONNECT = 30


class Sentence(NamedTuple):
    text: str
    language: str
    began_at: float
    ended_at: float


class Shown(NamedTuple):
    at: float
    frame: Frame


class Sent(NamedTuple):
    """An audio frame as it went out."""

    at: float
    session_id: str
    seq: int
    is_final: bool
    size: int


def two_way(lang_a: str = "zh", lang_b: str = "en") -> Frame:
    """As the session page asks."""
    return {
        "src_lang": "auto",
        "tgt_lang": lang_b,
        "mode": "two_way_auto",
        "lang_a": lang_a,
        "lang_b": lang_b,
        "auto_langs": [lang_a, lang_b],
    }


def one_way(src_lang: str = "en", tgt_lang: str = "zh") -> Frame:
    """As the room page asks."""
    return {"src_lang": src_lang, "tgt_lang": tgt_lang, "mode": "one_way"}


class FieldBrowser:
    """A page with one microphone. `doubles_recorder`: a reconnect leaves the old recorder running beside a second one.

    It keeps what it showed, hid and alerted, and every audio frame it sent; times are of `time.monotonic()`."""

    def __init__(
        self,
        port: int,
        recorder: Recorder | None = None,
        asks: Frame | None = None,
        *,
        reconnect_s: float = FIRST_RECONNECT_S,
        doubles_recorder: bool = False,
        credential: str = "",
    ) -> None:
        self.port = port
        self.credential = credential
        self.recorder = recorder or Recorder()
        self.session_id = ""
        self.trace_id = ""
        self.sessions: list[str] = []
        self.sent: list[Sent] = []
        self.said: list[Frame] = []
        self.heard: list[Frame] = []
        self.shown: list[Shown] = []
        self.hidden: list[Frame] = []
        self.alerts: list[Frame] = []
        self.missing: list[Shown] = []
        self.sentences: list[Sentence] = []
        self.close_codes: list[int | None] = []
        self.connected_at: list[float] = []
        # HTTP statuses of refused handshakes, and the pauses before each further try.
        self.refusals: list[int] = []
        self.pauses_s: list[float] = []
        self.is_frozen = False
        self._asks = two_way() if asks is None else asks
        self._reconnect_s = reconnect_s
        self._doubles_recorder = doubles_recorder
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._uses_binary = False
        self._seq = 0
        self._shown_indexes: set[int] = set()
        self._unplayed: list[Frame] = []
        self._is_playing = False
        self._will_press = False
        self._paused_until = 0.0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def looks_connected(self) -> bool:
        """What the page tells the person: an open socket, with a session or without."""
        return self._socket is not None

    @property
    def texts(self) -> list[tuple[str, str]]:
        """What the person reads, in this order."""
        return [(shown.frame["text_asr"], shown.frame["text_translated"]) for shown in self.shown]

    async def start(self, within_s: float = 30.0) -> "FieldBrowser":
        """Returns when it has a session."""
        self.open()
        await until(lambda: self.session_id, within_s, "the page has a session")
        return self

    def open(self) -> None:
        for work in (self._live(), self._record(), self._beat()):
            self._spawn(work)

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """The network drops the connection without a word."""
        abort(self._socket)

    async def say(self, text: str, language: str = "en", *, presses_send: bool = False) -> Sentence:
        """Returns when the last of it has left. With the button, the frame in the making comes after the final."""
        await until(lambda: not self._is_playing, 600, "the page has played its speech")
        slices = say(text, language)
        began_at = time.monotonic()
        self.recorder.hear(slices)
        self._will_press = presses_send
        limit_s = len(slices) * SLICE_MS / 1000 + 60
        if presses_send:
            await until(lambda: self.recorder.unheard < FRAME_SLICES, limit_s, "all but one frame is spoken")
            # The person presses when the last word is out; recorded: its frame comes some 90 ms later.
            await asyncio.sleep(self.recorder.unheard * SLICE_MS / 1000)
            await self._press()
        await until(lambda: not self.recorder.unheard, limit_s, "all is spoken")
        sentence = Sentence(text, language, began_at, time.monotonic())
        self.sentences.append(sentence)
        return sentence

    async def press_send(self) -> None:
        await self._send_final()

    async def send_raw_chunk(self, payload: str) -> None:
        """A chunk whose payload may be no base64."""
        seq, self._seq = self._seq, self._seq + 1
        about = {"session_id": self.session_id, "seq": seq, "is_final": False}
        await self._send({"type": "audio_chunk"} | about | {"payload": payload})

    async def play(self, seconds: float | None = None) -> None:
        """Play what came since the last time, by its length; nothing is recorded meanwhile."""
        results, self._unplayed = self._unplayed, []
        if not results:
            return
        about = {"session_id": self.session_id, "trace_id": self.trace_id, "group_id": results[-1].get("group_id")}
        self._is_playing = True
        self.recorder.rest()
        await self._send({"type": "tts_started"} | about | {"ts_start_ms": now_ms()})
        await asyncio.sleep(sum(map(play_s, results)) if seconds is None else seconds)
        await self._send({"type": "tts_play_ended"} | about | {"ts_end_ms": now_ms()})
        self._is_playing = False

    # The socket

    async def _live(self) -> None:
        delay = self._reconnect_s
        async with aiohttp.ClientSession() as http:
            while True:
                try:
                    url = url_of(self.port, "/ws/session", self.credential)
                    # The page is served by another program, on another port.
                    async with http.ws_connect(url, max_msg_size=0, origin="http://localhost:9001") as socket:
                        # Whatever comes then: after a socket that is closed at once it is back in a second, for ever.
                        delay, self._socket = self._reconnect_s, socket
                        self.connected_at.append(time.monotonic())
                        await self._send(self._init())
                        async for frame in socket:
                            if frame.type is aiohttp.WSMsgType.TEXT:
                                self._read(json.loads(frame.data))
                        self.close_codes.append(socket.close_code)
                except aiohttp.WSServerHandshakeError as refused:
                    self.refusals.append(refused.status)
                except (aiohttp.ClientError, OSError):
                    pass
                finally:
                    self._socket, self.session_id = None, ""
                self.pauses_s.append(delay)
                await asyncio.sleep(delay)
                delay = min(LONGEST_RECONNECT * self._reconnect_s, 2 * delay)

    def _init(self) -> Frame:
        self.trace_id = str(uuid.uuid4())
        asks = dict(self._asks)
        languages = {"src_lang": asks.pop("src_lang"), "tgt_lang": asks.pop("tgt_lang")}
        return (
            {"type": "session_init", "client_version": "web-client-v1.0", "platform": "web"}
            | languages
            | {"dialect": None, "features": {}, "pairing_code": None}
            | asks
            | {"trace_id": self.trace_id, "tenant_id": None}
        )

    def _read(self, message: Frame) -> None:
        self.heard.append(message)
        match message["type"]:
            case "session_init_ack":
                self.session_id = message["session_id"]
                self.sessions.append(self.session_id)
                self._uses_binary = message["use_binary_frame"]
            case "translation_result":
                self._show(message)
            case "missing_result":
                self.missing.append(Shown(time.monotonic(), message))
            case "error":
                # A blocking alert, and no more: on an open socket it never tries again.
                self.alerts.append(message)
            case "backpressure" if message["action"] == "PAUSE":
                self._paused_until = time.monotonic() + message["resume_after_ms"] / 1000
            case "backpressure":
                self.is_frozen = True

    def _show(self, result: Frame) -> None:
        index = result["utterance_index"]
        if index in self._shown_indexes:
            self.hidden.append(result)
            return
        self._shown_indexes.add(index)
        self.shown.append(Shown(time.monotonic(), result))
        if result["tts_audio"]:
            self._unplayed.append(result)

    # The microphone

    async def _record(self) -> None:
        next_frame = time.monotonic() + FRAME_S
        while True:
            final_at = self.recorder.final_at or math.inf
            await asyncio.sleep(max(0.0, min(next_frame, final_at) - time.monotonic()))
            now = time.monotonic()
            if now >= final_at:
                self.recorder.end()
                await self._send_final()
            if now >= next_frame:
                # A page that was held up does not catch up in one burst for ever.
                next_frame = max(next_frame + FRAME_S, now - 2 * FRAME_S)
                await self._record_frame(now)

    async def _record_frame(self, now: float) -> None:
        if self._is_playing or self.is_frozen or now < self._paused_until:
            self.recorder.rest()
            return
        if self.recorder.unheard < FRAME_SLICES:
            # The press comes before the last frame, however late this machine is with it.
            await self._press()
        recorded = self.recorder.frame(now)
        if recorded is None:
            return
        for _ in range(2 if self._doubles_recorder and len(self.sessions) > 1 else 1):
            await self._send_audio(recorded.audio, is_final=False)
            if recorded.then_final:
                await self._send_final()

    async def _press(self) -> None:
        is_due, self._will_press = self._will_press, False
        if is_due:
            await self._send_final()

    async def _send_final(self) -> None:
        await self._send_audio(b"", is_final=True)

    async def _send_audio(self, audio: bytes, *, is_final: bool) -> None:
        """Without a session it is lost, and not counted."""
        if not self.session_id or self._socket is None or self.is_frozen:
            return
        seq, self._seq = self._seq, self._seq + 1
        self.sent.append(Sent(time.monotonic(), self.session_id, seq, is_final, len(audio)))
        if self._uses_binary:
            await self._write(binary_audio(self.session_id, seq, audio, is_final=is_final))
            return
        payload = base64.b64encode(audio).decode()
        chunk = {"type": "audio_chunk", "session_id": self.session_id, "seq": seq, "is_final": is_final}
        await self._send(chunk | {"payload": payload})

    async def _send(self, frame: Frame) -> None:
        self.said.append(frame)
        await self._write(json.dumps(frame, ensure_ascii=False))

    async def _write(self, frame: str | bytes) -> None:
        if self._socket is None:
            return
        with contextlib.suppress(aiohttp.ClientError, ConnectionError):  # the reader finds out, and connects again
            await (self._socket.send_bytes(frame) if isinstance(frame, bytes) else self._socket.send_str(frame))

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            if self.session_id:
                about = {"session_id": self.session_id, "timestamp": now_ms()}
                await self._send({"type": "client_heartbeat"} | about)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def play_s(result: Frame) -> float:
    audio = base64.b64decode(result["tts_audio"])
    return len(packets_of(audio)) * SLICE_MS / 1000 if result["tts_format"] == "opus" else len(audio) / 32_000
