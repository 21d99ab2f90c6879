"""From an utterance to its outcome: find a node, hand the job over, follow it, try another when it fails."""

import asyncio
import random
from functools import partial
from itertools import count
from typing import NamedTuple

from lingua_scheduler.domain.attempts import Attempt, DispatchOutcome, EndOutcome, job_id, shard_of
from lingua_scheduler.domain.errors import ErrorCode
from lingua_scheduler.domain.jobs import JobEvent, JobState, event_of_result, target_of
from lingua_scheduler.domain.terms import Terms
from lingua_scheduler.domain.utterances import CutReason
from lingua_scheduler.protocol.node import JobAssign, JobCancel, JobResult, LanguageCandidates
from lingua_scheduler.protocol.shapes import JobPipeline
from lingua_scheduler.services.assignments import Assignment, Assignments, Lost, Report
from lingua_scheduler.services.poolmap import PoolMapCopy
from lingua_scheduler.services.registry import Registry
from lingua_scheduler.services.waiting import WaitingRoom
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.jobs import Dispatched, DispatchRules, JobOrder
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import logs, metrics

_log = logs.get()

# How many members of a pool a dispatch looks at while the fleet is idle.
FIRST_SAMPLE = 3


class Work(NamedTuple):
    """One utterance to be translated, with everything a node needs."""

    session_id: str
    utterance_index: int
    terms: Terms
    pools: tuple[str, ...]
    audio: bytes
    audio_format: str
    sample_rate: int
    duration_ms: int
    trace_id: str
    turn_id: str
    reason: CutReason
    padding_ms: int
    preferred_node: str = ""


class Outcome(NamedTuple):
    """How a job ended. Without a result, `error` says why."""

    state: JobState
    job_id: str
    node_id: str = ""
    result: JobResult | None = None
    error: ErrorCode | None = None
    detail: str = ""


