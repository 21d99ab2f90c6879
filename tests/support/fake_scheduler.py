"""A scheduler that does exactly what a test tells it to: real sockets, plain JSON, no mind of its own."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import WSMsgType, web

from tests.support.peers import Frame
from tests.support.waiting import PATIENCE_S


class Call:
    """One connection of a node or a client."""

    def __init__(self, socket: web.WebSocketResponse, transport: asyncio.Transport) -> None:
        self.socket = socket
        self.heard: list[Frame] = []
        self._transport = transport
        self._unread: asyncio.Queue[Frame] = asyncio.Queue()

    async def send(self, frame: Frame) -> None:
        await self.socket.send_str(json.dumps(frame))

    async def next(self, *types: str, within_s: float = PATIENCE_S) -> Frame:
        """The next frame of one of these types; others are passed over."""
        async with asyncio.timeout(within_s):
            while True:
                frame = await self._unread.get()
                if not types or frame["type"] in types:
                    return frame

    def of(self, *types: str) -> list[Frame]:
        return [frame for frame in self.heard if frame["type"] in types]

    def drop(self) -> None:
        """As if the machine lost power: no closing handshake."""
        self._transport.abort()

    async def listen(self) -> None:
        async for frame in self.socket:
            if frame.type is WSMsgType.TEXT:
                message = json.loads(frame.data)
                self.heard.append(message)
                self._unread.put_nowait(message)

    async def register(self, node_id: str = "node-1") -> Frame:
        """Take a node in, as every scheduler does first."""
        said = await self.next("node_register")
        await self.send({"type": "node_register_ack", "node_id": node_id, "message": "", "status": "registering"})
        return said

    async def assign(self, serial: int, **more: object) -> Frame:
        job: Frame = {
            "type": "job_assign",
            "job_id": f"job-0-{serial}",
            "attempt_id": 1,
            "session_id": "s-00000001",
            "utterance_index": serial,
            "src_lang": "en",
            "tgt_lang": "zh",
            "pipeline": {"use_asr": True, "use_nmt": True, "use_tts": True, "use_semantic": True, "use_tone": False},
            "audio": "AAEAAQ==",
            "audio_format": "pcm16",
            "sample_rate": 16000,
            "enable_streaming_asr": False,
            "partial_update_interval_ms": 1000,
            "trace_id": "t",
            "turn_id": "turn-1",
        }
        await self.send(job | more)
        return job | more

    async def grant(self, verdict: str = "granted") -> Frame:
        """Answer the next node that asks whether it may start."""
        ack = await self.next("job_ack")
        answer = {"job_id": ack["job_id"], "attempt_id": ack["attempt_id"], "verdict": verdict}
        await self.send({"type": "job_grant"} | answer)
        return ack


class FakeScheduler:
    def __init__(self) -> None:
        self.port = 0
        # What it answers instead of opening a WebSocket, one after the other; and with what each caller showed itself.
        self.refusals: list[web.Response] = []
        self.shown: list[str | None] = []
        self.calls: list[Call] = []
        self._waiting: asyncio.Queue[Call] = asyncio.Queue()

    async def call(self, within_s: float = PATIENCE_S) -> Call:
        """The next connection somebody makes."""
        async with asyncio.timeout(within_s):
            return await self._waiting.get()

    async def welcome(self, session_id: str) -> Call:
        """The next connection, a client's, with this session."""
        call = await self.call()
        await call.next("session_init")
        await call.send({"type": "session_init_ack", "session_id": session_id, "use_binary_frame": False})
        return call

    async def handle(self, request: web.Request) -> web.StreamResponse:
        assert not request.query_string
        self.shown.append(request.headers.get("Authorization"))
        if self.refusals:
            return self.refusals.pop(0)
        socket = web.WebSocketResponse(max_msg_size=0)
        await socket.prepare(request)
        transport = request.transport
        assert transport is not None
        call = Call(socket, transport)
        self.calls.append(call)
        self._waiting.put_nowait(call)
        await call.listen()
        return socket


@asynccontextmanager
async def fake_scheduler() -> AsyncIterator[FakeScheduler]:
    scheduler = FakeScheduler()
    app = web.Application()
    app.router.add_get("/ws/node", scheduler.handle)
    app.router.add_get("/ws/session", scheduler.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    scheduler.port = runner.addresses[0][1]
    try:
        yield scheduler
    finally:
        for call in scheduler.calls:
            call.drop()
        await runner.cleanup()
