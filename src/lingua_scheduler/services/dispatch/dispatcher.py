"""From an utterance to its outcome: find a node, hand the job over, follow it, try another when it fails."""

import asyncio
import random
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from itertools import count
from time import monotonic

from lingua_scheduler.domain.errors import ErrorCode
from lingua_scheduler.domain.jobs.attempts import Attempt, EndOutcome, NoteOutcome, Try, job_id
from lingua_scheduler.domain.jobs.jobs import LIVE, JobEvent, JobState
from lingua_scheduler.domain.jobs.losses import REASONS, Loss
from lingua_scheduler.domain.jobs.retries import RetryBudget
from lingua_scheduler.domain.jobs.retry_course import RetryCourse, RetryRules
from lingua_scheduler.domain.jobs.retry_decisions import CANCELLED, End, GiveUp, Place, PlaceWhenBack, Renew, Renewal
from lingua_scheduler.protocol.node import JobCancel, JobResult
from lingua_scheduler.services.attempts.assignments import Assignment, Assignments
from lingua_scheduler.services.attempts.judging import Judge
from lingua_scheduler.services.attempts.meaning import meaning_of
from lingua_scheduler.services.attempts.reports import Cancelled, Lost, Report
from lingua_scheduler.services.attempts.timings import measure_stages
from lingua_scheduler.services.attempts.work import Outcome, Work
from lingua_scheduler.services.dispatch.explaining import Explainer
from lingua_scheduler.services.dispatch.orders import assignment_of
from lingua_scheduler.services.dispatch.placing import Placed, Placer
from lingua_scheduler.services.dispatch.recording import Recorder
from lingua_scheduler.services.dispatch.routes import Route, Routes
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.connection import RedisAway, WritesRefused
from lingua_scheduler.store.jobs.jobs import Dispatched
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import logs, metrics
from lingua_scheduler.telemetry.tasks import Nursery

_log = logs.get()

WITHDRAWN = Lost("withdrawn")

_LOST = metrics.by(metrics.ATTEMPTS_LOST, *REASONS)


