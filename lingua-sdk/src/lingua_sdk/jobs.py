"""The jobs of one node: acknowledged before they start, run in slots, results kept until they are confirmed."""

import asyncio
import base64
import contextlib
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple

from lingua_sdk.checks import checked_translation
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.domain.losses import exception_name
from lingua_sdk.engines import Engine, EngineRefused, JobOutput, ModelNotAvailable
from lingua_sdk.failures import BrokenContract, description_of, stage_of
from lingua_sdk.job_course import JobCourse, following
from lingua_sdk.partials import Partials
from lingua_sdk.protocol.node import AsrPartial, JobAck, JobAssign, JobGrant, JobResult, JobStarted, ResultAck
from lingua_sdk.protocol.shapes import JobError, Message
from lingua_sdk.time_limits import asking_with
from lingua_sdk.tracing import job_span

# Results kept until the scheduler has them; one that is not acknowledged by then is dropped.
MAX_KEPT_RESULTS = 64
GRANT_WITHIN_MS = 5_000

Say = Callable[[Message], Awaitable[None]]
Tell = Callable[[str, str], None]


class AttemptKey(NamedTuple):
    job_id: str
    number: int


class _Running:
    def __init__(self, attempt: AttemptKey) -> None:
        self.attempt = attempt
        self.task: asyncio.Task[None] | None = None
        self.partials: Partials | None = None
        self.is_wanted = True
        self.course = JobCourse(attempt.job_id)


class NodeJobs:
    def __init__(self, engine: Engine, say: Say, tell: Tell) -> None:
        self._engine = engine
        self._say = say
        self._tell = tell
        # What takes a slot, and what is still to be waited for: a job that is over sends its result.
        self._running: dict[str, _Running] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        # Requests for more time on their way.
        self._asking: set[asyncio.Future[None]] = set()
        self._grants: dict[AttemptKey, asyncio.Future[bool]] = {}
        self._kept: dict[AttemptKey, JobResult] = {}
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
        """`free`: maximum number of running jobs; further ones are refused."""
        attempt = AttemptKey(job.job_id, job.attempt_id)
        known = self._running.get(job.job_id)
        if known is not None and known.is_wanted:
            await self._again(job, known)
            return
        if known is not None or len(self._running) >= free:
            why = "all slots are in use" if known is None else "it was cancelled and is still running"
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
            running.attempt = AttemptKey(job.job_id, job.attempt_id)
            await self._say(JobAck(**self._about(job)))
            await self._say(JobStarted(**self._about(job)))

    def granted(self, message: JobGrant) -> None:
        attempt = AttemptKey(message.job_id, message.attempt_id)
        if message.verdict == "stale":
            self._kept.pop(attempt, None)
        grant = self._grants.get(attempt)
        if grant is not None and not grant.done():
            grant.set_result(message.verdict == "granted")

    def acknowledged(self, message: ResultAck) -> None:
        self._kept.pop(AttemptKey(message.job_id, message.attempt_id), None)

    def cancel(self, job_id: str, reason: str | None = None) -> None:
        """Its result is not wanted any more. Only async engines can be stopped; a thread keeps its slot to its end."""
        running = self._running.get(job_id)
        if running is not None and running.is_wanted:
            self._tell(*running.course.give_up(reason))
            self._unwanted(running)

    async def finished(self, within_s: float) -> None:
        """Everything has ended, or the time is up."""
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=within_s)

    def abandon(self) -> None:
        """Abandon jobs that still run; their results are not sent."""
        for running in self._running.values():
            self._unwanted(running)
        # Cancelled twice: after the second time a task no longer waits for its thread.
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
        except asyncio.CancelledError:
            self._dropped(running, running.course.late_end)
            raise
        finally:
            # Over before the result leaves: a heartbeat behind it must not claim the slot again.
            self._let_go(running)
        if not running.is_wanted:
            # The engine did not let itself be cancelled.
            self._dropped(running, "returned")
            return
        self.done += 1
        while len(self._kept) >= MAX_KEPT_RESULTS:
            self._kept.pop(next(iter(self._kept)))
        result.attempt_id = running.attempt.number
        self._kept[running.attempt] = result
        await self._say(result)

    def _dropped(self, running: _Running, ended: str) -> None:
        if told := running.course.dropped(ended):
            self._tell("result dropped", told)

    async def _may_start(self, job: JobAssign) -> bool:
        """Acknowledge before starting: a job that waited in a buffer past its lease may belong to another node."""
        grant: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        attempt = AttemptKey(job.job_id, job.attempt_id)
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
        running.course.begin()
        await self._say(JobStarted(**self._about(job)))
        partials = running.partials = Partials(lambda text: self._show(job, text), job.partial_update_interval_ms)
        try:
            asking = partial(self._ask_for_time, asyncio.get_running_loop(), job, running)
            with job_span(job, self.node_id), asking_with(asking), following(running.course):
                made = await self._engine.translate(job, partials)
            result = self._success(job, made, began_s)
        except EngineRefused as error:
            self._tell("engine refused", f"{_where(job, error)}: {error.code}: {error.reason}")
            details = None
            if isinstance(error, ModelNotAvailable):
                details = {"service_id": error.service_id, "reason": error.reason}
            result = self._failure(job, error.code, error.reason, began_s, details)
        except Exception as error:
            self._tell("engine failed", f"{_where(job, error)}: {description_of(error)}")
            # To others the type alone, unless the message is ours.
            told = str(error) if isinstance(error, BrokenContract) else type(error).__name__
            why = f"the engine failed: {told}"
            stage = stage_of(error).stage
            details = {"exception": exception_name(type(error))} | ({"stage": stage} if stage else {})
            result = self._failure(job, ErrorCode.PROCESSING_ERROR, why, began_s, details)
        else:
            if made.stage_ms:
                self._tell("measured", _told(job, made))
        await partials.close()
        return result

    def _ask_for_time(self, loop: asyncio.AbstractEventLoop, job: JobAssign, running: _Running, seconds: float) -> None:
        """Called by an engine, in any thread."""
        with contextlib.suppress(RuntimeError):  # of a loop that has ended
            loop.call_soon_threadsafe(self._extend, job, running, max(1, round(seconds * 1000)))

    def _extend(self, job: JobAssign, running: _Running, more_ms: int) -> None:
        if self._running.get(job.job_id) is running and running.is_wanted:
            about = self._about(job) | {"attempt_id": running.attempt.number}
            asking = asyncio.ensure_future(self._say(JobStarted(**about, extend_ms=more_ms)))
            self._asking.add(asking)
            asking.add_done_callback(self._asking.discard)

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

    def _success(self, job: JobAssign, made: JobOutput, began_s: float) -> JobResult:
        made = checked_translation(made)
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


def _where(job: JobAssign, error: Exception) -> str:
    stage = stage_of(error).stage
    return f"{job.job_id} {stage}" if stage else job.job_id


def _told(job: JobAssign, made: JobOutput) -> str:
    stages = ", ".join(f"{stage} {took_ms:.0f} ms" for stage, took_ms in made.stage_ms.items())
    return f"{job.job_id}: {stages}"
