"""Nodes and clients as they are in the field: real sockets, plain JSON, and a script of behaviours."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from lingua_scheduler.domain.sessions.pseudonyms import Pseudonyms
from tests.support.leaks import LEAKS
from tests.support.waiting import PATIENCE_S

Frame = dict[str, Any]


class Socket:
    """A WebSocket that speaks JSON and keeps everything it said and heard."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        connection = socket._response.connection
        assert connection is not None
        assert connection.transport is not None
        self._transport = connection.transport
        self.said: list[Frame] = []
        self.heard: list[Frame] = []
        self._unread: asyncio.Queue[Frame | None] = asyncio.Queue()
        self._reader = asyncio.create_task(self._read())

    async def send(self, frame: Frame) -> None:
        self.said.append(frame)
        await self.socket.send_str(json.dumps(frame))

    async def next(self, *types: str, within_s: float = PATIENCE_S) -> Frame:
        """The next frame of one of these types; others are passed over. `within_s` is for what takes even longer than
        a busy machine needs: no test measures time by it."""
        async with asyncio.timeout(max(within_s, PATIENCE_S)):
            while True:
                frame = await self._unread.get()
                if frame is None:
                    raise ConnectionError(f"closed with {self.socket.close_code}")
                if not types or frame["type"] in types:
                    return frame

    def of_type(self, kind: str) -> list[Frame]:
        """Everything of this type heard so far."""
        return [frame for frame in self.heard if frame["type"] == kind]

    async def closed(self, within_s: float = PATIENCE_S) -> int | None:
        async with asyncio.timeout(max(within_s, PATIENCE_S)):
            await asyncio.shield(self._reader)
        return self.socket.close_code

    async def close(self) -> None:
        if not self._transport.is_closing() and not self._transport.is_reading():
            # The answer to its farewell would be waited for, ten seconds long, and never read.
            self._transport.resume_reading()
        await self.socket.close()
        await self._reader

    def cut(self) -> None:
        """The connection is gone, without a word."""
        connection = self.socket._response.connection
        assert connection is not None
        assert connection.transport is not None
        connection.transport.abort()

    def fall_silent(self) -> None:
        """As if the cable was cut: nothing is read or answered any more, and nothing says so."""
        self._transport.pause_reading()

    def drop(self) -> None:
        """As if the machine lost power: no closing handshake."""
        self._transport.abort()

    async def _read(self) -> None:
        async for frame in self.socket:
            if frame.type is aiohttp.WSMsgType.TEXT:
                message = json.loads(frame.data)
                self.heard.append(message)
                if LEAKS.is_watching:
                    _search(message)
                self._unread.put_nowait(message)
        self._unread.put_nowait(None)


def _search(message: Frame) -> None:
    """A client is given its own resume token once; nothing else that a peer is told has a secret in it."""
    if message["type"] == "session_init_ack":
        LEAKS.note("a resume token", str(message.get("resume_token")).rpartition(".")[2])
    elif message["type"] == "error":
        LEAKS.wrote("error to a peer", json.dumps(message))


def registration(languages: tuple[str, ...] = ("en", "zh"), **more: Any) -> Frame:
    codes = list(languages)
    return {
        "type": "node_register",
        "node_id": None,
        "version": "2.0.0",
        "capability_schema_version": "2.0",
        "platform": "linux",
        "hardware": {"cpu_cores": 2, "memory_gb": 24},
        "installed_models": [],
        "installed_services": [{"service_id": "whisper", "type": "asr", "device": "gpu", "status": "running"}],
        "capability_by_type": [{"type": "asr", "ready": True, "devices": ["gpu"]}],
        "features_supported": {"emotion_detection": False},
        "accept_public_jobs": True,
        "language_capabilities": {
            "asr_languages": codes,
            "tts_languages": codes,
            "semantic_languages": codes,
            "semantic_core_ready": True,
        },
    } | more


def heartbeat(node_id: str, **more: Any) -> Frame:
    return {
        "type": "node_heartbeat",
        "node_id": node_id,
        "timestamp": 1,
        "resource_usage": {"cpu_percent": 1.0, "mem_percent": 2.0, "running_jobs": 0},
        "installed_services": [{"service_id": "whisper", "type": "asr", "device": "gpu", "status": "running"}],
        "capability_by_type": [{"type": "asr", "ready": True, "devices": ["gpu"]}],
    } | more


def result_of(job: Frame, node_id: str, **more: Any) -> Frame:
    return {
        "type": "job_result",
        "job_id": job["job_id"],
        "attempt_id": job["attempt_id"],
        "node_id": node_id,
        "session_id": job["session_id"],
        "utterance_index": job["utterance_index"],
        "success": True,
        "text_asr": f"heard {job['session_id']} {job['utterance_index']}",
        "text_translated": f"said {job['session_id']} {job['utterance_index']}",
        "tts_audio": "",
        "tts_format": "opus",
        "processing_time_ms": 5,
        "trace_id": job["trace_id"],
    } | more


def acknowledgement(job: Frame, node_id: str) -> Frame:
    said = {name: job[name] for name in ("job_id", "attempt_id", "session_id", "trace_id")}
    return {"type": "job_ack", "node_id": node_id} | said


Work = Callable[["FakeNode", Frame], Awaitable[None]]


