"""A node: connects, registers its abilities, processes jobs, reconnects after interruptions, and stops gracefully."""

import asyncio
import contextlib
import logging
import random
import secrets
import shutil
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Protocol, runtime_checkable

from lingua_sdk import load, portrait
from lingua_sdk.access import Access, AccessDenied, Token, TokenNotFetched
from lingua_sdk.address import Addresses, BadAddress
from lingua_sdk.audio import Audio
from lingua_sdk.checks import must_be_abilities
from lingua_sdk.domain.backoff import Backoff
from lingua_sdk.domain.errors import HttpCode
from lingua_sdk.engines import (
    Abilities,
    Engine,
    EngineRefused,
    Identifier,
    JobOutput,
    ModelNotAvailable,
    Recogniser,
    Repairer,
    Service,
    ShowPartial,
    Speaker,
    Translator,
    Unsupported,
)
from lingua_sdk.failures import BrokenContract, description_of, whole_description_of
from lingua_sdk.jobs import MAX_KEPT_RESULTS, NodeJobs, Tell
from lingua_sdk.pipeline import PassThrough, Pipeline
from lingua_sdk.protocol import codec
from lingua_sdk.protocol.node import (
    JobAssign,
    JobCancel,
    JobGrant,
    NodeControl,
    NodeRegisterAck,
    ResourceUsage,
    ResultAck,
)
from lingua_sdk.protocol.shapes import ErrorMessage, Message
from lingua_sdk.signals import calling_at_signals
from lingua_sdk.time_limits import more_time
from lingua_sdk.tls import ClientTls
from lingua_sdk.trouble import Failures, UnwantedStatus, retry_after_s, trouble_of
from lingua_sdk.websocket import WebSocket

__all__ = [
    "MAX_KEPT_RESULTS",
    "Abilities",
    "AccessDenied",
    "Audio",
    "BadAddress",
    "BrokenContract",
    "ClientTls",
    "Engine",
    "EngineRefused",
    "Identifier",
    "JobOutput",
    "ModelNotAvailable",
    "Node",
    "PassThrough",
    "Pipeline",
    "Recogniser",
    "Repairer",
    "Service",
    "ShowPartial",
    "Speaker",
    "Token",
    "Translator",
    "Unsupported",
    "more_time",
    "run_node",
]

# Names of before release 0.2, which are those of what clients get.
_FORMER: dict[str, Any] = {"Partial": ShowPartial, "Translation": JobOutput}

# Full jitter, so that a fleet does not come back all at once.
RECONNECTS = Backoff(0.2, 5.0, jitter=1.0)
# How often a node asks whether it has been approved.
APPROVAL_S = 5.0
# A frozen process accepts connections but sends nothing.
CONNECT_WITHIN_S = 10.0
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
    LINGUA_KEY or the file LINGUA_KEY_FILE has. If it is refused or revoked, both raise AccessDenied.
    `tls` names a private certificate authority, or a certificate of the node, which is then its credential: token="".
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
        tls: ClientTls | None = None,
    ) -> None:
        self._access = Access(token, tls)
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
        self._socket: WebSocket | None = None
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
            while not self._leaving.is_set():
                self._was_registered = False
                asked_s = 0.0
                try:
                    await self._converse()
                except Failures as error:
                    self._tell("away", why_away(error, self._addresses.place))
                    asked_s = retry_after_s(error)
                except TokenNotFetched as error:
                    # A node outlives a failure of the backend that makes its tokens, as one of the scheduler.
                    self._tell("away", error.detail)
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

        try:
            with calling_at_signals(ask):
                await tasks[0]  # raises the exception that ended it
                await asyncio.wait(tasks)
        finally:
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

    async def _converse(self) -> None:
        socket = await self._access.connect(self._addresses.url, CONNECT_WITHIN_S)
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

    async def _read(self, frame: str | bytes) -> Message | None:
        """The message of a frame, with its audio; None when there is none (yet)."""
        waiting, self._waits_for_audio = self._waits_for_audio, None
        if isinstance(frame, bytes) and waiting is not None:
            waiting.audio = frame
            return waiting
        if waiting is not None:
            await self._take(waiting)  # it has none
        if isinstance(frame, bytes):
            return None
        try:
            message = codec.decode_for_node(frame)
        except codec.UnreadableFrame as error:
            self._tell("error", f"a frame of the scheduler is unreadable: {error}")
            return None
        if isinstance(message, JobAssign) and _has_audio_apart(message):
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
        if socket is None or socket.is_closed:
            return
        with contextlib.suppress(ConnectionError):
            await socket.send(codec.encode(message))


def _has_audio_apart(job: JobAssign) -> bool:
    """Whether its audio comes in a frame of its own."""
    return not job.audio and not job.audio_ref and job.text_input is None


def why_away(error: Exception, place: str) -> str:
    """Why there is no connection, in words for the node's log."""
    if isinstance(error, UnwantedStatus):
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


def __getattr__(name: str) -> Any:
    """Former names, until release 0.3."""
    if (found := _FORMER.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    now = "ShowPartial" if found is ShowPartial else found.__name__
    warnings.warn(f"{__name__}.{name} is now {now}", DeprecationWarning, stacklevel=2)
    return found


async def _first_of(wait: Awaitable[object], timeout_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.ensure_future(wait), timeout_s)