class Dispatcher:
    def __init__(
        self,
        instance: str,
        store: Store,
        registry: Registry,
        pool_map: PoolMapCopy,
        assignments: Assignments,
        waiting: WaitingRoom,
        settings: Settings,
    ) -> None:
        self._instance = instance
        self._store = store
        self._jobs = store.jobs
        self._registry = registry
        self._pool_map = pool_map
        self._assignments = assignments
        self._waiting = waiting
        self._job_settings = settings.job
        self._queue_wait_s = settings.dispatch.queue_wait_ms / 1000
        self._rules = DispatchRules(
            sample=FIRST_SAMPLE,
            sample_k=settings.selection.sample_k,
            ack_ms=settings.job.reservation_ttl_ms,
            keep_ms=settings.job.keep_ms,
        )
        self._serials = count(1)

    async def translate(self, work: Work) -> Outcome:
        """Always ends, with a result or with the reason why there is none."""
        identifier = ""
        tried: list[str] = []
        lost = Lost("")
        for number in range(1, self._job_settings.max_retries + 2):
            try:
                attempt, placed = await self._store.insist(
                    partial(self._place, work, identifier, number, tuple(tried)), self._queue_wait_s
                )
            except RedisAway as error:
                return Outcome(
                    JobState.FAILED, identifier, error=ErrorCode.SCHEDULER_DEPENDENCY_DOWN, detail=str(error)
                )
            if attempt is None:
                return await self._give_up(work, identifier, number - 1, placed, lost)
            identifier = attempt.job_id
            tried.append(attempt.node_id)
            report = await self._attempt(work, attempt, placed)
            if isinstance(report, JobResult):
                outcome = _outcome(report, attempt)
                if outcome is not None:
                    return outcome
                lost = Lost(report.error.code if report.error else "failed")
            else:
                lost = report
            metrics.RETRIES.labels(_bounded(lost.reason)).inc()
            _log.info("attempt.lost", job_id=identifier, attempt=number, node_id=attempt.node_id, reason=lost.reason)
        return await self._give_up(work, identifier, number, DispatchOutcome.FULL, lost)

    async def _place(
        self, work: Work, identifier: str, number: int, tried: tuple[str, ...]
    ) -> tuple[Attempt | None, Dispatched]:
        """Lease a slot, waiting in line for one if need be."""
        pool = work.pools[0]
        ticket = self._waiting.ticket()
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + self._queue_wait_s
        queued_since = None
        must_wait = self._waiting.must_queue(pool)
        while True:
            if must_wait:
                if queued_since is None:
                    queued_since = loop.time()
                    if self._waiting.is_full(pool):
                        metrics.DISPATCHES.labels("queue_full").inc()
                        return None, Dispatched(DispatchOutcome.FULL)
                if not await self._waiting.wait(pool, ticket, give_up_at - loop.time()):
                    metrics.DISPATCHES.labels("wait_over").inc()
                    return None, Dispatched(DispatchOutcome.FULL)
            try:
                attempt, placed = await self._try_shards(work, identifier, number, tried)
            finally:
                if must_wait:
                    self._waiting.tried(pool)
            metrics.DISPATCHES.labels(placed.outcome.value).inc()
            if placed.outcome is not DispatchOutcome.FULL:
                if queued_since is not None:
                    metrics.QUEUE_WAIT.observe(loop.time() - queued_since)
                return attempt, placed
            must_wait = True

    async def _try_shards(
        self, work: Work, identifier: str, number: int, tried: tuple[str, ...]
    ) -> tuple[Attempt | None, Dispatched]:
        pool = work.pools[0]
        if pool not in self._pool_map.map:
            await self._pool_map.look_again()
        placed = Dispatched(DispatchOutcome.NOBODY)
        for shard in self._pool_map.map.shard_order(pool, random.random()):
            # A job's id names the shard it begins in.
            name = identifier or job_id(shard, f"{self._instance}-{next(self._serials):x}")
            reply = await self._jobs.dispatch(
                shard,
                JobOrder(
                    job_id=name,
                    attempt=number,
                    pools=work.pools,
                    session_id=work.session_id,
                    utterance_index=work.utterance_index,
                    owner=self._instance,
                    run_ms=self._run_ms(work),
                    preferred=work.preferred_node,
                    excluded=tried,
                ),
                self._rules,
            )
            if reply.outcome is DispatchOutcome.DISPATCHED:
                return Attempt(name, number, reply.node_id, shard), reply
            if reply.outcome is not DispatchOutcome.NOBODY:
                placed = reply
            if reply.outcome not in (DispatchOutcome.FULL, DispatchOutcome.NOBODY):
                break
        return None, placed

    async def _attempt(self, work: Work, attempt: Attempt, placed: Dispatched) -> Report:
        """Send the job and wait for its end: the node's word, the loss of the node, or a deadline."""
        assignment = self._assignments.open(attempt, work.session_id, work.utterance_index)
        try:
            link = self._registry.find(attempt.node_id)
            if link is None or link.owner != placed.owner:
                return await self._end_lost(attempt, "node_gone") or Lost("node_gone")
            ack_ms = self._job_settings.reservation_ttl_ms if placed.acknowledges else 0
            if not link.peer.post(_assignment_of(work, attempt, ack_ms)):
                return await self._end_lost(attempt, "send_failed") or Lost("send_failed")
            report = await self._follow(assignment, (ack_ms or self._run_ms(work)) / 1000, self._run_ms(work) / 1000)
            if isinstance(report, Lost):
                link.peer.post(JobCancel(job_id=attempt.job_id, trace_id=work.trace_id, reason=report.reason))
            return report
        finally:
            self._assignments.close(assignment)

    async def _follow(self, assignment: Assignment, first_s: float, run_s: float) -> Report:
        """Local timers come first; the sweep of any instance is the net below them."""
        timeout_s = first_s
        while (report := await assignment.wait(timeout_s)) is None:
            reason = "job_timeout" if assignment.is_accepted or first_s == run_s else "ack_timeout"
            lost = await self._end_lost(assignment.attempt, reason, if_overdue=True)
            if lost is not None:
                return assignment.report or lost
            # It is not overdue after all: the acknowledgement moved the deadline.
            timeout_s = run_s
        return report

    async def _end_lost(self, attempt: Attempt, reason: str, if_overdue: bool = False) -> Lost | None:
        """End an attempt ourselves; None when it was to end only if overdue, and is not."""
        try:
            ended = await self._jobs.end(attempt, "", JobEvent.LOSE_ATTEMPT, reason, if_overdue=if_overdue)
        except RedisAway:
            # The lease ends by itself; the job goes on without it.
            return Lost(reason)
        if ended.outcome is EndOutcome.ALIVE:
            return None
        link = self._registry.find(attempt.node_id)
        if link is not None:
            self._waiting.slot_freed(link.pools)
        return Lost(reason)

    async def _give_up(
        self, work: Work, identifier: str, number: int, placed: Dispatched | DispatchOutcome, lost: Lost
    ) -> Outcome:
        """No node, or no other node: close the job if there is one, and say why."""
        outcome = placed.outcome if isinstance(placed, Dispatched) else placed
        src, tgt, facet = work.pools[0].split(":")
        if outcome is DispatchOutcome.NOBODY:
            error, detail = ErrorCode.NO_CAPABLE_NODE, f"no node serves {src}→{tgt} as {facet}"
        elif lost.reason:
            error, detail = ErrorCode.ALL_CANDIDATES_FULL_OR_FAILED, f"every try failed, the last one: {lost.reason}"
        else:
            error, detail = ErrorCode.ALL_CANDIDATES_FULL_OR_FAILED, f"every node for {src}→{tgt} is busy"
        if lost.reason in ("job_timeout", ErrorCode.JOB_TIMEOUT):
            error = ErrorCode.JOB_TIMEOUT
        shard = shard_of(identifier)
        if shard is not None:
            try:
                await self._jobs.close(shard, identifier, number, JobEvent.FAIL, detail)
            except RedisAway:
                _log.warning("job.left_open", job_id=identifier)
        return Outcome(JobState.FAILED, identifier, error=error, detail=detail)

    def _run_ms(self, work: Work) -> int:
        settings = self._job_settings
        wanted = settings.timeout_base_ms + settings.timeout_factor * work.duration_ms
        return int(min(wanted, settings.timeout_max_ms))


