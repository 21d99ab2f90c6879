"""The existing node with default configuration: one GPU, no acknowledgements, a memory as long as its process."""

import asyncio
import json
import time
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

import aiohttp

from tests.support import field_frames
from tests.support.field_mind import Mind, heard_in
from tests.support.field_sockets import abort, url_of
from tests.support.field_speech import Heard
from tests.support.peers import Frame
from tests.support.waiting import until

HEARTBEAT_S = 15.0
# After a drop; doubles up to the second.
RECONNECT_S = (5.0, 60.0)
SILENCE_S = 0.02
Speed = float | Callable[[Frame], float]


class Answered(NamedTuple):
    """A result, when it was ready, and whether a socket was there to carry it."""

    at: float
    frame: Frame
    is_lost: bool


class FieldNode:
    """One process of a node. `speed`: seconds a second of audio takes, or a function of the job.

    A second process is another object. Cut with `cut()`; it comes back by itself, with its id and its memory."""

    def __init__(
        self,
        port: int,
        speed: Speed = 0.02,
        *,
        languages: tuple[str, ...] = field_frames.LANGUAGES,
        mind: Mind | None = None,
        heartbeat_s: float = HEARTBEAT_S,
        reconnect_s: tuple[float, float] = RECONNECT_S,
        credential: str = "",
    ) -> None:
        self.port = port
        self.credential = credential
        self.speed = speed
        self.mind = mind or Mind()
        self.node_id: str | None = None
        self.jobs: list[Frame] = []
        self.cancelled: list[Frame] = []
        self.answered: list[Answered] = []
        self.said: list[Frame] = []
        self.heard: list[Frame] = []
        self.arrived: dict[str, float] = {}
        self.connections = 0
        # HTTP statuses of refused handshakes, and the pauses before each further try.
        self.refusals: list[int] = []
        self.pauses_s: list[float] = []
        self._languages = languages
        self._heartbeat_s = heartbeat_s
        self._reconnect_s = reconnect_s
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._gpu = asyncio.Lock()
        self.running_jobs = 0
        self._waiting = 0
        self._forced_queue = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_connected(self) -> bool:
        return self._socket is not None

    @property
    def results(self) -> list[Frame]:
        """What it sent, without what was lost."""
        return [answer.frame for answer in self.answered if not answer.is_lost]

    def answered_at(self, job_id: str) -> float:
        return next(answer.at for answer in self.answered if answer.frame["job_id"] == job_id)

    def speech_jobs(self) -> list[Frame]:
        """Jobs in which something is said."""
        return [job for job in self.jobs if heard_in(job).words]

    def text_of(self, job: Frame) -> str:
        return heard_in(job).text

    async def start(self, within_s: float = 30.0) -> "FieldNode":
        """Returns when it is registered."""
        self.open()
        await until(lambda: self.is_connected, within_s, "the node registered")
        return self

    def open(self) -> None:
        self._spawn(self._live())

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def report_queue(self, length: int) -> None:
        """Say now that this many jobs wait for its GPU, whatever really does."""
        self._forced_queue = length
        await self.beat()

    def cut(self) -> None:
        """The socket is gone without a word; what is being computed will be lost."""
        abort(self._socket)

    async def _live(self) -> None:
        shortest, longest = self._reconnect_s
        delay = shortest
        async with aiohttp.ClientSession() as http:
            while True:
                try:
                    # Recorded: it replaces the word wherever it stands, also in a credential.
                    configured = url_of(self.port, "/ws/node", self.credential, host="localhost")
                    url = configured.replace("localhost", "127.0.0.1")
                    async with http.ws_connect(url, max_msg_size=0) as socket:
                        delay = shortest
                        await self._attend(socket)
                except aiohttp.WSServerHandshakeError as refused:
                    self.refusals.append(refused.status)
                except (aiohttp.ClientError, OSError):
                    pass
                finally:
                    self._socket = None
                self.pauses_s.append(delay)
                await asyncio.sleep(delay)
                delay = min(longest, 2 * delay)

    async def _attend(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.connections += 1
        beating = None
        await self._send(socket, field_frames.registration(self.node_id, self._languages))
        try:
            async for frame in socket:
                if frame.type is not aiohttp.WSMsgType.TEXT:
                    continue
                message = json.loads(frame.data)
                self.heard.append(message)
                match message["type"]:
                    case "node_register_ack":
                        self.node_id = message["node_id"]
                        self._socket = socket
                        beating = self._spawn(self._beat_on())
                    case "job_assign":
                        self._take(socket, message)
                    case "job_cancel":
                        # Recorded: what is queued is computed all the same.
                        self.cancelled.append(message)
        finally:
            if beating is not None:
                beating.cancel()

    async def _beat_on(self) -> None:
        while True:
            await self.beat()
            await asyncio.sleep(self._heartbeat_s)

    async def beat(self) -> None:
        """Say now how it is, as it also does when its models change."""
        if self._socket is None or self.node_id is None:
            return
        usage: Frame = {"running_jobs": self.running_jobs}
        if queue := self._forced_queue or self._waiting:
            usage["gpu_queue_length"] = queue
        now_ms = int(time.time() * 1000)
        worked = bool(self.answered)
        beat = field_frames.heartbeat(self.node_id, self._languages, usage, now_ms, has_worked=worked)
        await self._send(self._socket, beat)

    def _take(self, socket: aiohttp.ClientWebSocketResponse, job: Frame) -> None:
        assert self.node_id is not None
        self.jobs.append(job)
        self.arrived.setdefault(job["job_id"], time.monotonic())
        if refused := self.mind.refusal(job, self.node_id):
            self._spawn(self._answer(socket, [refused]))
        elif (collected := self.mind.collect(job)) is not None:
            self._spawn(self._work(socket, job, collected))

    async def _work(self, socket: aiohttp.ClientWebSocketResponse, job: Frame, collected: Heard) -> None:
        assert self.node_id is not None
        began = time.monotonic()
        self.running_jobs += 1
        try:
            if collected.words:
                await self._use_gpu(self._seconds(job, collected))
            else:
                # Recorded: silence is found out before the GPU is needed, and overtakes speech.
                await asyncio.sleep(SILENCE_S)
        finally:
            self.running_jobs -= 1
        spent_ms = round(1000 * (time.monotonic() - began))
        await self._answer(socket, self.mind.answers(job, collected, self.node_id, spent_ms))

    async def _use_gpu(self, seconds: float) -> None:
        self._waiting += 1
        try:
            await self._gpu.acquire()
        finally:
            self._waiting -= 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self._gpu.release()

    def _seconds(self, job: Frame, collected: Heard) -> float:
        return self.speed(job) if callable(self.speed) else self.speed * collected.duration_ms / 1000

    async def _answer(self, socket: aiohttp.ClientWebSocketResponse, answers: list[Frame]) -> None:
        for frame in answers:
            # A result belongs to the socket its job came by.
            is_lost = socket.closed or socket is not self._socket
            self.answered.append(Answered(time.monotonic(), frame, is_lost))
            if not is_lost:
                await self._send(socket, frame)

    async def _send(self, socket: aiohttp.ClientWebSocketResponse, frame: Frame) -> None:
        self.said.append(frame)
        await socket.send_str(json.dumps(frame, ensure_ascii=False))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
