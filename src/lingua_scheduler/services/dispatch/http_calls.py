"""Utterances that come over HTTP: the caller learns at once where its job is, and fetches the result later."""

import asyncio
import secrets
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from time import monotonic
from types import MappingProxyType

import msgspec

from lingua_scheduler.domain.errors import ErrorCode
from lingua_scheduler.domain.jobs.attempts import Attempt, shard_of, without_secret
from lingua_scheduler.domain.jobs.jobs import ENDED, JobState
from lingua_scheduler.domain.jobs.requests import Request
from lingua_scheduler.domain.sessions.terms import Pipeline, Terms
from lingua_scheduler.domain.sessions.utterances import CutReason
from lingua_scheduler.protocol import audio
from lingua_scheduler.protocol.http_dispatch import DispatchOptions, F2fDispatch, FetchedResult
from lingua_scheduler.services.attempts.counts import Books
from lingua_scheduler.services.attempts.trails import Trails
from lingua_scheduler.services.attempts.work import Outcome, Refusal, Wish, Work, attributes_of
from lingua_scheduler.services.dispatch.audio_budget import AudioBudget
from lingua_scheduler.services.dispatch.http_results import Results, result_of
from lingua_scheduler.services.dispatch.idempotency import Placement, Requests
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import logs, metrics
from lingua_scheduler.telemetry.tasks import Nursery

_log = logs.get()

_JOBS = metrics.by(metrics.JOBS, *ENDED)

MAX_JOB_ID_CHARS = 128
SECRET_BYTES = 12
# What is assumed of audio that comes without its own.
SAMPLE_RATE = 16_000
NOTHING: Mapping[str, str] = MappingProxyType({})
_STOPPING = Refusal(ErrorCode.NODE_OVERLOADED, "the scheduler is stopping; ask another instance")


class _Call:
    """One job a caller asked for, from the question to the end."""

    def __init__(self, secret: str) -> None:
        self.secret = secret
        self.placement: Placement | None = None
        self.answer: asyncio.Future[Placement | Refusal] = asyncio.get_running_loop().create_future()
        self.ended = asyncio.Event()
        # The caller was told that there is no node in time, so its job must not run any more.
        self.is_abandoned = False

    def say(self, answer: Placement | Refusal) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)


