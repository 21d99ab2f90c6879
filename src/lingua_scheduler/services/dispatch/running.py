"""One attempt at its node: send the job, follow it, end it when its time is up."""

from contextlib import suppress

import msgspec

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.jobs.attempts import Attempt, EndOutcome, Try
from lingua_scheduler.domain.nodes.nodes import Features
from lingua_scheduler.domain.nodes.owners import Owner
from lingua_scheduler.services.attempts.assignments import Assignment, Assignments
from lingua_scheduler.services.attempts.deadlines import Ringing
from lingua_scheduler.services.attempts.ending import Endings
from lingua_scheduler.services.attempts.reports import Answered, Cancelled, LostAttempt, Report
from lingua_scheduler.services.attempts.work import Work
from lingua_scheduler.services.dispatch.orders import assignment_of, cancellation_of
from lingua_scheduler.services.dispatch.routes import Route, Routes
from lingua_scheduler.setting_sections.jobs import JobSettings
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.jobs.jobs import Dispatched, Jobs
from lingua_scheduler.telemetry import logs, metrics
from lingua_sdk.domain.losses import Loss

WITHDRAWN = "withdrawn"


class Slot(msgspec.Struct, frozen=True, gc=False):
    """A leased slot at a node, for one attempt that was not sent yet."""

    assignment: Assignment
    owner: Owner
    features: Features

    @property
    def attempt(self) -> Attempt:
        return self.assignment.attempt


class Sent(msgspec.Struct, eq=False, gc=False):
    """An attempt that its node has."""

    route: Route
    at_s: float
    # How long the node has to accept it; 0: it does not say so.
    ack_ms: int
    # How often the node had moved on when that was last looked at.
    advances: int = 0


