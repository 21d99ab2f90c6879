"""Jobs of HTTP callers: the response names the job and its node; the result is fetched later."""

import asyncio
import secrets
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from types import MappingProxyType

import msgspec

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.access.principals import LOCAL, Principal
from lingua_scheduler.domain.access.visibility import Visibility
from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.jobs.job_ids import JobHandle, is_job_id
from lingua_scheduler.domain.jobs.jobs import ENDED, JobState
from lingua_scheduler.domain.jobs.requests import Request
from lingua_scheduler.domain.sessions.terms import PipelineTerms, Terms
from lingua_scheduler.domain.sessions.utterances import PADDING_MANUAL_MS, CutReason
from lingua_scheduler.protocol.http_dispatch import DispatchOptions, F2fDispatch, FetchedResult
from lingua_scheduler.services.attempts.counts import Books
from lingua_scheduler.services.attempts.permissions import denial
from lingua_scheduler.services.attempts.trails import Trails
from lingua_scheduler.services.attempts.work import Outcome, Refusal, Wish, Work, attributes_of
from lingua_scheduler.services.dispatch.audio_budget import AudioBudget
from lingua_scheduler.services.dispatch.http_results import Results, end_of, result_of
from lingua_scheduler.services.dispatch.idempotency import IdempotentRequests, Placement
from lingua_scheduler.services.dispatch.languages import LanguageLookup
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import logs, metrics
from lingua_scheduler.telemetry.tasks import Nursery
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.domain.languages import AUTO, tag_of
from lingua_sdk.protocol import audio

_log = logs.get()

_JOBS = metrics.by(metrics.JOBS, *ENDED)

SECRET_BYTES = 12
# What is assumed of audio that comes without its own.
SAMPLE_RATE = 16_000
NOTHING: Mapping[str, str] = MappingProxyType({})
_NOT_ITS_TENANT = Refusal(
    ErrorCode.PERMISSION_DENIED, "this credential may not act for that tenant_id; leave it out, or use a key that may"
)
_STOPPING = Refusal(ErrorCode.NODE_OVERLOADED, "the scheduler is stopping; ask another instance")


class _Call:
    """One job of an HTTP caller, from the request to its end."""

    def __init__(self, work: Work) -> None:
        self.secret = work.secret
        self.belongs_to = work.belongs_to
        self.notes = work.notes
        self.placement: Placement | None = None
        self.answer: asyncio.Future[Placement | Refusal] = asyncio.get_running_loop().create_future()
        self.ended = asyncio.Event()
        # The caller already got the answer that no node was found in time, so its job must not run.
        self.is_abandoned = False

    def say(self, answer: Placement | Refusal) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)


class _Answering:
    """Tells the caller which job its work became, and keeps the call where its result is fetched."""

    __slots__ = ("_call", "_placed")

    def __init__(self, call: _Call, placed: dict[str, _Call]) -> None:
        self._call = call
        self._placed = placed

    @property
    def is_waiting(self) -> bool:
        return not self._call.is_abandoned

    def placed(self, attempt: Attempt) -> bool:
        call = self._call
        if call.is_abandoned or (call.placement is not None and call.placement.job_id != attempt.job_id):
            # The caller already got an error, or the job of the instance that took the request over.
            return False
        note = call.notes[0] if call.notes else ""
        call.placement = Placement(attempt.job_id, attempt.node_id, attempt.number, call.secret, note=note)
        self._placed[call.placement.handle] = call
        call.say(call.placement)
        return True


