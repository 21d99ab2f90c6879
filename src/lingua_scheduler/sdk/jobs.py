"""The jobs of one node: asked for before they start, worked on in slots, their results kept until they arrived."""

import asyncio
import base64
import time
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from lingua_scheduler.domain.errors import ErrorCode
from lingua_scheduler.protocol.node import AsrPartial, JobAck, JobAssign, JobGrant, JobResult, JobStarted, ResultAck
from lingua_scheduler.protocol.shapes import JobError, Message
from lingua_scheduler.sdk.engines import Engine, EngineRefused, ModelNotAvailable, Translation
from lingua_scheduler.sdk.partials import Partials

# Results kept until the scheduler has them; one that is not acknowledged by then is of no use any more.
MAX_KEPT_RESULTS = 64
GRANT_WITHIN_MS = 5_000

Say = Callable[[Message], Awaitable[None]]
Tell = Callable[[str, str], None]


class Attempt(NamedTuple):
    job_id: str
    number: int


class _Running:
    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.task: asyncio.Task[None] | None = None
        self.partials: Partials | None = None
        self.is_wanted = True


class Jobs:
    def __init__(self, engine: Engine, say: Say, tell: Tell) -> None:
        self._engine = engine
        self._say = say
        self._tell = tell
        # What takes a slot, and what is still to be waited for: a job that is over sends its result.
        self._running: dict[str, _Running] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._grants: dict[Attempt, asyncio.Future[bool]] = {}
        self._kept: dict[Attempt, JobResult] = {}
        self.node_id = ""
        self.done = 0

    @property
    def running_ids(self) -> list[str]:
        return list(self._running)

    @property
    def is_idle(self) -> bool:
        return not self._tasks

    @property
    def unacknowledged(self) -> list[JobResult]:
        return list(self._kept.values())

    async def assigned(self, job: JobAssign, free: int) -> None:
        """`free`: how many jobs may run, whatever the scheduler believes."""
        attempt = Attempt(job.job_id, job.attempt_id)
        known = self._running.get(job.job_id)
        if known is not None and known.is_wanted:
            await self._again(job, known)
            return
        if known is not None or len(self._running) >= free:
            why = "all slots are taken" if known is None else "it was cancelled and still runs here"
            self._tell("refused", f"{job.job_id}: {why}")
            await self._say(self._failure(job, ErrorCode.NODE_OVERLOADED, why, began_s=time.monotonic()))
            return
        running = _Running(attempt)
        self._running[job.job_id] = running
        task = running.task = asyncio.create_task(self._work(job, running))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # One that is cancelled before its first step never gets to its end.
        task.add_done_callback(lambda _: self._let_go(running))

    async def _again(self, job: JobAssign, running: _Running) -> None:
        """The scheduler lost sight of us meanwhile: what runs already counts for the later attempt."""
        if job.attempt_id > running.attempt.number:
            running.attempt = Attempt(job.job_id, job.attempt_id)
            await self._say(JobAck(**self._about(job)))
            await self._say(JobStarted(**self._about(job)))

    def granted(self, message: JobGrant) -> None:
        attempt = Attempt(message.job_id, message.attempt_id)
        if message.verdict == "stale":
            self._kept.pop(attempt, None)
        grant = self._grants.get(attempt)
        if grant is not None and not grant.done():
            grant.set_result(message.verdict == "granted")

    def acknowledged(self, message: ResultAck) -> None:
        self._kept.pop(Attempt(message.job_id, message.attempt_id), None)

    def cancel(self, job_id: str) -> None:
        """Its result is not wanted any more. Only async engines can be stopped; a thread keeps its slot to its end."""
        running = self._running.get(job_id)
        if running is not None and running.is_wanted:
            self._unwanted(running)

    async def finished(self, within_s: float) -> None:
        """Everything has ended, or the time is up."""
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=within_s)

    def abandon(self) -> None:
        """Whoever is still at work is left alone; nothing of it is sent."""
        for running in self._running.values():
            self._unwanted(running)
        # A second time, when the first has been heard: who waits for a thread leaves it to itself.
        for task in self._tasks:
            asyncio.get_running_loop().call_soon(task.cancel)

    def _unwanted(self, running: _Running) -> None:
        running.is_wanted = False
        if running.partials is not None:
            running.partials.drop()
        if running.task is not None:
            running.task.cancel()

    def _let_go(self, running: _Running) -> None:
        if self._running.get(running.attempt.job_id) is running:
            del self._running[running.attempt.job_id]

    async def _work(self, job: JobAssign, running: _Running) -> None:
        try:
            if not await self._may_start(job):
                return
            result = await self._result(job, running)
        finally:
            # Over before the result leaves: a heartbeat behind it must not claim the slot again.
            self._let_go(running)
        self.done += 1
        while len(self._kept) >= MAX_KEPT_RESULTS:
            self._kept.pop(next(iter(self._kept)))
        result.attempt_id = running.attempt.number
        self._kept[running.attempt] = result
        await self._say(result)

    async def _may_start(self, job: JobAssign) -> bool:
        """Ask before starting: an assignment that waited in a buffer past its lease is somebody else's by now."""
        grant: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        attempt = Attempt(job.job_id, job.attempt_id)
        self._grants[attempt] = grant
        try:
            await self._say(JobAck(**self._about(job)))
            async with asyncio.timeout((job.start_within_ms or GRANT_WITHIN_MS) / 1000):
                return await grant
        except TimeoutError:
            return False
        finally:
            del self._grants[attempt]

    async def _result(self, job: JobAssign, running: _Running) -> JobResult:
        """The one place where a job is worked on. A crashing engine fails one job, not the node."""
        began_s = time.monotonic()
        await self._say(JobStarted(**self._about(job)))
        partials = running.partials = Partials(lambda text: self._show(job, text), job.partial_update_interval_ms)
        try:
            made = await self._engine.translate(job, partials)
            result = self._success(job, made, began_s)
        except EngineRefused as error:
            self._tell("engine refused", f"{error.code}: {error.reason}")
            details = None
            if isinstance(error, ModelNotAvailable):
                details = {"service_id": error.service_id, "reason": error.reason}
            result = self._failure(job, error.code, error.reason, began_s, details)
        except Exception as error:
            # Where it broke, and not what it said: that may be somebody's words.
            self._tell("engine failed", f"{type(error).__name__} {_place(error)}")
            why = f"the engine failed: {type(error).__name__}"
            result = self._failure(job, ErrorCode.PROCESSING_ERROR, why, began_s)
        else:
            if made.stage_ms:
                self._tell("measured", _told(job, made))
        await partials.close()
        return result

    async def _show(self, job: JobAssign, text: str) -> None:
        await self._say(
            AsrPartial(
                job_id=job.job_id,
                node_id=self.node_id,
                session_id=job.session_id,
                utterance_index=job.utterance_index,
                text=text,
                is_final=False,
                trace_id=job.trace_id,
            )
        )

    def _about(self, job: JobAssign) -> dict[str, Any]:
        return {
            "job_id": job.job_id,
            "attempt_id": job.attempt_id,
            "node_id": self.node_id,
            "session_id": job.session_id,
            "trace_id": job.trace_id,
        }

    def _success(self, job: JobAssign, made: Translation, began_s: float) -> JobResult:
        for text in (made.text_source, made.text_translated):
            text.encode()  # what cannot be sent is the engine's failure
        extra: dict[str, Any] = {} if made.text_source else {"reason": "ASR_EMPTY"}
        if made.stage_ms:
            extra["service_timings"] = {f"{stage}_ms": took_ms for stage, took_ms in made.stage_ms.items()}
        return JobResult(
            **self._about(job),
            utterance_index=job.utterance_index,
            success=True,
            text_asr=made.text_source,
            text_translated=made.text_translated,
            tts_audio=base64.b64encode(made.speech).decode(),
            tts_format=made.speech_format,
            extra=extra or None,
            processing_time_ms=round((time.monotonic() - began_s) * 1000),
            node_completed_at_ms=int(time.time() * 1000),
        )

    def _failure(
        self, job: JobAssign, code: ErrorCode, message: str, began_s: float, details: dict[str, str] | None = None
    ) -> JobResult:
        return JobResult(
            **self._about(job),
            utterance_index=job.utterance_index,
            success=False,
            error=JobError(code=code.value, message=message, details=details),
            processing_time_ms=round((time.monotonic() - began_s) * 1000),
        )


def _place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


def _told(job: JobAssign, made: Translation) -> str:
    stages = ", ".join(f"{stage} {took_ms:.0f} ms" for stage, took_ms in made.stage_ms.items())
    return f"{job.job_id}: {stages}"
