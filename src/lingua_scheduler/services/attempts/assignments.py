"""The attempts this instance waits for: node messages and losses find their job here."""

import asyncio
from collections.abc import Callable, Collection
from enum import StrEnum

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.access.principals import Principal
from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.services.attempts.deadlines import Deadlines, Ringing
from lingua_scheduler.services.attempts.reports import Answered, Cancelled, Report
from lingua_scheduler.services.attempts.work import Work


class AttemptStep(StrEnum):
    """Progress steps of an attempt that are sent to clients, as named on the wire."""

    DISPATCHED = "DISPATCHED"
    ACCEPTED = "NODE_ACCEPTED"


# Cancelled jobs that are remembered in case their attempt is only just beginning here.
CANCELLED_MAX = 1_000


class Assignment:
    """One live attempt, as seen by the owner of its session."""

    __slots__ = (
        "_bell",
        "_deadlines",
        "_listener",
        "_moment",
        "acknowledges",
        "advances",
        "allowed_ms",
        "attempt",
        "holder",
        "report",
        "work",
    )

    def __init__(self, attempt: Attempt, work: Work, holder: str, acknowledges: bool, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self.attempt = attempt
        self.work = work
        # The instance that held the node's connection: word of its end comes from there.
        self.holder = holder
        # Whether its node answers every job; existing nodes may say nothing at all.
        self.acknowledges = acknowledges
        # How often the node moved on (accepted, started), and its deadline with it.
        self.advances = 0
        # How long it has since its latest advance, if its node asked for that; 0: as long as any job of its length.
        self.allowed_ms = 0
        self.report: Report | None = None
        # Who waits for it: a task, or one that is called.
        self._bell: asyncio.Future[None] | None = None
        self._listener: Ringing | None = None
        self._moment = 0

    async def wait(self, timeout_s: float) -> Report | None:
        """The report, or None when time is up or the node moved on."""
        if self.report is None:
            self._bell = self._deadlines.loop.create_future()
            moment = self._deadlines.set(timeout_s, self)
            try:
                await self._bell
            finally:
                self._deadlines.clear(moment, self)
                self._bell = None
        return self.report

    def listen(self, timeout_s: float, listener: Ringing) -> None:
        """As `wait`, for one that is no task: it is rung instead, each time, until it is no longer waited for."""
        self._listener = listener
        self._moment = self._deadlines.set(timeout_s, self)

    def listen_on(self, timeout_s: float) -> None:
        """With another deadline."""
        self._deadlines.clear(self._moment, self)
        self._moment = self._deadlines.set(timeout_s, self)

    def unlisten(self) -> None:
        self._deadlines.clear(self._moment, self)
        self._listener = None

    def advance(self, allowed_ms: int = 0) -> None:
        self.advances += 1
        self.allowed_ms = allowed_ms
        self.ring()

    def settle(self, report: Report) -> None:
        if self.report is None:
            self.report = report
            self.ring()

    def ring(self) -> None:
        if self._listener is not None:
            self._listener.ring()
        elif self._bell is not None and not self._bell.done():
            self._bell.set_result(None)


class Assignments:
    """`watch` is called for every step of an attempt."""

    def __init__(self, watch: Callable[[AttemptStep, Assignment], None], clock: Clock = SYSTEM_CLOCK) -> None:
        self._watch = watch
        self._deadlines = Deadlines(clock)
        self._by_job: dict[str, Assignment] = {}
        self._cancelled: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._by_job)

    def open(self, attempt: Attempt, work: Work, holder: str = "", acknowledges: bool = False) -> Assignment:
        assignment = Assignment(attempt, work, holder, acknowledges, self._deadlines)
        self._by_job[attempt.job_id] = assignment
        if attempt.job_id in self._cancelled:
            assignment.settle(Cancelled())
        return assignment

    def sent(self, assignment: Assignment) -> None:
        self._watch(AttemptStep.DISPATCHED, assignment)

    def advanced(self, attempt: Attempt, allowed_ms: int = 0) -> None:
        """The node has accepted or started it, or asked for more time; the watcher is called for the first of these."""
        assignment = self.find(attempt)
        if assignment is not None:
            assignment.advance(allowed_ms)
            if assignment.advances == 1:
                self._watch(AttemptStep.ACCEPTED, assignment)

    def cancel(self, job_id: str) -> None:
        """Tell the waiter of the job that it was cancelled, also if its attempt is about to begin."""
        self._cancelled[job_id] = None
        if len(self._cancelled) > CANCELLED_MAX:
            del self._cancelled[next(iter(self._cancelled))]
        assignment = self._by_job.get(job_id)
        if assignment is not None:
            assignment.settle(Cancelled())

    @property
    def open_attempts(self) -> list[Attempt]:
        return [assignment.attempt for assignment in self._by_job.values()]

    def jobs_of(self, is_meant: Callable[[Principal], bool]) -> list[str]:
        """Ids of the jobs of these callers that have not ended."""
        return [
            job_id
            for job_id, assignment in self._by_job.items()
            if assignment.report is None and is_meant(assignment.work.principal)
        ]

    def held_by(self, instances: Collection[str]) -> list[Attempt]:
        return [assignment.attempt for assignment in self._by_job.values() if assignment.holder in instances]

    def close(self, assignment: Assignment) -> None:
        if self._by_job.get(assignment.attempt.job_id) is assignment:
            del self._by_job[assignment.attempt.job_id]

    def find(self, attempt: Attempt) -> Assignment | None:
        assignment = self._by_job.get(attempt.job_id)
        return assignment if assignment is not None and assignment.attempt == attempt else None

    def of_node(self, job_id: str, node_id: str) -> Assignment | None:
        """For messages that name no attempt: the job's current one, if it is this node's."""
        assignment = self._by_job.get(job_id)
        return assignment if assignment is not None and assignment.attempt.node_id == node_id else None

    def settle(self, attempt: Attempt, report: Report) -> None:
        """Report how an attempt ended, if it is still awaited here."""
        assignment = self.find(attempt)
        if assignment is not None:
            if isinstance(report, Answered) and report.result.node_id != attempt.node_id:
                # A result is that of the node which had the job, whatever it calls itself.
                report.result.node_id = attempt.node_id
            assignment.settle(report)