class Calls:
    def __init__(
        self,
        instance: str,
        store: Store,
        requests: IdempotentRequests,
        books: Books,
        budget: AudioBudget,
        languages: LanguageLookup,
        settings: Settings,
        trails: Trails | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._instance = instance
        self._store = store
        self._requests = requests
        self._books = books
        self.budget = budget
        self._languages = languages
        self._trails = trails
        self._sessions = settings.sessions
        self._max_jobs = settings.calls.max_jobs
        self._results = Results(settings.calls)
        # By the id with the secret, which cannot be guessed.
        self._placed: dict[str, _Call] = {}
        self._waiters = 0
        self._serials = count()
        self.jobs = Nursery("calls")
        self.is_open = True

    def stop_taking_work(self) -> None:
        self.is_open = False

    async def dispatch(
        self, asked: F2fDispatch, carrier: Mapping[str, str] = NOTHING, principal: Principal = LOCAL
    ) -> Placement | Refusal:
        """Returns once the job has a slot; the job then continues in the background.

        `carrier` has the headers of the request, perhaps with the caller's trace context.
        """
        if complaint := _complaint(asked):
            return Refusal(ErrorCode.INVALID_MESSAGE, complaint)
        work = self._work(asked, principal)
        if complaint := work.terms.complaint():
            return Refusal(ErrorCode.INVALID_MESSAGE, complaint)
        if not principal.may_name(asked.tenant_id):
            return _NOT_ITS_TENANT
        if refusal := denial(principal, work.pools) or self.refusal():
            return refusal
        work = await self._languages.matched(work)
        answer = await self._dispatch(work, carrier, asked.options.timeout_ms if asked.options else None)
        if isinstance(answer, Refusal):
            return answer
        return answer._replace(src_lang=work.terms.src_lang, tgt_lang=work.terms.tgt_lang)

    async def _dispatch(self, work: Work, carrier: Mapping[str, str], timeout_ms: int | None) -> Placement | Refusal:
        if self._trails is not None:
            trail = self._trails.call(carrier, attributes_of(work))
            work = msgspec.structs.replace(work, trail=trail, trace_id=trail.trace_id)
        if not self.budget.take_of_caller(len(work.audio)):
            if work.trail is not None:
                work.trail.finish()
            return Refusal(ErrorCode.NODE_OVERLOADED, "too much audio is waiting for translation; try again later")
        call = _Call(work)
        self.jobs.start(self._run(call, work))
        try:
            # With 0 the placing itself does not wait, and answers at once.
            async with asyncio.timeout(timeout_ms / 1000 if timeout_ms else None):
                return await asyncio.shield(call.answer)
        except asyncio.CancelledError:
            call.is_abandoned = True
            raise
        except TimeoutError:
            if call.answer.done():
                return call.answer.result()
            call.is_abandoned = True
            busy = ErrorCode.ALL_CANDIDATES_FULL_OR_FAILED
            return Refusal(
                busy, f"no node for {work.terms.src_lang}→{work.terms.tgt_lang} was free within {timeout_ms} ms"
            )

    def refusal(self) -> Refusal | None:
        """Why no job is taken now."""
        if not self.is_open:
            return _STOPPING
        if len(self.jobs) >= self._max_jobs:
            return Refusal(
                ErrorCode.NODE_OVERLOADED, "too many unfinished jobs of HTTP callers (calls.max_jobs); try again later"
            )
        if not self._store.is_ready:
            # The caller can try again, so it is not kept waiting for Redis.
            return Refusal(ErrorCode.SCHEDULER_DEPENDENCY_DOWN, "Redis is unavailable; try again later")
        return None

    async def elsewhere(self, handle: str, belongs_to: str = "") -> str:
        """The other instance that has, or had, the job; empty if it is known here, or nowhere, or is another's."""
        if handle in self._placed or self._results.find(handle, self._clock(), belongs_to) is not None:
            return ""
        job_id = JobHandle.parse(handle).job_id
        if not is_job_id(job_id):
            return ""
        record = await self._store.jobs.find(job_id)
        if record is None or not record.is_for(Visibility(belongs_to=belongs_to)):
            return ""
        return record.owner if record.owner != self._instance else ""

    async def result(self, handle: str, wait_ms: int, belongs_to: str = "") -> FetchedResult | None:
        """None if the job is unknown or expired here, the secret is wrong, or it belongs to another principal."""
        call = self._placed.get(handle)
        if call is not None and call.belongs_to != belongs_to:
            return None
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
        return self._results.find(handle, self._clock(), belongs_to)

    async def take_result(self, handle: str) -> FetchedResult | None:
        """Wait for the end of a job, and keep its result no longer; None if it was dropped."""
        if (call := self._placed.get(handle)) is not None:
            await call.ended.wait()
        return self._results.take(handle)

    async def forget_old(self) -> None:
        self._results.forget_old(self._clock())

    async def _run(self, call: _Call, work: Work) -> None:
        logs.bind(session_id=work.session_id)
        metrics.CALLS.inc()
        started = self._clock()
        try:
            ended = await self._translate(call, work)
            if isinstance(ended, Outcome):
                self._books.ended(work, ended, self._clock() - started)
            if work.trail is not None:
                work.trail.settled(*end_of(ended))
            self._end(call, ended)
        finally:
            if work.trail is not None:
                work.trail.finish()
            # Callers that still wait during a stop get an error.
            call.say(_STOPPING)
            if call.placement is not None:
                del self._placed[call.placement.handle]
            call.ended.set()
            metrics.CALLS.dec()
            self.budget.give_back_of_caller(len(work.audio))

    async def _translate(self, call: _Call, work: Work) -> Outcome | Placement | Refusal:
        started = self._clock()
        try:
            return await self._requests.translate(work, _Answering(call, self._placed))
        except RedisAway as error:
            down = ErrorCode.SCHEDULER_DEPENDENCY_DOWN
            return Outcome(JobState.FAILED, "", error=down, detail=f"Redis is unavailable: {error}")
        except Exception:
            _log.exception("call.surprised")
            return Outcome(JobState.FAILED, "", error=ErrorCode.INTERNAL_ERROR, detail="the scheduler failed")
        finally:
            metrics.JOB_SECONDS.observe(self._clock() - started)

    def _end(self, call: _Call, ended: Outcome | Placement | Refusal) -> None:
        if isinstance(ended, Outcome):
            _JOBS[ended.state].inc()
        if call.placement is None:
            if isinstance(ended, Outcome):
                ended = Refusal(ended.error or ErrorCode.ALL_CANDIDATES_FULL_OR_FAILED, ended.detail)
            call.say(ended)
            return
        if not isinstance(ended, Outcome):
            ended = Outcome(
                JobState.CANCELLED, call.placement.job_id, detail="a repeat of this request took over this job"
            )
        self._results.keep(result_of(call.placement.handle, ended), self._clock(), call.belongs_to)

    def _work(self, asked: F2fDispatch, principal: Principal) -> Work:
        options = asked.options or DispatchOptions()
        src_lang, tgt_lang = (tag_of(text) or text for text in (asked.src_lang, asked.tgt_lang))
        terms = Terms(src_lang, tgt_lang, pipeline=PipelineTerms(use_tts=options.require_tts is not False))
        if asked.audio is None:
            # Its length is unknown here, so it gets the timeout of the longest utterance.
            audio_format, duration_ms = asked.audio_format or "pcm16", self._sessions.max_duration_ms
        else:
            audio_format, duration_ms = audio.measure(asked.audio, asked.sample_rate or SAMPLE_RATE)
        serial, named = next(self._serials), asked.request_id
        tenant_id, belongs_to = principal.work_tenant(asked.tenant_id), principal.owner_digest
        # Callers choose their session ids, so two of one tenant may choose the same: each has requests of its own.
        scope = f"{tenant_id} {belongs_to}" if belongs_to else tenant_id
        request = None if named is None else Request(scope, asked.session_id, named)
        return Work(
            wait_s=None if options.timeout_ms is None else options.timeout_ms / 1000,
            session_id=asked.session_id,
            # Nodes remember an utterance by session and index, and what was said in a session, for as long as they run.
            node_session_id=f"call-{secrets.token_hex(8)}",
            utterance_index=serial,
            is_call=True,
            tenant_id=tenant_id,
            belongs_to=belongs_to,
            principal=principal,
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
            padding_ms=PADDING_MANUAL_MS,
            said_at_s=self._clock(),
            wish=Wish(options.preferred_node_id or "", bool(options.strict), options.affinity_key or ""),
            audio_ref=asked.audio_ref,
            request=request,
            notes=[] if options.preferred_node_id else None,
            allows_pivot=options.allow_pivot is not False,
        )


def _complaint(asked: F2fDispatch) -> str | None:
    if (asked.audio is None) == (asked.audio_ref is None):
        return "give either audio or audio_ref"
    if asked.audio is not None and not asked.audio:
        return "audio is empty"
    if asked.src_lang == AUTO:
        return "src_lang auto is for sessions only; name the language that is spoken"
    if asked.options and asked.options.strict and asked.options.preferred_node_id is None:
        return "options.strict requires options.preferred_node_id"
    return None