def _outcome(result: JobResult, attempt: Attempt) -> Outcome | None:
    """None when another node should have a try."""
    code = result.error.code if result.error else None
    event = event_of_result(result.success, (result.extra or {}).get("reason"), code)
    if event is JobEvent.LOSE_ATTEMPT:
        return None
    state = target_of(event)
    if state is not JobState.FAILED:
        return Outcome(state, attempt.job_id, attempt.node_id, result)
    known = ErrorCode.__members__.get(code or "", ErrorCode.PROCESSING_ERROR)
    return Outcome(state, attempt.job_id, attempt.node_id, error=known, detail="the node failed the job")


def _bounded(reason: str) -> str:
    """A label must come from a small fixed set, and a node's error code may be anything."""
    return reason if reason.islower() or reason in ErrorCode.__members__ else "other"


def _assignment_of(work: Work, attempt: Attempt, ack_ms: int) -> JobAssign:
    terms = work.terms
    return JobAssign(
        job_id=attempt.job_id,
        attempt_id=attempt.number,
        session_id=work.session_id,
        utterance_index=work.utterance_index,
        src_lang=terms.src_lang,
        tgt_lang=terms.tgt_lang,
        pipeline=JobPipeline(**terms.pipeline._asdict()),
        audio=work.audio,
        audio_format=work.audio_format,
        sample_rate=work.sample_rate,
        enable_streaming_asr=terms.enable_streaming_asr,
        partial_update_interval_ms=terms.partial_update_interval_ms,
        trace_id=work.trace_id,
        turn_id=work.turn_id,
        dialect=terms.dialect,
        features=terms.features or None,
        mode=terms.mode,
        lang_a=terms.lang_a,
        lang_b=terms.lang_b,
        auto_langs=list(terms.auto_langs) if terms.auto_langs else None,
        lid=LanguageCandidates(candidates=list(terms.auto_langs)) if terms.auto_langs else None,
        padding_ms=work.padding_ms,
        is_manual_cut=work.reason is CutReason.IS_FINAL,
        is_timeout_triggered=work.reason is CutReason.TIMEOUT,
        is_max_duration_triggered=work.reason in (CutReason.MAX_DURATION, CutReason.MAX_LENGTH),
        start_within_ms=ack_ms or None,
    )
