"""A node: connects, registers its abilities, processes jobs, reconnects after interruptions, and stops gracefully."""

import asyncio
import contextlib
import logging
import random
import secrets
import shutil
import signal
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Protocol, runtime_checkable

import aiohttp

from lingua_scheduler.domain.errors import HttpCode
from lingua_scheduler.domain.guards.backoff import Backoff
from lingua_scheduler.protocol import codec
from lingua_scheduler.protocol.node import (
    JobAssign,
    JobCancel,
    JobGrant,
    NodeControl,
    NodeRegisterAck,
    ResourceUsage,
    ResultAck,
)
from lingua_scheduler.protocol.shapes import ErrorMessage, Message
from lingua_scheduler.sdk import load, portrait
from lingua_scheduler.sdk.access import Access, AccessDenied, Token, retry_after_s
from lingua_scheduler.sdk.address import Addresses, BadAddress
from lingua_scheduler.sdk.audio import Audio
from lingua_scheduler.sdk.checks import must_be_abilities
from lingua_scheduler.sdk.engines import (
    Abilities,
    Engine,
    EngineRefused,
    Identifier,
    ModelNotAvailable,
    Partial,
    Recogniser,
    Repairer,
    Service,
    Speaker,
    Translation,
    Translator,
    Unsupported,
)
from lingua_scheduler.sdk.failures import BrokenContract, description_of, whole_description_of
from lingua_scheduler.sdk.jobs import MAX_KEPT_RESULTS, NodeJobs, Tell
from lingua_scheduler.sdk.pipeline import PassThrough, Pipeline
from lingua_scheduler.sdk.time_limits import more_time
from lingua_scheduler.sdk.watching import trouble_of

__all__ = [
    "MAX_KEPT_RESULTS",
    "Abilities",
    "AccessDenied",
    "Audio",
    "BadAddress",
    "BrokenContract",
    "Engine",
    "EngineRefused",
    "Identifier",
    "ModelNotAvailable",
    "Node",
    "Partial",
    "PassThrough",
    "Pipeline",
    "Recogniser",
    "Repairer",
    "Service",
    "Speaker",
    "Token",
    "Translation",
    "Translator",
    "Unsupported",
    "more_time",
    "run_node",
]

# Full jitter, so that a fleet does not come back all at once.
RECONNECTS = Backoff(0.2, 5.0, jitter=1.0)
# How often a node asks whether it has been approved.
APPROVAL_S = 5.0
# A frozen process accepts connections but sends nothing.
CONNECT_WITHIN_S = 10.0
# A connection that does not answer a ping within half of this again leads nowhere.
PING_EVERY_S = 6.0
# Maximum wait for the close frame of the peer.
_CLOSING = aiohttp.ClientWSTimeout(ws_close=2.0)
# Running jobs may take this long when the node is asked to leave, and then their results to be acknowledged.
FINISH_WITHIN_S = 30.0
ACKNOWLEDGED_WITHIN_S = 2.0
# The logger of events for which no `on_event` was given; failures of the engine are errors.
_LOGGER = logging.getLogger("lingua.node")
_LEVELS = {"engine failed": logging.ERROR} | dict.fromkeys(
    ("engine refused", "refused", "job given up", "away", "error", "quarantined"), logging.WARNING
)
NOTHING = Abilities((), (), (), translates=(), slots=0)


@runtime_checkable
class Describes(Protocol):
    """An engine that knows what it can do now, as a `Pipeline` does."""

    def abilities(self) -> Abilities: ...


