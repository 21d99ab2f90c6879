"""A small client that keeps to the protocol, and one fault at a time that it can be given."""

import asyncio
import base64
import contextlib
import json

import aiohttp

from tests.support.peers import Frame

DISMISSED = frozenset({4003, 4004, 4007})
EVERY_S = 0.02
AUDIO = b"\x10\x20" * 1600


class KitClient:
    """A program to the conformance kit, in the test's own loop. It speaks until it is dismissed.

    `fault` names what is wrong with it; empty: nothing. `is_whole`: it sends whole utterances instead of chunks."""

    def __init__(self, port: int, fault: str = "", *, is_whole: bool = False) -> None:
        self._port = port
        self._fault = fault
        self._is_whole = is_whole
        self._task: asyncio.Task[None] | None = None
        self._speaking: asyncio.Task[None] | None = None
        self._shown: list[str] = []

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    def output(self) -> str:
        return "\n".join(self._shown)

    def ask_to_leave(self) -> None:
        pass

    async def exit_code(self, within_s: float) -> int | None:
        assert self._task is not None
        await asyncio.wait((self._task,), timeout=within_s)
        return 0 if self._task.done() else None

    async def start(self) -> None:
        await self.stop()
        self.session_id, self.token = "", ""
        self.next_seq = self.next_index = 0
        self.chunks: list[Frame] = []
        self.unanswered: dict[int, Frame] = {}
        self.outcomes: set[int] = set()
        self.paused_until_s = 0.0
        self._task = asyncio.create_task(self._live())

    async def stop(self) -> None:
        for task in (self._task, self._speaking):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _live(self) -> None:
        pause_s = 0.1
        async with aiohttp.ClientSession() as http:
            while True:
                code = None
                try:
                    url = f"ws://127.0.0.1:{self._port}/ws/session"
                    async with http.ws_connect(url, autoping=self._fault != "no pong") as socket:
                        await self._converse(socket)
                        code = socket.close_code
                        pause_s = 0.1
                except (aiohttp.ClientError, OSError):
                    pass
                if code in DISMISSED and self._fault != "comes back":
                    return
                if code == 1013 and self._fault == "gives up at 1013":
                    return
                if self._fault == "never comes back":
                    return
                await asyncio.sleep(0 if self._fault == "hammers" else pause_s)
                pause_s = min(0.2, 2 * pause_s)

    async def _converse(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        await self._send(self._init())
        if self._fault == "speaks before the ack" and not self.session_id:
            await self._send({"type": "client_heartbeat", "session_id": "", "timestamp": 1})
        self._speaking = None
        try:
            async for frame in socket:
                if frame.type is aiohttp.WSMsgType.TEXT:
                    await self._take(json.loads(frame.data))
        finally:
            if self._speaking is not None:
                self._speaking.cancel()

    def _init(self) -> Frame:
        said: Frame = {"type": "session_init", "client_version": "kit", "platform": "test"}
        said |= {"src_lang": "en", "tgt_lang": "not a tag" if self._fault == "bad language" else "zh"}
        if self.token and self._fault != "forgets the token":
            said["resume_token"] = self.token
            known = 0
            while known in self.outcomes:
                known += 1
            last = 10_000 if self._fault == "claims too much" else known - 1
            said |= {"last_utterance_index": last} if last >= 0 else {}
        return said

    async def _take(self, said: Frame) -> None:
        match said["type"]:
            case "session_init_ack":
                await self._acknowledged(said)
            case "translation_result" | "missing_result":
                await self._outcome(said)
            case "backpressure" if self._fault != "ignores the pause":
                self.paused_until_s = asyncio.get_running_loop().time() + said["resume_after_ms"] / 1000
            case "conformance_unknown" if self._fault == "dies of the unknown":
                await self._socket.close()

    async def _acknowledged(self, said: Frame) -> None:
        is_resumed = said.get("resumed", False)
        if not is_resumed:
            self.next_seq = self.next_index = 0
            self.chunks.clear()
            self.unanswered.clear()
            self.outcomes.clear()
        if self._fault != "keeps the old session" or not self.session_id:
            self.session_id = said["session_id"]
        self.token = said["resume_token"]
        if is_resumed:
            await self._replay(said)
        self._speaking = asyncio.create_task(self._speak())

    async def _replay(self, said: Frame) -> None:
        first = 0 if self._fault == "replays everything" else said["next_seq"]
        for chunk in self.chunks[first:]:
            if self._fault != "replays nothing":
                await self._send(chunk)
        for whole in self.unanswered.values():
            if self._fault != "replays nothing":
                await self._send(whole)

    async def _outcome(self, said: Frame) -> None:
        index = said["utterance_index"]
        is_news = index not in self.outcomes or self._fault == "shows twice"
        if is_news and (text := said.get("text_translated")):
            self._shown.append(text)
        self.outcomes.add(index)
        if self._fault != "never forgets":
            self.unanswered.pop(index, None)
        if said["type"] == "missing_result" and self._fault == "dies of a gap":
            await self._socket.close()

    async def _speak(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            if asyncio.get_running_loop().time() < self.paused_until_s:
                continue
            if self._is_whole:
                await self._say_whole()
            else:
                await self._say_chunk()

    async def _say_chunk(self) -> None:
        seq, self.next_seq = self.next_seq, self.next_seq + (2 if self._fault == "skips a seq" else 1)
        audio = AUDIO[:-1] if self._fault == "half a sample" else AUDIO
        chunk = {
            "type": "audio_chunk",
            "session_id": "s-00000000" if self._fault == "wrong session" else self.session_id,
            "seq": seq,
            "is_final": seq % 3 == 2,
            "payload": base64.b64encode(audio).decode(),
        }
        self.chunks.append(chunk)
        await self._send(chunk)

    async def _say_whole(self) -> None:
        index, self.next_index = self.next_index, self.next_index + 1
        if self._fault == "counts backwards":
            index = 100_000 - index
        whole = {
            "type": "utterance",
            "session_id": self.session_id,
            "utterance_index": index,
            "manual_cut": True,
            "src_lang": "en",
            "tgt_lang": "zh",
            "audio": base64.b64encode(AUDIO).decode(),
            "audio_format": "pcm16",
            "sample_rate": 16_000,
        }
        self.unanswered[index] = whole
        await self._send(whole)

    async def _send(self, frame: Frame) -> None:
        with contextlib.suppress(ConnectionError):
            await self._socket.send_str(json.dumps(frame))
