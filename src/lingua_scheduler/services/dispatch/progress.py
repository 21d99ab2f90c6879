"""Handles nodes' reports about their jobs: Redis judges each report, then its consequences are carried out."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.guards.rates import Paces
from lingua_scheduler.domain.jobs.attempts import ADOPTED, AdvanceOutcome, Attempt, EndOutcome
from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.services.attempts.assignments import Assignments
from lingua_scheduler.services.attempts.ending import Endings
from lingua_scheduler.services.attempts.reports import answered
from lingua_scheduler.services.attempts.work import Work
from lingua_scheduler.services.dispatch.relay import Relay
from lingua_scheduler.services.nodes.complaints import Complaints
from lingua_scheduler.services.nodes.links import NodeLink
from lingua_scheduler.setting_sections.jobs import JobSettings
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.jobs.jobs import Ended
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import logs, metrics
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.domain.losses import known_code
from lingua_sdk.protocol import codec
from lingua_sdk.protocol.node import AsrPartial, JobAck, JobGrant, JobResult, JobStarted, NodeError, ResultAck

_log = logs.get()

# What has to be waited for before it is known whether a result is taken.
Later = Callable[[], Coroutine[Any, Any, bool]]

_MAY_BE_MISSED = (EndOutcome.GONE, EndOutcome.REPEATED)

# Per job; no reader is faster, and nodes are asked for one per second.
MAX_PARTIALS_PER_S = 20
MAX_PACED_JOBS = 10_000

_STALE = metrics.by(metrics.STALE, JobEvent.ACCEPT, JobEvent.START, "result", "partial")


class PendingResult:
    """A result on its way through Redis. The node may get another shard meanwhile; the attempt stays where it is.

    Its repr is empty: it is part of callbacks, and asyncio prints the repr of a callback that fails.
    """

    __slots__ = ("answered", "attempt", "frame", "link", "message")

    def __init__(self, link: NodeLink, message: JobResult, frame: bytes) -> None:
        self.link = link
        self.attempt = Attempt(message.job_id, message.attempt_id, link.node_id, link.shard)
        self.message = message
        self.answered = answered(message)
        self.frame = frame


class Progress:
    """`on_partial` gets what a node here has recognised so far of an utterance of ours."""

    def __init__(
        self,
        instance: str,
        store: Store,
        endings: Endings,
        complaints: Complaints,
        relay: Relay,
        assignments: Assignments,
        on_partial: Callable[[Work, AsrPartial], None],
        limits: JobSettings,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._instance = instance
        self._store = store
        self._relay = relay
        self._jobs = store.jobs
        self._endings = endings
        self._complaints = complaints
        self._assignments = assignments
        self._on_partial = on_partial
        self._paces = Paces(MAX_PARTIALS_PER_S, MAX_PACED_JOBS)
        self._limits = limits
        self._run_max_ms = limits.timeout_max_ms

    @property
    def is_ready(self) -> bool:
        """Whether it is worth asking Redis."""
        return self._store.is_ready

    async def ack(self, link: NodeLink, message: JobAck) -> bool:
        """A node asks before it starts: granted, or too late (False)."""
        attempt = attempt_of(link, message)
        return self.advanced(link, attempt, message, await self.advance(link, attempt, message))

    async def insist_on_advance(self, link: NodeLink, attempt: Attempt, message: JobAck | JobStarted) -> None:
        """Ask until Redis has answered: that it was away is not the node's fault, whose job would be taken from it."""
        ask = partial(self.advance, link, attempt, message)
        self.advanced(link, attempt, message, await self._store.insist(ask, self._run_max_ms / 1000))

    async def result(self, link: NodeLink, message: JobResult, frame: bytes = b"") -> bool:
        """The end of the attempt is in Redis before the result is passed on; a stale result (False) changes nothing."""
        return await self.insist(PendingResult(link, message, frame))

    async def insist(self, report: PendingResult) -> bool:
        """Ask until Redis has answered."""
        ended = await self._store.insist(partial(self.end, report), self._run_max_ms / 1000)
        is_taken = self.ended(report, ended)
        return is_taken if isinstance(is_taken, bool) else await is_taken()

    def advance(self, link: NodeLink, attempt: Attempt, message: JobAck | JobStarted) -> asyncio.Future[AdvanceOutcome]:
        """Put it to Redis; `advanced` takes the outcome."""
        if more_ms := _more_ms(message):
            return self._jobs.extend(attempt, link.epoch, more_ms, self._limits.deadline_ms)
        return self._jobs.advance(attempt, link.epoch, _event(message))

    def end(self, report: PendingResult) -> asyncio.Future[Ended]:
        """Put it to Redis; `ended` takes the outcome."""
        return self._endings.finish(report.attempt, report.link.epoch, report.answered.meaning)

    def advanced(self, link: NodeLink, attempt: Attempt, message: JobAck | JobStarted, outcome: AdvanceOutcome) -> bool:
        is_current = outcome is not AdvanceOutcome.STALE
        if not is_current:
            _STALE[_event(message)].inc()
        elif (foreign := self._relay.foreign(message.job_id, link)) is not None:
            self._relay.tell_advanced(foreign, min(_more_ms(message), self._limits.deadline_ms))
        else:
            self._assignments.advanced(attempt, min(_more_ms(message), self._limits.deadline_ms))
        if isinstance(message, JobAck):
            verdict = "granted" if is_current else "stale"
            link.peer.post(JobGrant(job_id=message.job_id, attempt_id=message.attempt_id, verdict=verdict))
        return is_current

    def ended(self, report: PendingResult, ended: Ended) -> bool | Later:
        """Whether the result is taken; or, where something else comes first, what has to be waited for."""
        message = report.message
        sent = report.link.sent.pop(message.job_id, None)
        self._endings.finished(report.attempt, report.answered.meaning.reason, ended)
        if sent is not None and sent[0].number == ADOPTED:
            return partial(self._let_go, sent[0], report, ended)
        return self._conclude(report, ended)

    async def _let_go(self, adopted: Attempt, report: PendingResult, ended: Ended) -> bool:
        """An adopted job. Its result is in Redis now, and its owner is notified before the slot is freed."""
        is_taken = self._conclude(report, ended)
        if isinstance(is_taken, bool):
            await self._free(adopted)
            return is_taken
        # The inbox of its owner may be full for a while; the slot need not wait for that.
        is_passed_on, _ = await asyncio.gather(is_taken(), self._free(adopted))
        return is_passed_on

    async def _free(self, adopted: Attempt) -> None:
        with suppress(RedisAway):  # it ends at its deadline
            await self._store.insist(partial(self._endings.free, adopted), self._run_max_ms / 1000)

    def _conclude(self, report: PendingResult, ended: Ended) -> bool | Later:
        link, attempt, message = report.link, report.attempt, report.message
        foreign = self._relay.foreign(message.job_id, link)
        owner = ended.owner or (foreign.instance if foreign is not None else self._instance)
        # If Redis lost the job, or its first reply was lost, a caller may still wait for exactly this attempt.
        if ended.outcome is not EndOutcome.ENDED and (
            ended.outcome not in _MAY_BE_MISSED or (foreign is None and self._assignments.find(attempt) is None)
        ):
            _STALE["result"].inc()
            if link.profile.acknowledges:
                link.peer.post(JobGrant(job_id=message.job_id, attempt_id=message.attempt_id, verdict="stale"))
            return False
        if owner != self._instance:
            return partial(self._pass_on, owner, report)
        self._assignments.settle(attempt, report.answered)
        self._confirm(link, message)
        return True

    async def _pass_on(self, owner: str, report: PendingResult) -> bool:
        await self._relay.finished(owner, report.attempt, report.frame or codec.encode(report.message))
        self._confirm(report.link, report.message)
        return True

    def _confirm(self, link: NodeLink, message: JobResult) -> None:
        if message.error is not None and message.error.code == ErrorCode.MODEL_NOT_AVAILABLE:
            self._complaints.take(link, message.error.details)
        if link.profile.acknowledges:
            link.peer.post(ResultAck(job_id=message.job_id, attempt_id=message.attempt_id))

    def trouble(self, link: NodeLink, message: NodeError) -> None:
        """A report about the node itself, not about a job."""
        if message.code == ErrorCode.MODEL_NOT_AVAILABLE:
            self._complaints.take(link, message.details)
        else:
            _log.warning("node.complained", node_id=link.node_id, code=known_code(message.code))

    def partial(self, link: NodeLink, message: AsrPartial) -> None:
        """Losable, and never holding anything up; only the node that has the job is believed."""
        assignment = self._assignments.of_node(message.job_id, link.node_id)
        foreign = self._relay.foreign(message.job_id, link) if assignment is None else None
        if assignment is None and foreign is None:
            _STALE["partial"].inc()
        elif not self._paces.may_show(message.job_id, self._clock()):
            metrics.PARTIALS_DROPPED.inc()
        elif assignment is not None:
            self._on_partial(assignment.work, message)
        elif foreign is not None:
            self._relay.tell_partial(foreign, message)


def attempt_of(link: NodeLink, message: JobAck | JobStarted | JobResult) -> Attempt:
    return Attempt(message.job_id, message.attempt_id, link.node_id, link.shard)


def _more_ms(message: JobAck | JobStarted) -> int:
    """The time that a node asks for, from now on; 0 if it does not."""
    return message.extend_ms or 0 if isinstance(message, JobStarted) else 0


def is_extension(message: JobAck | JobStarted) -> bool:
    """Whether the node asks for more time, which it may do again and again."""
    return bool(_more_ms(message))


def _event(message: JobAck | JobStarted) -> JobEvent:
    return JobEvent.ACCEPT if isinstance(message, JobAck) else JobEvent.START