class Calls:
    def __init__(
        self,
        instance: str,
        store: Store,
        requests: Requests,
        books: Books,
        budget: AudioBudget,
        settings: Settings,
        trails: Trails | None = None,
    ) -> None:
        self._instance = instance
        self._store = store
        self._requests = requests
        self._books = books
        self._budget = budget
        self._trails = trails
        self._sessions = settings.sessions
        self._max_jobs = settings.calls.max_jobs
        self._results = Results(settings.calls)
        # By what the caller knows it by, which nobody guesses.
        self._placed: dict[str, _Call] = {}
        self._waiters = 0
        self._serials = count()
        self.jobs = Nursery("calls")
        self.is_open = True

    def stop_taking_work(self) -> None:
        self.is_open = False

    async def dispatch(self, asked: F2fDispatch, carrier: Mapping[str, str] = NOTHING) -> Placement | Refusal:
        """Answers when the job has a slot; its end is followed in the background.

        `carrier` is what came with the question, perhaps the caller's trace context.
        """
        if complaint := _complaint(asked):
            return Refusal(ErrorCode.INVALID_MESSAGE, complaint)
        work = self._work(asked)
        if complaint := work.terms.complaint():
            return Refusal(ErrorCode.INVALID_MESSAGE, complaint)
        if not self.is_open:
            return _STOPPING
        if len(self.jobs) >= self._max_jobs:
            return Refusal(ErrorCode.NODE_OVERLOADED, "too many jobs of HTTP callers are under way; try again later")
        if not self._store.is_ready:
            # Nobody who can ask again is kept waiting for Redis.
            return Refusal(ErrorCode.SCHEDULER_DEPENDENCY_DOWN, "Redis is away; try again later")
        if self._trails is not None:
            trail = self._trails.call(carrier, attributes_of(work))
            work = msgspec.structs.replace(work, trail=trail, trace_id=trail.trace_id)
        if not self._budget.take_of_caller(len(work.audio)):
            if work.trail is not None:
                work.trail.finish()
            return Refusal(ErrorCode.NODE_OVERLOADED, "too much audio waits for its translation; try again later")
        call = _Call(work.secret)
        self.jobs.start(self._run(call, work))
        timeout_ms = asked.options.timeout_ms if asked.options else None
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                return await asyncio.shield(call.answer)
        except TimeoutError:
            if call.answer.done():
                return call.answer.result()
            call.is_abandoned = True
            busy = ErrorCode.ALL_CANDIDATES_FULL_OR_FAILED
            return Refusal(busy, f"no node for {asked.src_lang}→{asked.tgt_lang} was free within {timeout_ms} ms")

    async def result(self, handle: str, wait_ms: int) -> FetchedResult | Refusal | None:
        """None when nobody here knows such a job (any more), or not with this secret."""
        call = self._placed.get(handle)
        if call is not None and self._waiters < self._max_jobs:
            self._waiters += 1
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_ms / 1000):
                        await call.ended.wait()
            finally:
                self._waiters -= 1
        if handle in self._placed:
            return FetchedResult(job_id=handle, state=JobState.DISPATCHED)
        return self._results.find(handle, monotonic()) or await self._elsewhere(without_secret(handle))

    async def forget_old(self) -> None:
        self._results.forget_old(monotonic())

    async def _elsewhere(self, job_id: str) -> Refusal | None:
        shard = shard_of(job_id)
        if shard is None or len(job_id) > MAX_JOB_ID_CHARS:
            return None
        record = await self._store.jobs.find(job_id)
        owner = record.owner if record is not None else self._instance
        if owner == self._instance:
            return None
        if not await self._requests.is_alive(owner):
            return Refusal(ErrorCode.RESULT_LOST, f"instance {owner} had this job and is gone; send the request again")
        return Refusal(ErrorCode.JOB_ELSEWHERE, f"instance {owner} has this job; ask there for its result")

    async def _run(self, call: _Call, work: Work) -> None:
        logs.bind(session_id=work.session_id)
        metrics.CALLS.inc()
        started = monotonic()
        try:
            ended = await self._translate(call, work)
            if isinstance(ended, Outcome):
                self._books.ended(work, ended, monotonic() - started)
            if work.trail is not None:
                work.trail.settled(*_end_of(ended))
            self._end(call, ended)
        finally:
            if work.trail is not None:
                work.trail.finish()
            # Whoever still waits when everything is stopped is told so.
            call.say(_STOPPING)
            if call.placement is not None:
                del self._placed[call.placement.handle]
            call.ended.set()
            metrics.CALLS.dec()
            self._budget.give_back_of_caller(len(work.audio))

    async def _translate(self, call: _Call, work: Work) -> Outcome | Placement | Refusal:
        async def may_send(attempt: Attempt) -> bool:
            if call.is_abandoned or (call.placement is not None and call.placement.job_id != attempt.job_id):
                # The caller was told that there is no node, or knows another job that was taken from us since.
                return False
            call.placement = Placement(attempt.job_id, attempt.node_id, attempt.number, call.secret)
            self._placed[call.placement.handle] = call
            call.say(call.placement)
            return True

        started = monotonic()
        try:
            asked = msgspec.structs.replace(work, may_send=may_send, is_wanted=lambda: not call.is_abandoned)
            return await self._requests.translate(asked)
        except RedisAway as error:
            down = ErrorCode.SCHEDULER_DEPENDENCY_DOWN
            return Outcome(JobState.FAILED, "", error=down, detail=f"Redis is away: {error}")
        except Exception:
            _log.exception("call.surprised")
            return Outcome(JobState.FAILED, "", error=ErrorCode.INTERNAL_ERROR, detail="the scheduler failed")
        finally:
            metrics.JOB_SECONDS.observe(monotonic() - started)

    def _end(self, call: _Call, ended: Outcome | Placement | Refusal) -> None:
        if isinstance(ended, Outcome):
            _JOBS[ended.state].inc()
        if call.placement is None:
            if isinstance(ended, Outcome):
                ended = Refusal(ended.error or ErrorCode.ALL_CANDIDATES_FULL_OR_FAILED, ended.detail)
            call.say(ended)
            return
        if not isinstance(ended, Outcome):
            ended = Outcome(JobState.CANCELLED, call.placement.job_id, detail="a repeat of this request took over")
        self._results.keep(result_of(call.placement.handle, ended), monotonic())

    def _work(self, asked: F2fDispatch) -> Work:
        options = asked.options or DispatchOptions()
        terms = Terms(asked.src_lang, asked.tgt_lang, pipeline=Pipeline(use_tts=options.require_tts is not False))
        if asked.audio is None:
            # Nobody here can measure it, so it gets the time of the longest utterance.
            audio_format, duration_ms = asked.audio_format or "pcm16", self._sessions.max_duration_ms
        else:
            audio_format, duration_ms = audio.measure(asked.audio, asked.sample_rate or SAMPLE_RATE)
        serial = next(self._serials)
        request = None
        if asked.request_id is not None:
            request = Request(asked.tenant_id or "", asked.session_id, asked.request_id)
        return Work(
            wait_s=None if options.timeout_ms is None else options.timeout_ms / 1000,
            session_id=asked.session_id,
            # Nodes remember an utterance by session and index, and what was said in a session, for as long as they run.
            node_session_id=f"call-{secrets.token_hex(8)}",
            utterance_index=serial,
            is_call=True,
            secret=secrets.token_hex(SECRET_BYTES),
            terms=terms,
            pools=terms.pools(),
            audio=asked.audio or b"",
            audio_format=audio_format,
            sample_rate=asked.sample_rate or SAMPLE_RATE,
            duration_ms=duration_ms,
            trace_id=f"trace-{self._instance}-{serial}",
            turn_id=f"turn-{self._instance}-{serial}",
            reason=CutReason.IS_FINAL,
            padding_ms=self._sessions.padding_manual_ms,
            said_at_s=monotonic(),
            wish=Wish(options.preferred_node_id or "", bool(options.strict), options.affinity_key or ""),
            audio_ref=asked.audio_ref,
            request=request,
        )


def _end_of(ended: Outcome | Placement | Refusal) -> tuple[JobState, ErrorCode | None, str]:
    match ended:
        case Outcome():
            return ended.state, ended.error, ended.job_id
        case Placement():
            # A repeat: somebody else has its job.
            return JobState.CANCELLED, None, ended.job_id
        case Refusal():
            return JobState.FAILED, ended.code, ""


def _complaint(asked: F2fDispatch) -> str | None:
    if (asked.audio is None) == (asked.audio_ref is None):
        return "give either audio or audio_ref"
    if asked.audio is not None and not asked.audio:
        return "audio is empty"
    if asked.options and asked.options.strict and asked.options.preferred_node_id is None:
        return "options.strict needs options.preferred_node_id"
    return None