class AttemptRunner:
    """`clock` is the one on which utterances say when they ended."""

    def __init__(
        self,
        jobs: Jobs,
        endings: Endings,
        routes: Routes,
        assignments: Assignments,
        settings: JobSettings,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._jobs = jobs
        self._endings = endings
        self._routes = routes
        self._assignments = assignments
        self._settings = settings
        self._clock = clock

    def open(self, work: Work, attempt: Attempt, dispatched: Dispatched) -> Slot:
        """From here on it is known what becomes of the attempt, whichever instance ends it."""
        owner, features = dispatched.owner, dispatched.features
        assignment = self._assignments.open(attempt, work, owner.instance, features.acknowledges)
        return Slot(assignment, owner, features)

    async def run(self, work: Work, wanted: Try, slot: Slot, sent: Sent | None = None) -> Report:
        """Send the job, unless it was, and wait for its end: the node's word, the loss of the node, or a deadline."""
        try:
            return await self._run(work, wanted, slot, sent)
        finally:
            self._assignments.close(slot.assignment)

    def send_here(self, work: Work, wanted: Try, slot: Slot) -> Sent | None:
        """Send the job at once, if its node is connected here; if not, `run` has to do it."""
        assignment = slot.assignment
        route = self._routes.here(assignment.attempt, slot.owner)
        if route is None or assignment.report is not None:
            return None
        sent = Sent(route, self._clock(), self._settings.reservation_ttl_ms if slot.features.acknowledges else 0)
        order = assignment_of(work, assignment.attempt, slot.features, sent.ack_ms, wanted.renewal)
        if not route.post(assignment.attempt, order):
            return None
        self._went(work, wanted, assignment)
        return sent

    def listen(self, slot: Slot, sent: Sent, wanted: Try, listener: Ringing) -> None:
        """Have it rung when there is a report, the node moved on, or time is up."""
        slot.assignment.listen((sent.ack_ms or wanted.run_ms) / 1000, listener)

    def moved_on(self, slot: Slot, sent: Sent, wanted: Try) -> bool:
        """Whether the node only moved on, and its deadline with it."""
        assignment = slot.assignment
        if assignment.advances == sent.advances:
            return False
        sent.advances = assignment.advances
        assignment.listen_on((assignment.allowed_ms or wanted.run_ms) / 1000)
        return True

    def over(self, slot: Slot) -> None:
        """It ended while it was listened to."""
        slot.assignment.unlisten()
        self._assignments.close(slot.assignment)

    async def free(self, attempt: Attempt) -> None:
        """It was leased while Redis went away, and never sent."""
        await self._endings.free(attempt, Loss.SEND_FAILED)

    def forget(self, slot: Slot) -> None:
        self._assignments.close(slot.assignment)

    async def give_back(self, slot: Slot) -> None:
        """Free a slot that is not used after all."""
        try:
            if slot.assignment.report is None:
                with suppress(RedisAway):  # the lease ends by itself
                    await self._endings.withdraw(slot.attempt, WITHDRAWN)
        finally:
            self._assignments.close(slot.assignment)

    async def _run(self, work: Work, wanted: Try, slot: Slot, sent: Sent | None) -> Report:
        assignment = slot.assignment
        attempt = assignment.attempt
        logs.bind(job_id=attempt.job_id, node_id=attempt.node_id)
        if sent is None:
            going = await self._send(work, wanted, slot)
            if not isinstance(going, Sent):
                return going
            sent = going
            report = await assignment.wait((sent.ack_ms or wanted.run_ms) / 1000)
        else:
            report = assignment.report
        if report is None:
            silence = Loss.JOB_TIMEOUT if slot.features.acknowledges else Loss.NO_ANSWER
            silence = Loss.PART_TIMEOUT if work.is_part else silence
            report = await self._follow(assignment, sent, wanted.run_ms, silence)
        route = sent.route
        if not isinstance(report, Answered):
            route.cancel(attempt, cancellation_of(work, attempt, report.reason))
        if isinstance(report, Cancelled) and not await self._reports_jobs(route, attempt):
            route.forget(attempt)
            self._endings.on_freed(attempt)
        return report

    async def _send(self, work: Work, wanted: Try, slot: Slot) -> Sent | Report:
        """Or how the attempt ended before it was sent."""
        assignment, features = slot.assignment, slot.features
        attempt = assignment.attempt
        if assignment.report is not None:
            return await self._unsent(assignment, assignment.report)
        route = self._routes.find(attempt, slot.owner)
        if route is None:
            return await self._end_lost(attempt, Loss.NODE_GONE) or LostAttempt(Loss.NODE_GONE)
        sent = Sent(route, self._clock(), self._settings.reservation_ttl_ms if features.acknowledges else 0)
        traceparent = work.trail.leaves(attempt) if work.trail is not None else None
        order = assignment_of(work, attempt, features, sent.ack_ms, wanted.renewal, traceparent)
        if not await route.send(attempt, order):
            return await self._end_lost(attempt, Loss.SEND_FAILED, route) or LostAttempt(Loss.SEND_FAILED)
        self._went(work, wanted, assignment)
        return sent

    def _went(self, work: Work, wanted: Try, assignment: Assignment) -> None:
        if wanted.number == 1 and not wanted.renewal:
            metrics.DISPATCH_SECONDS.observe(self._clock() - work.said_at_s)
        if work.trail is not None:
            work.trail.sent()
        self._assignments.sent(assignment)

    async def _unsent(self, assignment: Assignment, report: Report) -> Report:
        """It ended before it was sent. If it was cancelled, no node has it, so its slot need not linger."""
        if isinstance(report, Cancelled):
            return await self._end_lost(assignment.attempt, Loss.CANCELLED) or report
        return report

    async def _follow(self, assignment: Assignment, sent: Sent, run_ms: int, silence: str) -> Report:
        """The first wait brought no report. Local timers come first; the sweep of any instance is the net below."""
        route, ack_ms, advances = sent.route, sent.ack_ms, sent.advances
        spared_at, report = -1, assignment.report
        while report is None:
            if assignment.advances > advances:
                # The node moved on, and its deadline with it, to later or sooner.
                timeout_ms, advances = assignment.allowed_ms or run_ms, assignment.advances
                report = await assignment.wait(timeout_ms / 1000)
                continue
            # Spared once and nothing moved since: the deadline in Redis is from another time, its clock was put back.
            if_overdue = spared_at != assignment.advances
            spared_at = assignment.advances
            if advances or not ack_ms:
                # A node that tells what it runs may still be at it, and its slot is not free before it lets go.
                lingers = await self._reports_jobs(route, assignment.attempt)
                linger_ms = self._settings.linger_ms if lingers else 0
                lost = await self._end_lost(
                    assignment.attempt, silence, route, linger_ms=linger_ms, if_overdue=if_overdue
                )
            else:
                lost = await self._end_lost(assignment.attempt, Loss.ACK_TIMEOUT, route, if_overdue=if_overdue)
            if lost is not None:
                return assignment.report or lost
            # It is not overdue after all: the acknowledgement moved the deadline.
            timeout_ms, advances = assignment.allowed_ms or run_ms, assignment.advances
            report = await assignment.wait(timeout_ms / 1000)
        return report

    async def _reports_jobs(self, route: Route, attempt: Attempt) -> bool:
        try:
            return await route.reports_jobs(attempt)
        except RedisAway:
            return False

    async def _end_lost(
        self,
        attempt: Attempt,
        reason: str,
        route: Route | None = None,
        *,
        linger_ms: int = 0,
        if_overdue: bool = False,
    ) -> LostAttempt | Cancelled | None:
        """End an attempt ourselves; None when it was to end only if overdue, and is not."""
        try:
            ended = await self._endings.lose(attempt, reason, if_overdue=if_overdue, linger_ms=linger_ms)
            # It was not ours to end: perhaps it was cancelled, and the signal got lost. (Its slot may linger on.)
            if ended.outcome in (EndOutcome.STALE, EndOutcome.ALIVE) and await self._jobs.is_cancelled(
                attempt.shard, attempt.job_id
            ):
                return Cancelled()
        except RedisAway:
            # The lease expires by itself; the job continues without it.
            return LostAttempt(reason)
        if ended.outcome is EndOutcome.ALIVE:
            return None
        if route is not None and not linger_ms:
            route.forget(attempt)
        return LostAttempt(reason)
