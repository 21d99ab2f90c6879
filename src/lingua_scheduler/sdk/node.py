"""A node: dials in, says what it can do, works on jobs, comes back after every interruption."""

import asyncio
import base64
import os
import platform
import random
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Protocol

import aiohttp

from lingua_scheduler.protocol import codec
from lingua_scheduler.protocol.node import (
    AsrPartial,
    Hardware,
    JobAck,
    JobAssign,
    JobCancel,
    JobGrant,
    JobResult,
    JobStarted,
    LanguageCapabilities,
    NodeHeartbeat,
    NodeRegister,
    NodeRegisterAck,
    ResourceUsage,
    ResultAck,
)
from lingua_scheduler.protocol.shapes import CapabilityByType, ErrorMessage, InstalledService, JobError, Message
from lingua_scheduler.sdk.address import Addresses
from lingua_scheduler.sdk.tracing import job_span

FIRST_RETRY_S = 0.2
LAST_RETRY_S = 15.0
# A process that is frozen takes connections and says nothing.
CONNECT_WITHIN_S = 10.0
# Results kept until the scheduler has them; one that is not acknowledged by then is of no use any more.
MAX_KEPT_RESULTS = 64


class Translation(NamedTuple):
    """What an engine made of an utterance. Empty `text_source` means that nothing was said."""

    text_source: str
    text_translated: str = ""
    speech: bytes = b""
    speech_format: str = "pcm16"


class Engine(Protocol):
    """What a node does with a job. `partial` shows what was understood so far."""

    name: str

    async def translate(self, job: JobAssign, partial: Callable[[str], None]) -> Translation: ...


class Abilities(NamedTuple):
    recognises: Sequence[str]
    repairs: Sequence[str]
    speaks: Sequence[str]
    # None: any pair of the languages above.
    translates: Sequence[tuple[str, str]] | None = None
    slots: int = 4