async def answer(node: "FakeNode", job: Frame) -> None:
    await node.socket.send(result_of(job, node.node_id))


async def stay_silent(node: "FakeNode", job: Frame) -> None:
    pass


class FakeNode:
    """A registered node that treats every job as `work` says, and counts what it really runs at once."""

    def __init__(self, socket: Socket, node_id: str, work: Work) -> None:
        self.socket = socket
        self.node_id = node_id
        self.work = work
        self.jobs: list[Frame] = []
        self.running = 0
        self.most_at_once = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        try:
            while True:
                job = await self.socket.next("job_assign", within_s=3600)
                self.jobs.append(job)
                self.running += 1
                self.most_at_once = max(self.most_at_once, self.running)
                task = asyncio.create_task(self._run(job))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        except ConnectionError:
            pass

    async def _run(self, job: Frame) -> None:
        # What counts for the node's own limit is over before the result leaves.
        try:
            await self.work(self, job)
        except ConnectionError:
            # The scheduler was killed, or left: a node notices when it wants to answer.
            pass
        finally:
            self.running -= 1

    async def stop(self) -> None:
        self._listener.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(self._listener, *self._tasks, return_exceptions=True)
        if not self.socket.socket.closed:
            await self.socket.close()


class Field:
    """Peers of one scheduler; all of them leave when the test ends."""

    def __init__(self, http: aiohttp.ClientSession, port: int) -> None:
        self._http = http
        self.port = port
        self.nodes: list[FakeNode] = []
        self.sockets: list[Socket] = []

    async def socket(self, path: str) -> Socket:
        socket = Socket(await self._http.ws_connect(f"ws://127.0.0.1:{self.port}{path}", max_msg_size=0))
        self.sockets.append(socket)
        return socket

    async def node(self, work: Work = answer, **registration_fields: Any) -> FakeNode:
        socket = await self.socket("/ws/node")
        await socket.send(registration(**registration_fields))
        ack = await socket.next("node_register_ack")
        node = FakeNode(socket, ack["node_id"], work)
        await socket.send(heartbeat(node.node_id))
        self.nodes.append(node)
        return node

    async def client(self, **init: Any) -> "FakeClient":
        socket = await self.socket("/ws/session")
        client = FakeClient(socket)
        await client.init(**init)
        return client

    async def get(self, path: str) -> tuple[int, Any]:
        return await self.ask("GET", path)

    async def post(self, path: str, body: Any = None) -> tuple[int, Any]:
        """With a body, if there is one, as JSON."""
        return await self.ask("POST", path, json=body) if body is not None else await self.ask("POST", path)

    async def ask(self, method: str, path: str, **more: Any) -> tuple[int, Any]:
        """Status and body; `more` as aiohttp takes it."""
        async with self._http.request(method, f"http://127.0.0.1:{self.port}{path}", **more) as response:
            text = await response.text()
            return response.status, json.loads(text) if "json" in response.content_type else text

    async def close(self) -> None:
        for node in self.nodes:
            await node.stop()
        for socket in self.sockets:
            if not socket.socket.closed:
                await socket.close()


class FakeClient:
    def __init__(self, socket: Socket) -> None:
        self.socket = socket
        self.session_id = ""
        self.ack: Frame = {}
        self._seq = 0

    def known_as(self, node_id: str) -> str:
        """How a node knows the session, where the scheduler has no cluster key."""
        return Pseudonyms(self.ack["resume_token"].encode(), self.session_id).at(node_id).session_id

    async def init(self, **fields: Any) -> None:
        init = {"client_version": "web-client-v1.0", "platform": "web", "src_lang": "en", "tgt_lang": "zh"}
        await self.socket.send({"type": "session_init"} | init | fields)
        self.ack = await self.socket.next("session_init_ack", "error")
        self.session_id = self.ack.get("session_id", "")

    async def chunk(self, audio: bytes = b"", is_final: bool = False) -> None:
        payload = base64.b64encode(audio).decode()
        await self.socket.send(
            {
                "type": "audio_chunk",
                "session_id": self.session_id,
                "seq": self._seq,
                "is_final": is_final,
                "payload": payload,
            }
        )
        self._seq += 1

    async def utterance(self, index: int, audio: bytes = b"\x00\x01" * 320, **more: Any) -> None:
        fields = {
            "type": "utterance",
            "session_id": self.session_id,
            "utterance_index": index,
            "manual_cut": True,
            "src_lang": "en",
            "tgt_lang": "zh",
            "audio": base64.b64encode(audio).decode(),
            "audio_format": "pcm16",
            "sample_rate": 16000,
        }
        await self.socket.send(fields | more)

    async def failure(self, within_s: float = PATIENCE_S) -> Frame:
        """The next event that says what went wrong."""
        while True:
            event = await self.socket.next("ui_event", within_s=within_s)
            if event["status"] == "error":
                return event

    async def outcome(self, within_s: float = PATIENCE_S) -> Frame:
        return await self.socket.next("translation_result", "missing_result", "error", within_s=within_s)


@asynccontextmanager
async def field(port: int) -> AsyncIterator[Field]:
    # Hundreds of peers at once, so no limit on connections.
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as http:
        peers = Field(http, port)
        try:
            yield peers
        finally:
            await peers.close()