class Node:
    """One node of one scheduler; `run` ends only when `stop` is called, `serve` also at SIGTERM and Ctrl-C.

    `abilities` may be left out when the engine has a method of that name, which is asked for every heartbeat.
    Of several addresses, all of one scheduler's instances, the first that takes the node in is used until it fails.
    `token` is a key or a token, or an async function that fetches one and is asked before each connect; by default what
    LINGUA_KEY or the file LINGUA_KEY_FILE has. If it is refused, both raise AccessDenied.
    """

    def __init__(
        self,
        address: str | Sequence[str],
        engine: Engine,
        abilities: Abilities | None = None,
        *,
        node_id: str | None = None,
        heartbeat_interval_s: float = 3.0,
        on_event: Tell | None = None,
        token: Token = None,
    ) -> None:
        self._access = Access(token)
        self._addresses = Addresses(address, "/ws/node")
        self._engine = engine
        self._given = abilities
        if abilities is None and not isinstance(engine, Describes):
            raise TypeError("missing abilities: use Node(address, engine, Abilities(…)), or pass a Pipeline")
        self._identity = portrait.Identity(node_id, secrets.token_hex(8), heartbeat_interval_s)
        if abilities is not None:
            must_be_abilities(abilities)
        self._tell = on_event or _log
        self._jobs = NodeJobs(engine, self._send, self._tell)
        self._processors = load.Processors()
        self._has_gpu = shutil.which("nvidia-smi") is not None
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        # A job whose audio comes in the next frame.
        self._waits_for_audio: JobAssign | None = None
        self._leaving = asyncio.Event()
        self._was_registered = False
        self._is_loaded = False
        self.is_draining = False

    @property
    def node_id(self) -> str | None:
        """Until the scheduler gives one: None, if none was given."""
        return self._identity.node_id

    @property
    def jobs_done(self) -> int:
        return self._jobs.done

    @property
    def engine(self) -> Engine:
        return self._engine

    @property
    def given_abilities(self) -> Abilities | None:
        """None: the engine is asked."""
        return self._given

    async def load(self) -> None:
        """Load the engine's models, if it has a method `load`. The node connects afterwards, so no job comes before."""
        if not self._is_loaded and callable(load := getattr(self._engine, "load", None)):
            self._tell("loading", self._engine.name)
            try:
                await load()
            except Exception as error:
                self._tell("engine failed", f"load: {whole_description_of(error)}")
                raise
            self._tell("loaded", self._engine.name)
        self._is_loaded = True

    async def run(self) -> None:
        """Load, then stay connected."""
        failures = 0
        loading = asyncio.create_task(self.load())
        leaving = asyncio.create_task(self._leaving.wait())
        try:
            await asyncio.wait((loading, leaving), return_when=asyncio.FIRST_COMPLETED)
            if loading.done():
                loading.result()
            async with self._access.session() as http:
                while not self._leaving.is_set():
                    self._was_registered = False
                    asked_s = 0.0
                    try:
                        await self._converse(http)
                    except (aiohttp.ClientError, OSError, TimeoutError) as error:
                        self._tell("away", why_away(error, self._addresses.place))
                        asked_s = retry_after_s(error)
                    except AccessDenied as denied:
                        if denied.code != HttpCode.NODE_NOT_APPROVED:
                            raise
                        self._tell("waiting", denied.detail)
                        asked_s = APPROVAL_S
                    if self._was_registered:
                        failures = 0
                    else:
                        self._addresses.turn()
                    if self._leaving.is_set():
                        break
                    failures += 1
                    pause_s = asked_s + RECONNECTS.pause_s(failures, random.random())
                    await _first_of(self._leaving.wait(), pause_s)
        finally:
            loading.cancel()
            leaving.cancel()
            self._jobs.abandon()

    async def serve(self, finish_within_s: float = FINISH_WITHIN_S) -> None:
        """`run` until SIGTERM or SIGINT: the first lets running jobs finish, a second leaves at once."""
        loop = asyncio.get_running_loop()
        asked = asyncio.Event()
        tasks: list[asyncio.Task[None]] = [asyncio.create_task(self.run())]

        def ask() -> None:
            running = len(self._jobs.running_ids)
            if asked.is_set():
                self._tell("stopping", "at once, because of a second signal")
            else:
                self._tell("stopping", f"{running} running jobs finish first" if running else "no job is running")
            tasks.append(asyncio.create_task(self.stop(0 if asked.is_set() else finish_within_s)))
            asked.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, ask)
        try:
            await tasks[0]  # raises the exception that ended it
            await asyncio.wait(tasks)
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
            for task in tasks:
                task.cancel()

    async def drain(self) -> None:
        """Take no more jobs; running jobs continue, and the node stays connected."""
        if not self.is_draining:
            self._tell("draining", f"{len(self._jobs.running_ids)} jobs are still running")
            await self._take_no_more()

    async def resume(self) -> None:
        """Take jobs again."""
        if self.is_draining:
            self.is_draining = False
            self._tell("resumed", "")
            await self._introduce()

    async def stop(self, finish_within_s: float = 10.0) -> None:
        """Finish running jobs, see their results arrive, then leave."""
        give_up_at_s = time.monotonic() + finish_within_s
        if not self._jobs.is_idle:
            await self.drain()
        await self._take_no_more()
        await self._jobs.finished(finish_within_s)
        # Results that were on their way when a connection broke are sent again on the next one.
        acknowledged_by_s = min(give_up_at_s, time.monotonic() + ACKNOWLEDGED_WITHIN_S)
        while self._jobs.unacknowledged and time.monotonic() < (acknowledged_by_s if self._socket else give_up_at_s):
            await asyncio.sleep(0.01)
        self._leaving.set()
        self._jobs.abandon()
        if self._socket is not None:
            await self._socket.close()

    async def _take_no_more(self) -> None:
        if not self.is_draining:
            self.is_draining = True
            await self._introduce()

    async def _converse(self, http: aiohttp.ClientSession) -> None:
        async with asyncio.timeout(CONNECT_WITHIN_S):
            socket = await self._access.connect(
                http, self._addresses.url, max_msg_size=0, heartbeat=PING_EVERY_S, timeout=_CLOSING
            )
        async with socket:
            self._socket = socket
            self._waits_for_audio = None
            beating: asyncio.Task[None] | None = None
            try:
                if self._leaving.is_set():
                    return
                await self._introduce()
                async for frame in socket:
                    message = await self._read(frame)
                    if isinstance(message, NodeRegisterAck):
                        await self._registered(message)
                        beating = beating or asyncio.create_task(self._keep_beating())
                    else:
                        await self._take(message)
                self._access.must_not_be_dismissed(socket.close_code)
                if not self._leaving.is_set():
                    self._tell("away", f"the scheduler closed the connection ({socket.close_code})")
            finally:
                self._socket = None
                if beating is not None:
                    beating.cancel()

    async def _read(self, frame: aiohttp.WSMessage) -> Message | None:
        """The message of a frame, with its audio; None when there is none (yet)."""
        waiting, self._waits_for_audio = self._waits_for_audio, None
        if frame.type is aiohttp.WSMsgType.BINARY and waiting is not None:
            waiting.audio = frame.data
            return waiting
        if waiting is not None:
            await self._take(waiting)  # it has none
        if frame.type is not aiohttp.WSMsgType.TEXT:
            return None
        try:
            message = codec.decode_for_node(frame.data)
        except codec.UnreadableFrame as error:
            self._tell("error", f"a frame of the scheduler is unreadable: {error}")
            return None
        if isinstance(message, JobAssign) and not message.audio and not message.audio_ref:
            self._waits_for_audio = message
            return None
        return message

    async def _registered(self, ack: NodeRegisterAck) -> None:
        self._identity = self._identity._replace(node_id=ack.node_id)
        self._jobs.node_id = ack.node_id
        if not self._was_registered:
            self._was_registered = True
            self._tell("registered", ack.node_id)
            # Results first: the heartbeat does not list their jobs any more.
            for result in self._jobs.unacknowledged:
                await self._send(result)
        await self._beat()

    async def _take(self, message: Message | None) -> None:
        match message:
            case JobAssign():
                await self._jobs.assigned(message, 0 if self.is_draining else self._abilities().slots)
            case JobGrant():
                self._jobs.granted(message)
            case ResultAck():
                self._jobs.acknowledged(message)
            case JobCancel():
                self._jobs.cancel(message.job_id, message.reason)
            case NodeControl(command="drain"):
                await self.drain()
            case NodeControl(command="resume"):
                await self.resume()
            case NodeControl(command="quarantined" | "recovered"):
                self._tell(message.command, (message.reason or "")[:300])
            case NodeControl():
                self._tell("error", f"unknown command of the scheduler: {message.command[:32]!r}")
            case ErrorMessage():
                self._tell("error", f"{message.code}: {message.message}")

    async def _introduce(self) -> None:
        running = self._jobs.running_ids
        takes_jobs = not self.is_draining
        await self._send(
            portrait.registration(self._identity, self._engine.name, self._abilities(), running, takes_jobs)
        )

    async def _keep_beating(self) -> None:
        while True:
            await asyncio.sleep(self._identity.heartbeat_interval_s)
            await self._beat()

    async def _beat(self) -> None:
        gpu = await asyncio.to_thread(load.gpu) if self._has_gpu else None
        usage = ResourceUsage(
            cpu_percent=self._processors.percent(),
            mem_percent=load.memory_percent(),
            running_jobs=len(self._jobs.running_ids),
            gpu_percent=gpu.percent if gpu else None,
            gpu_mem_percent=gpu.memory_percent if gpu else None,
        )
        running = self._jobs.running_ids
        await self._send(portrait.heartbeat(self._identity, self._engine.name, self._abilities(), running, usage))

    def _abilities(self) -> Abilities:
        """What the engines can do now."""
        if self._given is not None:
            return self._given
        assert isinstance(self._engine, Describes)
        try:
            return self._engine.abilities()
        except Exception as error:
            # An engine that cannot even say what it can do gets no work, and may recover.
            self._tell("engine failed", f"abilities: {description_of(error)}")
            return NOTHING

    async def _send(self, message: Message) -> None:
        """Best effort: what matters is kept and sent again after a reconnect."""
        socket = self._socket
        if socket is None or socket.closed:
            return
        with contextlib.suppress(ConnectionError, aiohttp.ClientError):
            await socket.send_str(codec.encode(message).decode())