class Node:
    """One node of one scheduler; `run` ends only when `stop` is called.

    Of several addresses, all of one scheduler's instances, the first that takes the node in is used until it fails.
    """

    def __init__(
        self,
        address: str | Sequence[str],
        engine: Engine,
        abilities: Abilities,
        *,
        node_id: str | None = None,
        heartbeat_interval_s: float = 3.0,
        on_event: Callable[[str, str], None] | None = None,
    ) -> None:
        self.node_id = node_id
        self._addresses = Addresses(address, "/ws/node")
        self._engine = engine
        self._abilities = abilities
        self._heartbeat_interval_s = heartbeat_interval_s
        self._tell = on_event or _say_nothing
        self._boot_id = secrets.token_hex(8)
        # What takes a slot, and what is still to be waited for: a job that is over sends its result.
        self._running: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._grants: dict[str, asyncio.Future[bool]] = {}
        self._kept: dict[str, JobResult] = {}
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._stopping = asyncio.Event()
        self._was_registered = False
        self.jobs_done = 0

    async def run(self) -> None:
        """Stay connected: full jitter, so that a fleet does not come back all at once."""
        retry_s = FIRST_RETRY_S
        async with aiohttp.ClientSession() as http:
            while not self._stopping.is_set():
                self._was_registered = False
                try:
                    await self._converse(http)
                except (aiohttp.ClientError, OSError, TimeoutError) as error:
                    self._tell("away", str(error) or type(error).__name__)
                if self._was_registered:
                    retry_s = FIRST_RETRY_S
                else:
                    self._addresses.turn()
                if self._stopping.is_set():
                    break
                await _first_of(self._stopping.wait(), random.uniform(0, retry_s))
                retry_s = min(retry_s * 2, LAST_RETRY_S)

    async def stop(self, finish_within_s: float = 10.0) -> None:
        """Finish running jobs, then leave."""
        self._stopping.set()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=finish_within_s)
        for task in list(self._tasks):
            task.cancel()
        if self._socket is not None:
            await self._socket.close()

    async def _converse(self, http: aiohttp.ClientSession) -> None:
        async with asyncio.timeout(CONNECT_WITHIN_S):
            socket = await http.ws_connect(self._addresses.url, max_msg_size=0, heartbeat=20)
        async with socket:
            self._socket = socket
            beating: asyncio.Task[None] | None = None
            try:
                if self._stopping.is_set():
                    return
                await self._send(self._registration())
                async for frame in socket:
                    if frame.type is not aiohttp.WSMsgType.TEXT:
                        continue
                    try:
                        message = codec.decode_for_node(frame.data)
                    except codec.UnreadableFrame as error:
                        self._tell("error", f"a frame of the scheduler is unreadable: {error}")
                        continue
                    if isinstance(message, NodeRegisterAck):
                        self._was_registered = True
                        self.node_id = message.node_id
                        self._tell("registered", message.node_id)
                        # Results first: the heartbeat does not list their jobs any more.
                        for result in list(self._kept.values()):
                            await self._send(result)
                        await self._beat()
                        beating = beating or asyncio.create_task(self._keep_beating())
                    else:
                        await self._take(message)
                if not self._stopping.is_set():
                    self._tell("away", f"the scheduler closed the connection ({socket.close_code})")
            finally:
                self._socket = None
                if beating is not None:
                    beating.cancel()

    async def _take(self, message: Message | None) -> None:
        match message:
            case JobAssign():
                await self._assigned(message)
            case JobGrant():
                if message.verdict == "stale":
                    self._kept.pop(message.job_id, None)
                grant = self._grants.get(message.job_id)
                if grant is not None and not grant.done():
                    grant.set_result(message.verdict == "granted")
            case ResultAck():
                self._kept.pop(message.job_id, None)
            case JobCancel():
                task = self._running.get(message.job_id)
                if task is not None:
                    task.cancel()
            case ErrorMessage():
                self._tell("error", f"{message.code}: {message.message}")

    async def _assigned(self, job: JobAssign) -> None:
        if job.job_id in self._running:
            return
        if len(self._running) >= self._abilities.slots or self._stopping.is_set():
            # Our own cap holds, whatever the scheduler believes.
            await self._send(self._failure(job, "NODE_OVERLOADED", "all slots are taken", started=time.monotonic()))
            return
        task = asyncio.create_task(self._work(job))
        self._running[job.job_id] = task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # One that is cancelled before its first step never gets to its end.
        task.add_done_callback(lambda _: self._let_go(job, task))

    def _let_go(self, job: JobAssign, task: "asyncio.Task[None] | None") -> None:
        if self._running.get(job.job_id) is task:
            del self._running[job.job_id]

    async def _work(self, job: JobAssign) -> None:
        try:
            result = await self._result(job)
        finally:
            # Over before the result leaves: a heartbeat behind it must not claim the slot again.
            self._let_go(job, asyncio.current_task())
        if result is None:
            return
        self.jobs_done += 1
        while len(self._kept) >= MAX_KEPT_RESULTS:
            self._kept.pop(next(iter(self._kept)))
        self._kept[job.job_id] = result
        await self._send(result)

    async def _result(self, job: JobAssign) -> JobResult | None:
        """Do the work; None when it must not start."""
        if not await self._may_start(job):
            return None
        started = time.monotonic()
        await self._send(JobStarted(**self._about(job)))

        partials: list[asyncio.Future[None]] = []

        def partial(text: str) -> None:
            note = AsrPartial(
                job_id=job.job_id,
                node_id=self.node_id or "",
                session_id=job.session_id,
                utterance_index=job.utterance_index,
                text=text,
                is_final=False,
                trace_id=job.trace_id,
            )
            partials.append(asyncio.ensure_future(self._send(note)))

        try:
            with job_span(job, self.node_id or ""):
                translation = await self._engine.translate(job, partial)
            result = self._success(job, translation, started)
        except Exception as error:
            # A crashing engine fails one job, not the node.
            self._tell("engine failed", f"{type(error).__name__}: {error}")
            result = self._failure(job, "PROCESSING_ERROR", f"the engine failed: {type(error).__name__}", started)
        # A result must not overtake what was understood on the way to it.
        await asyncio.gather(*partials)
        return result

    async def _may_start(self, job: JobAssign) -> bool:
        """Ask before starting: an assignment that waited in a buffer past its lease is somebody else's by now."""
        grant: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._grants[job.job_id] = grant
        try:
            await self._send(JobAck(**self._about(job)))
            async with asyncio.timeout((job.start_within_ms or 5_000) / 1000):
                return await grant
        except TimeoutError:
            return False
        finally:
            del self._grants[job.job_id]

    async def _keep_beating(self) -> None:
        while True:
            await asyncio.sleep(self._heartbeat_interval_s)
            await self._beat()

    async def _beat(self) -> None:
        await self._send(
            NodeHeartbeat(
                node_id=self.node_id or "",
                timestamp=int(time.time() * 1000),
                resource_usage=ResourceUsage(
                    cpu_percent=round(min(100.0, os.getloadavg()[0] / (os.cpu_count() or 1) * 100), 1),
                    mem_percent=0.0,
                    running_jobs=len(self._running),
                ),
                installed_services=self._services(),
                capability_by_type=self._readiness(),
                language_capabilities=self._languages(),
                running_job_ids=list(self._running),
                max_concurrent_jobs=self._abilities.slots,
                heartbeat_interval_ms=int(self._heartbeat_interval_s * 1000),
            )
        )

    async def _send(self, message: Message) -> None:
        """Best effort: what matters is kept and sent again after a reconnect."""
        socket = self._socket
        if socket is None or socket.closed:
            return
        try:
            await socket.send_str(codec.encode(message).decode())
        except (ConnectionError, aiohttp.ClientError):
            return

    def _registration(self) -> NodeRegister:
        return NodeRegister(
            node_id=self.node_id,
            version="2.0.0",
            capability_schema_version="2.0",
            platform=platform.system().lower(),
            hardware=Hardware(cpu_cores=os.cpu_count() or 1, memory_gb=_memory_gb()),
            installed_models=[],
            installed_services=self._services(),
            capability_by_type=self._readiness(),
            features_supported={},
            advanced_features=["job_ack"],
            accept_public_jobs=True,
            language_capabilities=self._languages(),
            running_job_ids=list(self._running),
            max_concurrent_jobs=self._abilities.slots,
            boot_id=self._boot_id,
            heartbeat_interval_ms=int(self._heartbeat_interval_s * 1000),
        )

    def _services(self) -> list[InstalledService]:
        return [
            InstalledService(service_id=f"{self._engine.name}-{kind}", type=kind, device="cpu", status="running")
            for kind in ("asr", "semantic", "nmt", "tts")
        ]

    def _readiness(self) -> list[CapabilityByType]:
        # An empty list of pairs would be read as none declared, hence any.
        translates = self._abilities.translates is None or len(self._abilities.translates) > 0
        ready = {"asr": True, "semantic": True, "nmt": translates, "tts": True}
        return [CapabilityByType(type=kind, ready=is_ready) for kind, is_ready in ready.items()]

    def _languages(self) -> LanguageCapabilities:
        able = self._abilities
        pairs = None
        if able.translates is not None:
            pairs = [{"from": source, "to": target} for source, target in able.translates]
        return LanguageCapabilities(
            asr_languages=list(able.recognises),
            semantic_languages=list(able.repairs),
            tts_languages=list(able.speaks),
            nmt_capabilities=pairs,
            semantic_core_ready=True,
        )

    def _about(self, job: JobAssign) -> dict[str, Any]:
        return {
            "job_id": job.job_id,
            "attempt_id": job.attempt_id,
            "node_id": self.node_id or "",
            "session_id": job.session_id,
            "trace_id": job.trace_id,
        }

    def _success(self, job: JobAssign, made: Translation, started: float) -> JobResult:
        return JobResult(
            **self._about(job),
            utterance_index=job.utterance_index,
            success=True,
            text_asr=made.text_source,
            text_translated=made.text_translated,
            tts_audio=base64.b64encode(made.speech).decode(),
            tts_format=made.speech_format,
            extra=None if made.text_source else {"reason": "ASR_EMPTY"},
            processing_time_ms=round((time.monotonic() - started) * 1000),
            node_completed_at_ms=int(time.time() * 1000),
        )

    def _failure(self, job: JobAssign, code: str, message: str, started: float) -> JobResult:
        return JobResult(
            **self._about(job),
            utterance_index=job.utterance_index,
            success=False,
            error=JobError(code=code, message=message),
            processing_time_ms=round((time.monotonic() - started) * 1000),
        )


def _say_nothing(event: str, detail: str) -> None:
    pass


async def _first_of(wait: Awaitable[object], timeout_s: float) -> None:
    try:
        await asyncio.wait_for(asyncio.ensure_future(wait), timeout_s)
    except TimeoutError:
        return


def _memory_gb() -> float:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
