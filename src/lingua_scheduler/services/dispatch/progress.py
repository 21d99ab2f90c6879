"""What nodes report about their jobs: Redis is asked, and what follows is done when it has answered."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any

from lingua_scheduler.domain.errors import ErrorCode
from lingua_scheduler.domain.guards.rates import Paces
from lingua_scheduler.domain.jobs.attempts import ADOPTED, AdvanceOutcome, Attempt, EndOutcome
from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.domain.jobs.losses import known_code
from lingua_scheduler.domain.jobs.quarantine import Verdict
from lingua_scheduler.protocol import codec
from lingua_scheduler.protocol.node import AsrPartial, JobAck, JobGrant, JobResult, JobStarted, NodeError, ResultAck
from lingua_scheduler.services.attempts.assignments import Assignments
from lingua_scheduler.services.attempts.judging import Judge
from lingua_scheduler.services.attempts.meaning import meaning_of
from lingua_scheduler.services.attempts.work import Work
from lingua_scheduler.services.dispatch.relay import Relay
from lingua_scheduler.services.dispatch.waiting import WaitingRoom
from lingua_scheduler.services.nodes.complaints import Complaints
from lingua_scheduler.services.nodes.registry import NodeLink
from lingua_scheduler.store.connection import RedisAway, Reply, Waiter
from lingua_scheduler.store.jobs.jobs import Ended, advanced_of, ended_of
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import logs, metrics

_log = logs.get()

# What has to be waited for before it is known whether a result is taken.
Later = Callable[[], Coroutine[Any, Any, bool]]

_MAY_BE_MISSED = (EndOutcome.GONE, EndOutcome.REPEATED)

# Of one job; nobody reads faster, and nodes are asked for one a second.
MAX_PARTIALS_PER_S = 20
MAX_PACED_JOBS = 10_000

_STALE = metrics.by(metrics.STALE, JobEvent.ACCEPT, JobEvent.START, "result", "partial")


class Report:
    """A result on its way through Redis. The node may get another shard meanwhile; the attempt stays where it is.

    It shows nothing of itself: it is part of callbacks, and whoever complains of one prints what it is made of.
    """

    __slots__ = ("attempt", "frame", "link", "message")

    def __init__(self, link: NodeLink, message: JobResult, frame: bytes) -> None:
        self.link = link
        self.attempt = attempt_of(link, message)
        self.message = message
        self.frame = frame


class Progress:
    """`on_partial` gets what a node here has recognised so far of an utterance of ours."""

    def __init__(
        self,
        instance: str,
        store: Store,
        judge: Judge,
        complaints: Complaints,
        relay: Relay,
        assignments: Assignments,
        waiting: WaitingRoom,
        on_partial: Callable[[Work, AsrPartial], None],
        run_max_ms: int,
    ) -> None:
        self._instance = instance
        self._store = store
        self._relay = relay
        self._jobs = store.jobs
        self._judge = judge
        self._complaints = complaints
        self._assignments = assignments
        self._waiting = waiting
        self._on_partial = on_partial
        self._paces = Paces(MAX_PARTIALS_PER_S, MAX_PACED_JOBS)
        self._run_max_ms = run_max_ms

    @property
    def is_ready(self) -> bool:
        """Whether it is worth asking Redis."""
        return self._store.is_ready

    async def ack(self, link: NodeLink, message: JobAck) -> bool:
        """A node asks before it starts: granted, or too late (False)."""
        attempt = attempt_of(link, message)
        return self.advanced(link, attempt, message, await self.ask_to_advance(link, attempt, message))

    async def insist_on_advance(self, link: NodeLink, attempt: Attempt, message: JobAck | JobStarted) -> None:
        """Ask until Redis has answered: that it was away is not the node's fault, whose job would be taken from it."""
        ask = partial(self.ask_to_advance, link, attempt, message)
        self.advanced(link, attempt, message, await self._store.insist(ask, self._run_max_ms / 1000))

    async def result(self, link: NodeLink, message: JobResult, frame: bytes = b"") -> bool:
        """The finish is in Redis before anybody hears of it; a stale result (False) changes nothing."""
        return await self.insist(Report(link, message, frame))

    async def insist(self, report: Report) -> bool:
        """Ask until Redis has answered."""
        reply = await self._store.insist(lambda: self.ask_to_end(report), self._run_max_ms / 1000)
        is_taken = self.ended(report, reply)
        return is_taken if isinstance(is_taken, bool) else await is_taken()

    def ask_to_advance(self, link: NodeLink, attempt: Attempt, message: JobAck | JobStarted) -> Waiter:
        """`advanced` takes the answer."""
        return self._jobs.ask_to_advance(attempt, link.epoch, _event(message))

    def ask_to_end(self, report: Report) -> Waiter:
        """`ended` takes the answer."""
        event, reason = meaning_of(report.message)
        return self._jobs.ask_to_end(report.attempt, report.link.epoch, event, reason, quarantine=self._judge.rules)

    def advanced(self, link: NodeLink, attempt: Attempt, message: JobAck | JobStarted, reply: Reply) -> bool:
        is_current = advanced_of(reply) is not AdvanceOutcome.STALE
        if not is_current:
            _STALE[_event(message)].inc()
        elif (foreign := self._relay.foreign(message.job_id, link)) is not None:
            self._relay.tell_advanced(foreign)
        else:
            self._assignments.advanced(attempt)
        if isinstance(message, JobAck):
            verdict = "granted" if is_current else "stale"
            link.peer.post(JobGrant(job_id=message.job_id, attempt_id=message.attempt_id, verdict=verdict))
        return is_current

    def ended(self, report: Report, reply: Reply) -> bool | Later:
        """Whether the result is taken; or, where something else comes first, what has to be waited for."""
        link, message, ended = report.link, report.message, ended_of(reply)
        if ended.verdict is not Verdict.UNCHANGED:
            self._judge.tell(report.attempt, meaning_of(message).reason, ended.verdict)
        sent = link.sent.pop(message.job_id, None)
        if sent is not None and sent[0].number == ADOPTED:
            return partial(self._let_go, sent[0], report, ended)
        return self._conclude(report, ended)

    async def _let_go(self, adopted: Attempt, report: Report, ended: Ended) -> bool:
        """It ran without a lease of its own. Its result is in Redis by now, and is told before the slot is freed."""
        is_taken = self._conclude(report, ended)
        if isinstance(is_taken, bool):
            await self._free(adopted, report.link)
            return is_taken
        # The inbox of its owner may be full for a while; the slot need not wait for that.
        is_passed_on, _ = await asyncio.gather(is_taken(), self._free(adopted, report.link))
        return is_passed_on

    async def _free(self, adopted: Attempt, link: NodeLink) -> None:
        end = partial(self._jobs.end, adopted, "", JobEvent.LOSE_ATTEMPT)
        with suppress(RedisAway):  # it ends at its deadline
            await self._store.insist(end, self._run_max_ms / 1000)
            self._waiting.slot_freed(link.node_id, link.serves)

    def _conclude(self, report: Report, ended: Ended) -> bool | Later:
        link, attempt, message = report.link, report.attempt, report.message
        foreign = self._relay.foreign(message.job_id, link)
        owner = ended.owner or (foreign.instance if foreign is not None else self._instance)
        if ended.outcome is EndOutcome.ENDED:
            self._waiting.slot_freed(link.node_id, link.serves)
        # If Redis lost the job, or its first answer got lost, the one who waits for exactly this attempt still does.
        elif ended.outcome not in _MAY_BE_MISSED or (foreign is None and self._assignments.find(attempt) is None):
            _STALE["result"].inc()
            if link.profile.acknowledges:
                link.peer.post(JobGrant(job_id=message.job_id, attempt_id=message.attempt_id, verdict="stale"))
            return False
        if owner != self._instance:
            return partial(self._pass_on, owner, report)
        self._assignments.settle(attempt, message)
        self._confirm(link, message)
        return True

    async def _pass_on(self, owner: str, report: Report) -> bool:
        await self._relay.finished(owner, report.attempt, report.frame or codec.encode(report.message))
        self._confirm(report.link, report.message)
        return True

    def _confirm(self, link: NodeLink, message: JobResult) -> None:
        if message.error is not None and message.error.code == ErrorCode.MODEL_NOT_AVAILABLE:
            self._complaints.take(link, message.error.details)
        if link.profile.acknowledges:
            link.peer.post(ResultAck(job_id=message.job_id, attempt_id=message.attempt_id))

    def trouble(self, link: NodeLink, message: NodeError) -> None:
        """A node speaks of itself, not of a job."""
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
        elif not self._paces.may_show(message.job_id, monotonic()):
            metrics.PARTIALS_DROPPED.inc()
        elif assignment is not None:
            self._on_partial(assignment.work, message)
        elif foreign is not None:
            self._relay.tell_partial(foreign, message)


def attempt_of(link: NodeLink, message: JobAck | JobStarted | JobResult) -> Attempt:
    return Attempt(message.job_id, message.attempt_id, link.node_id, link.shard)


def _event(message: JobAck | JobStarted) -> JobEvent:
    return JobEvent.ACCEPT if isinstance(message, JobAck) else JobEvent.START
