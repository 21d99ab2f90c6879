"""The existing API gateway: a socket for each question, dropped without a close frame; only text keeps it waiting."""

import asyncio
import base64
import json
import time
from typing import NamedTuple

import aiohttp

from tests.support.field_sockets import drop, url_of
from tests.support.peers import Frame


class Waited(NamedTuple):
    """What ended it: `translation_result`, a frame that is not text (`ping`, `binary`, `close`), or `dropped`."""

    ended_by: str
    frame: Frame | None
    close_code: int | None
    at: float

    @property
    def text(self) -> str:
        return str(self.frame["text_translated"]) if self.frame else ""


class FieldGateway:
    """Speaks raw frames: a ping is seen, not answered in silence. It keeps the text frames it ignored."""

    def __init__(self, port: int, src_lang: str = "en", tgt_lang: str = "zh", *, credential: str = "") -> None:
        self.port = port
        self.credential = credential
        self.ignored: list[Frame] = []
        self.sockets = 0
        self._languages = {"src_lang": src_lang, "tgt_lang": tgt_lang}
        self._http = aiohttp.ClientSession()

    async def close(self) -> None:
        await self._http.close()

    async def open_session(self, within_s: float = 30.0) -> str:
        """Ask for a session, and drop the socket: the id is all it wants."""
        asks = {"client_version": "1.0.0", "dialect": None, "features": None, "platform": "api-gateway"}
        more = {"tenant_id": "tenant-1b2c", "type": "session_init"}
        socket = await self._connect(self.port)
        try:
            await _send(socket, asks | self._languages | more)
            async with asyncio.timeout(within_s):
                ack = json.loads((await socket.receive()).data)
            assert ack["type"] == "session_init_ack", ack
            return str(ack["session_id"])
        finally:
            drop(socket)

    async def ask(
        self, session_id: str, audio: bytes, index: int = 0, *, audio_format: str = "pcm16", port: int | None = None
    ) -> Waited:
        """One utterance on a socket of its own, to another instance if a port is given. It waits without a limit."""
        about = {"audio": base64.b64encode(audio).decode(), "audio_format": audio_format}
        asks = {"dialect": None, "features": None, "manual_cut": False, "sample_rate": 16000}
        rest = {"type": "utterance", "utterance_index": index}
        socket = await self._connect(port or self.port)
        try:
            await _send(socket, about | asks | {"session_id": session_id} | self._languages | rest)
            return await self._wait(socket)
        finally:
            drop(socket)

    async def _wait(self, socket: aiohttp.ClientWebSocketResponse) -> Waited:
        while True:
            frame = await socket.receive()
            if frame.type is not aiohttp.WSMsgType.TEXT:
                return Waited(_KINDS.get(frame.type, "dropped"), None, _close_code(frame), time.monotonic())
            message = json.loads(frame.data)
            if message["type"] == "translation_result":
                return Waited("translation_result", message, None, time.monotonic())
            self.ignored.append(message)

    async def _connect(self, port: int) -> aiohttp.ClientWebSocketResponse:
        self.sockets += 1
        url = url_of(port, "/ws/session", self.credential)
        return await self._http.ws_connect(url, autoping=False, autoclose=False, max_msg_size=0)


_KINDS = {
    aiohttp.WSMsgType.PING: "ping",
    aiohttp.WSMsgType.PONG: "pong",
    aiohttp.WSMsgType.BINARY: "binary",
    aiohttp.WSMsgType.CLOSE: "close",
}


def _close_code(frame: aiohttp.WSMessage) -> int | None:
    return int(frame.data) if frame.type is aiohttp.WSMsgType.CLOSE else None


async def _send(socket: aiohttp.ClientWebSocketResponse, frame: Frame) -> None:
    # Recorded: its fields are sorted by name.
    await socket.send_str(json.dumps(dict(sorted(frame.items()))))
