"""What nodes report about their jobs. Messages of one node are handled one after the other, in order."""

from lingua_scheduler.domain.attempts import ADOPTED, AdvanceOutcome, Attempt, EndOutcome
from lingua_scheduler.domain.errors import ErrorCode
from lingua_scheduler.domain.jobs import JobEvent, event_of_result
from lingua_scheduler.domain.losses import known_code
from lingua_scheduler.protocol import codec
from lingua_scheduler.protocol.node import AsrPartial, JobAck, JobGrant, JobResult, JobStarted, NodeError, ResultAck
from lingua_scheduler.services.assignments import Assignments
from lingua_scheduler.services.complaints import Complaints
from lingua_scheduler.services.delivery import Delivery
from lingua_scheduler.services.judging import Judge
from lingua_scheduler.services.registry import NodeLink
from lingua_scheduler.services.relay import Relay
from lingua_scheduler.services.waiting import WaitingRoom
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import logs, metrics

_log = logs.get()

_STALE = metrics.by(metrics.STALE, JobEvent.ACCEPT, JobEvent.START, "result", "partial")


class Progress:
    def __init__(
        self,
        instance: str,
        store: Store,
        judge: Judge,
        complaints: Complaints,
        relay: Relay,
        assignments: Assignments,
        waiting: WaitingRoom,
        delivery: Delivery,
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
        self._delivery = delivery
        self._run_max_ms = run_max_ms

    async def ack(self, link: NodeLink, message: JobAck) -> bool:
        """A node asks before it starts: granted, or too late (False)."""
        granted = await self._advance(link, message, JobEvent.ACCEPT)
        verdict = "granted" if granted else "stale"
        link.peer.post(JobGrant(job_id=message.job_id, attempt_id=message.attempt_id, verdict=verdict))
        return granted

    async def started(self, link: NodeLink, message: JobStarted) -> None:
        await self._advance(link, message, JobEvent.START)

    async def _advance(self, link: NodeLink, message: JobAck | JobStarted, event: JobEvent) -> bool:
        attempt = Attempt(message.job_id, message.attempt_id, link.node_id, link.shard)
        outcome = await self._jobs.advance(attempt, link.epoch, event)
        if outcome is AdvanceOutcome.STALE:
            _STALE[event].inc()
            return False
        if (foreign := self._relay.foreign(message.job_id, link)) is not None:
            self._relay.tell_advanced(foreign)
        else:
            self._assignments.advanced(attempt)
        return True

    async def result(self, link: NodeLink, message: JobResult, frame: bytes = b"") -> bool:
        """The finish is in Redis before anybody hears of it; a stale result (False) changes nothing."""
        attempt = Attempt(message.job_id, message.attempt_id, link.node_id, link.shard)
        error_code = known_code(message.error.code) if message.error and message.error.code else None
        event = event_of_result(message.success, (message.extra or {}).get("reason"), error_code)
        reason = "" if message.success else error_code or ErrorCode.PROCESSING_ERROR.value
        ended = await self._store.insist(
            lambda: self._judge.end(attempt, link.epoch, event, reason), self._run_max_ms / 1000
        )
        sent = link.sent.pop(message.job_id, None)
        if sent is not None and sent[0].number == ADOPTED:
            # It ran without a lease of its own, and now it does not run any more.
            await self._jobs.end(sent[0], "", JobEvent.LOSE_ATTEMPT)
        foreign = self._relay.foreign(message.job_id, link)
        owner = ended.owner or (foreign.instance if foreign is not None else self._instance)
        is_awaited = foreign is not None or self._assignments.find(attempt) is not None
        if ended.outcome is EndOutcome.ENDED:
            self._waiting.slot_freed(link.node_id, link.pools)
        elif ended.outcome is not EndOutcome.GONE or not is_awaited:
            _STALE["result"].inc()
            if link.profile.acknowledges:
                link.peer.post(JobGrant(job_id=message.job_id, attempt_id=message.attempt_id, verdict="stale"))
            return False
        # If Redis lost the job, the one who waits for exactly this attempt still knows it.
        if owner == self._instance:
            self._assignments.settle(attempt, message)
        else:
            await self._relay.finished(owner, attempt, frame or codec.encode(message))
        if error_code == ErrorCode.MODEL_NOT_AVAILABLE and message.error is not None:
            self._complaints.take(link, message.error.details)
        if link.profile.acknowledges:
            link.peer.post(ResultAck(job_id=message.job_id, attempt_id=message.attempt_id))
        return True

    def trouble(self, link: NodeLink, message: NodeError) -> None:
        """A node speaks of itself, not of a job."""
        if message.code == ErrorCode.MODEL_NOT_AVAILABLE:
            self._complaints.take(link, message.details)
        else:
            _log.warning("node.complained", node_id=link.node_id, code=known_code(message.code))

    def partial(self, link: NodeLink, message: AsrPartial) -> None:
        """Losable, and never holding anything up; only the node that has the job is believed."""
        assignment = self._assignments.of_node(message.job_id, link.node_id)
        if assignment is not None:
            self._delivery.partial(assignment.work, message)
        elif (foreign := self._relay.foreign(message.job_id, link)) is not None:
            self._relay.tell_partial(foreign, message)
        else:
            _STALE["partial"].inc()