class Dispatcher:
    def __init__(
        self,
        store: Store,
        judge: Judge,
        routes: Routes,
        placer: Placer,
        explainer: Explainer,
        recorder: Recorder,
        assignments: Assignments,
        settings: Settings,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        # The one on which utterances say when they ended.
        self._clock = clock
        # An instance's id may be long, and is used again when it restarts; this is short, and new.
        self._token = secrets.token_hex(4)
        self._store = store
        self._judge = judge
        self._routes = routes
        self._placer = placer
        self._explainer = explainer
        self._recorder = recorder
        self._assignments = assignments
        self._settings = settings.job
        self._serials = count(1)
        self._rules = RetryRules(
            settings.job.max_retries,
            settings.dispatch.queue_wait_ms / 1000,
            RetryBudget(settings.job.retry_percent, settings.job.retry_burst),
        )
        self.retries_made = 0
        self.cleanups = Nursery("cleanups")

    async def translate(self, work: Work) -> Outcome:
        """Always ends, with a result or with the reason why there is none."""
        give_up_at = monotonic() + self._settings.deadline_ms / 1000
        wanted = Try(1, self._serial(), self._run_ms(work), give_up_at=give_up_at)
        # Whoever decides whether it may be sent was told its job id.
        is_id_promised = work.may_send is not None
        course = RetryCourse(self._rules, wanted, work.pools[0], work.wish.preferred_node, is_id_promised, work.is_call)
        course.begin()
        while True:
            wanted = course.wanted
            if work.trail is not None:
                work.trail.wants_slot(wanted.number)
            try:
                placed = await self._placer.place(work, wanted)
            except RedisAway as error:
                answer = await self._place_when_back(work, course, error)
                if isinstance(answer, Outcome):
                    return answer
                placed = answer
            if wanted.doubtful:
                self._let_go(wanted, placed.attempt)
            if placed.attempt is None or placed.dispatched is None:
                decision: Place | Renew | GiveUp = course.on_not_placed(placed.outcome, placed.shard)
            else:
                course.on_placed(placed.attempt, placed.dispatched.features.acknowledges)
                sent_at = monotonic()
                report = await self._attempt(work, wanted, placed.attempt, placed.dispatched)
                outcome = self._ended(work, course, report, sent_at)
                if outcome is not None:
                    return outcome
                decision = self._lost(work, course, report)
            outcome = await self._carry_out(work, course, decision)
            if outcome is not None:
                return outcome

    async def _place_when_back(self, work: Work, course: RetryCourse, error: RedisAway) -> Placed | Outcome:
        decision = course.on_redis_away(monotonic(), refuses_writes=isinstance(error, WritesRefused))
        if isinstance(decision, PlaceWhenBack):
            place = partial(self._placer.place, work, course.wanted)
            try:
                return await self._store.insist(place, decision.patience_s, bears_refusal=False)
            except RedisAway as again:
                return await self._place_when_back(work, course, again)
        _log.warning("job.unplaced", error=str(error))
        self._let_go(course.wanted)
        return _over(decision, course)

    def _ended(self, work: Work, course: RetryCourse, report: Report, sent_at: float) -> Outcome | None:
        """The outcome, if this attempt was the last one; None when it was lost."""
        if work.trail is not None:
            work.trail.reported(report)
        if isinstance(report, JobResult):
            away_s = monotonic() - sent_at
            metrics.ATTEMPT_SECONDS.observe(away_s)
            event, reason = meaning_of(report)
            end = course.on_result(event, reason)
            if end is None:
                return None
            measure_stages(report)
            attempts = course.wanted.attempts_before + course.wanted.number
            if end.error is None:
                return Outcome(end.state, report.job_id, report, away_ms=away_s * 1000, attempts=attempts)
            return Outcome(
                end.state,
                report.job_id,
                error=end.error,
                detail=end.detail,
                node_id=report.node_id,
                attempts=attempts,
            )
        if isinstance(report, Cancelled):
            return _over(course.on_cancelled(), course)
        if report is WITHDRAWN:
            return _over(course.on_withdrawn(), course)
        return None

    def _lost(self, work: Work, course: RetryCourse, report: Report) -> Place | GiveUp:
        """What to do about the loss of an attempt, after telling of it."""
        if isinstance(report, JobResult):
            decision = course.on_failed(meaning_of(report).reason, monotonic(), random.random())
        else:
            decision = course.on_lost(report.reason, monotonic(), random.random())
        reason, wanted = course.lost, course.wanted
        _LOST[reason].inc()
        _log.info("attempt.lost", attempt=wanted.number - 1, reason=reason)
        headline = f"attempt {wanted.number - 1} on {wanted.last_node} was lost: {reason}"
        self._recorder.explain(work, wanted.shard, wanted.job_id, wanted.tried, headline)
        if isinstance(decision, Place):
            metrics.RETRIES.labels("made", reason).inc()
            self.retries_made += 1
        elif decision.denial is not None:
            metrics.RETRIES.labels(decision.denial, reason).inc()
        return decision

    async def _carry_out(self, work: Work, course: RetryCourse, decision: Place | Renew | GiveUp) -> Outcome | None:
        """None when the next try is to be placed."""
        match decision:
            case Place(pause_s):
                if pause_s:
                    await asyncio.sleep(pause_s)
                return None
            case Renew():
                return await self._renew(course, decision)
            case GiveUp():
                return await self._give_up(work, course.wanted, decision)

    async def _renew(self, course: RetryCourse, decision: Renew) -> Outcome | None:
        """Leave a job id behind, unless the job was cancelled meanwhile: then nothing goes on."""
        if decision.pause_s:
            await asyncio.sleep(decision.pause_s)
        wanted = course.wanted
        if await (self._is_given_up(wanted) if decision.is_open else self._is_cancelled(wanted)):
            return _over(course.on_cancelled(), course)
        match decision.cause:
            case Renewal.RESULT_LOST:
                _log.warning("result.lost", job_id=wanted.job_id)
            case Renewal.CLOSED_ELSEWHERE:
                _log.warning("job.closed_elsewhere", job_id=wanted.job_id)
        course.on_renewed(self._serial())
        return None

    def _let_go(self, wanted: Try, placed: Attempt | None = None) -> None:
        """Redis went away while it was asked for a slot, and may have leased one that nobody will use."""
        shards = set(wanted.doubtful) - ({placed.shard} if placed is not None else set())
        wanted.doubtful = ()
        for shard in shards:
            self.cleanups.start(self._end_unused(shard, wanted.job_id or job_id(shard, wanted.serial), wanted.number))

    async def _end_unused(self, shard: int, name: str, number: int) -> None:
        async def end() -> None:
            record = await self._store.jobs.read(shard, name)
            if record.get("state") in LIVE and record["attempt"] == str(number):
                unused = Attempt(name, number, record["node"], shard)
                await self._store.jobs.end(unused, "", JobEvent.LOSE_ATTEMPT, Loss.SEND_FAILED)

        with suppress(RedisAway):  # it ends at its deadline
            await self._store.insist(end, self._settings.timeout_max_ms / 1000)

    def _serial(self) -> str:
        return f"{self._token}-{next(self._serials):x}"

    async def _is_given_up(self, wanted: Try) -> bool:
        """Close a job that goes on under another id; True when it was cancelled meanwhile, so nothing goes on."""
        if not wanted.job_id:
            # It began anew and had no attempt since.
            return False
        try:
            is_closed = await self._store.jobs.close(
                wanted.shard, wanted.job_id, wanted.number - 1, JobEvent.CANCEL, "continued under another job id"
            )
        except RedisAway:
            return False
        return not is_closed and await self._is_cancelled(wanted)

    async def _is_cancelled(self, wanted: Try) -> bool:
        try:
            return await self._store.jobs.is_cancelled(wanted.shard, wanted.job_id)
        except RedisAway:
            return False

    async def _attempt(self, work: Work, wanted: Try, attempt: Attempt, dispatched: Dispatched) -> Report:
        """Send the job and wait for its end: the node's word, the loss of the node, or a deadline."""
        logs.bind(job_id=attempt.job_id, node_id=attempt.node_id)
        features = dispatched.features
        assignment = self._assignments.open(attempt, work, dispatched.owner.instance, features.acknowledges)
        try:
            if assignment.report is not None:
                # Cancelled before it left; nobody has it, so its slot need not linger.
                return await self._end_lost(attempt, Loss.CANCELLED) or assignment.report
            route = self._routes.find(attempt, dispatched.owner)
            if route is None:
                return await self._end_lost(attempt, Loss.NODE_GONE) or Lost(Loss.NODE_GONE)
            if work.may_send is not None and (stopped := await self._stopped(work.may_send, assignment, route)):
                return stopped
            ack_ms = self._settings.reservation_ttl_ms if features.acknowledges else 0
            traceparent = work.trail.leaves(attempt) if work.trail is not None else None
            order = assignment_of(work, attempt, features, ack_ms, wanted.renewal, traceparent)
            if not await route.send(attempt, order):
                return await self._end_lost(attempt, Loss.SEND_FAILED, route) or Lost(Loss.SEND_FAILED)
            if wanted.number == 1 and not wanted.renewal:
                metrics.DISPATCH_SECONDS.observe(self._clock() - work.said_at_s)
            if work.trail is not None:
                work.trail.sent()
            self._assignments.sent(assignment)
            silence = Loss.JOB_TIMEOUT if features.acknowledges else Loss.NO_ANSWER
            silence = Loss.PART_TIMEOUT if work.is_part else silence
            report = await self._follow(assignment, route, ack_ms, wanted.run_ms, silence)
            if not isinstance(report, JobResult):
                route.cancel(attempt, JobCancel(job_id=attempt.job_id, trace_id=work.trace_id, reason=report.reason))
            if isinstance(report, Cancelled) and not await self._reports_jobs(route, attempt):
                route.freed(attempt)
            return report
        finally:
            self._assignments.close(assignment)

    async def _stopped(
        self, may_send: Callable[[Attempt], Awaitable[bool]], assignment: Assignment, route: Route
    ) -> Report | None:
        """Why it must not leave: it was withdrawn, which is nobody's fault, or its lease ended while we asked."""
        is_wanted = await may_send(assignment.attempt)
        if assignment.report is not None or is_wanted:
            return assignment.report
        with suppress(RedisAway):  # the lease ends by itself
            await self._store.jobs.end(assignment.attempt, "", JobEvent.CANCEL, WITHDRAWN.reason)
        route.freed(assignment.attempt)
        return WITHDRAWN

    async def _follow(self, assignment: Assignment, route: Route, ack_ms: int, run_ms: int, silence: str) -> Report:
        """Local timers come first; the sweep of any instance is the net below them."""
        timeout_ms, advances = ack_ms or run_ms, 0
        spared_at = -1
        while (report := await assignment.wait(timeout_ms / 1000)) is None:
            if assignment.advances > advances:
                # The node moved on, and its deadline with it, to later or sooner.
                timeout_ms, advances = run_ms, assignment.advances
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
            timeout_ms, advances = run_ms, assignment.advances
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
    ) -> Lost | Cancelled | None:
        """End an attempt ourselves; None when it was to end only if overdue, and is not."""
        try:
            ended = await self._judge.end(
                attempt, "", JobEvent.LOSE_ATTEMPT, reason, if_overdue=if_overdue, linger_ms=linger_ms
            )
            # It was not ours to end: perhaps it was cancelled, and the signal got lost. (Its slot may linger on.)
            if ended.outcome in (EndOutcome.STALE, EndOutcome.ALIVE) and await self._store.jobs.is_cancelled(
                attempt.shard, attempt.job_id
            ):
                return Cancelled()
        except RedisAway:
            # The lease ends by itself; the job goes on without it.
            return Lost(reason)
        if ended.outcome is EndOutcome.ALIVE:
            return None
        if route is not None and not linger_ms:
            route.freed(attempt)
        return Lost(reason)

    async def _give_up(self, work: Work, wanted: Try, decision: GiveUp) -> Outcome:
        """No node, or no other node: close the job if there is one, and say why."""
        error = decision.error
        if not decision.is_open:
            if await self._is_cancelled(wanted):
                return _cancelled(CANCELLED, wanted.job_id)
            _log.warning("result.lost", job_id=wanted.job_id)
            return _failed(wanted, error, decision.detail)
        detail = decision.detail or await self._explainer.missing_for(work.pools)
        try:
            if wanted.number == 1:
                is_closed = await self._recorder.refused(work, wanted, error, detail) is not NoteOutcome.STALE
            else:
                is_closed = await self._store.jobs.close(
                    wanted.shard, wanted.job_id, wanted.number - 1, JobEvent.FAIL, detail
                )
                self._recorder.explain(work, wanted.shard, wanted.job_id, wanted.tried, detail)
            if not is_closed and await self._store.jobs.is_cancelled(wanted.shard, wanted.job_id):
                return _cancelled(CANCELLED, wanted.job_id)
        except RedisAway:
            _log.warning("job.left_open", job_id=wanted.job_id)
        return _failed(wanted, error, detail)

    def _run_ms(self, work: Work) -> int:
        wanted = self._settings.timeout_base_ms + self._settings.timeout_factor * work.duration_ms
        return int(min(wanted, self._settings.timeout_max_ms))


def _over(end: End, course: RetryCourse) -> Outcome:
    """The outcome of a course that ended without a result."""
    if end.error is None:
        return _cancelled(end, course.job_id)
    return _failed(course.wanted, end.error, end.detail)


def _failed(wanted: Try, error: ErrorCode, detail: str) -> Outcome:
    return Outcome(
        JobState.FAILED,
        wanted.job_id,
        error=error,
        detail=detail,
        node_id=wanted.last_node,
        attempts=wanted.attempts_made,
    )


def _cancelled(end: End, job_id: str) -> Outcome:
    return Outcome(end.state, job_id, detail=end.detail)