def why_away(error: Exception, place: str) -> str:
    """Why there is no connection, in words for the node's log."""
    if isinstance(error, aiohttp.WSServerHandshakeError):
        return f"{place} answered HTTP {error.status} and opened no WebSocket"
    trouble = trouble_of(error)
    if trouble.is_absent:
        return f"no scheduler answers at {place} ({trouble.reason})"
    return f"{place} cannot be used: {trouble.reason}; {trouble.advice}"


def run_node(node: Node) -> None:
    """Serve until SIGTERM or Ctrl-C; for a script's last line."""
    if caught := _CAUGHT.get():
        caught(node)
        return
    asyncio.run(node.serve())


@contextlib.contextmanager
def catching(caught: Callable[[Node], None]) -> Iterator[None]:
    """While a file is only looked at, `run_node` hands its node to `caught` and does not serve."""
    token = _CAUGHT.set(caught)
    try:
        yield
    finally:
        _CAUGHT.reset(token)


_CAUGHT: ContextVar[Callable[[Node], None] | None] = ContextVar("caught", default=None)


def _log(event: str, detail: str) -> None:
    """Without `on_event`: failures and warnings are shown by Python's logging even if it is not configured."""
    _LOGGER.log(_LEVELS.get(event, logging.INFO), "%s: %s", event, detail)


async def _first_of(wait: Awaitable[object], timeout_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.ensure_future(wait), timeout_s)
