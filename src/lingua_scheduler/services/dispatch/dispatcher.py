"""From an utterance to its outcome: find a node, hand the job over, follow it, try another when it fails."""

import asyncio
import random
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from itertools import count
from time import monotonic

import msgspec

from lingua_scheduler.domain.errors import ErrorCode
from lingua_scheduler.domain.jobs.attempts import Attempt, DispatchOutcome, EndOutcome, NoteOutcome, Try, job_id
from lingua_scheduler.domain.jobs.jobs import LIVE, JobEvent, JobState, target_of
from lingua_scheduler.domain.jobs.losses import REASONS, Loss, known_reason
from lingua_scheduler.domain.jobs.retries import RetryBudget, pause_ms
from lingua_scheduler.protocol.node import JobCancel, JobResult
from lingua_scheduler.services.attempts.assignments import Assignment, Assignments
from lingua_scheduler.services.attempts.judging import Judge
from lingua_scheduler.services.attempts.meaning import meaning_of
from lingua_scheduler.services.attempts.reports import Cancelled, Lost, Report
from lingua_scheduler.services.attempts.timings import measure_stages
from lingua_scheduler.services.attempts.work import Outcome, Work
from lingua_scheduler.services.dispatch.explaining import Explainer
from lingua_scheduler.services.dispatch.orders import assignment_of
from lingua_scheduler.services.dispatch.placing import Placer
from lingua_scheduler.services.dispatch.recording import Recorder
from lingua_scheduler.services.dispatch.routes import Route, Routes
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.connection import RedisAway, WritesRefused
from lingua_scheduler.store.jobs.jobs import Dispatched
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import logs, metrics
from lingua_scheduler.telemetry.tasks import Nursery

_log = logs.get()

NEVER_LEFT = (Loss.SEND_FAILED,)
# The node vanished or forgot the job, or the way to it broke: not its fault, and it may be back. When there is no
# other node, it is asked again; one that does not acknowledge under another job id, because it takes each id once.
VANISHED = (
    *NEVER_LEFT,
    Loss.NODE_GONE,
    Loss.NODE_SILENT,
    Loss.NODE_RETURNED,
    Loss.INSTANCE_GONE,
    Loss.DISOWNED,
)
# What is written of a dead instance's nodes is removed in a moment: no rush to fail on them again.
FIRST_RETURN_S, LONGEST_RETURN_S = 0.1, 2.0
MAX_UNSENT = 10
# An utterance whose job was closed behind our back is given to a new job this often at most.
MAX_RESTARTS = 3

# What people are told; where Redis is stays in our logs.
AWAY = "Redis is away; try again shortly"
REFUSED = "Redis takes no writes; try again later"
RESULT_LOST = "the job is over and its result was lost on the way; send the request again"

WITHDRAWN = Lost("withdrawn")
SILENCE = (Loss.JOB_TIMEOUT, Loss.PART_TIMEOUT, Loss.NO_ANSWER, Loss.LEASE_OVER, ErrorCode.JOB_TIMEOUT)

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
        self._patience_s = settings.dispatch.queue_wait_ms / 1000
        self._serials = count(1)
        self._retries = RetryBudget(settings.job.retry_percent, settings.job.retry_burst)
        self.retries_made = 0
        self.cleanups = Nursery("cleanups")

    async def translate(self, work: Work) -> Outcome:
        """Always ends, with a result or with the reason why there is none."""
        give_up_at = monotonic() + self._settings.deadline_ms / 1000
        wanted = Try(1, self._serial(), self._run_ms(work), give_up_at=give_up_at)
        lost = Lost("")
        # Whether the node that had it last said itself that it failed. One that was only silent may have answered.
        has_failed = False
        restarts = 0
        unsent = 0
        # Nodes that may be asked again, and whether under the same job id.
        innocent: dict[str, bool] = {}
        self._retries.earn()
        while True:
            if work.trail is not None:
                work.trail.wants_slot(wanted.number)
            try:
                try:
                    placed = await self._placer.place(work, wanted)
                except WritesRefused:
                    raise
                except RedisAway:
                    # The same try again when Redis is back: if it was placed after all, the answer is the same.
                    patience_s = min(self._patience_s, give_up_at - monotonic())
                    place = partial(self._placer.place, work, wanted)
                    placed = await self._store.insist(place, patience_s, bears_refusal=False)
            except RedisAway as error:
                _log.warning("job.unplaced", error=str(error))
                self._let_go(wanted)
                down = ErrorCode.SCHEDULER_DEPENDENCY_DOWN
                detail = REFUSED if isinstance(error, WritesRefused) else AWAY
                return _failed(wanted, down, detail)
            if wanted.doubtful:
                self._let_go(wanted, placed.attempt)
            if placed.outcome is DispatchOutcome.STALE and not wanted.job_id:
                # An earlier question was answered there, and the answer was lost.
                wanted.shard, wanted.job_id = placed.shard, job_id(placed.shard, wanted.serial)
            if placed.outcome is DispatchOutcome.STALE and restarts < MAX_RESTARTS:
                if await self._is_cancelled(wanted):
                    return _cancelled(wanted.job_id)
                if work.is_call and wanted.number > 1:
                    # Its caller was told this id and asks for no other.
                    _log.warning("result.lost", job_id=wanted.job_id)
                    return _failed(wanted, ErrorCode.RESULT_LOST, RESULT_LOST)
                restarts += 1
                # The job is over in Redis, and we do not know how. Either its result was lost between instances, or
                # this instance counted as dead while the job waited, and another one closed it.
                if lost.reason:
                    _log.warning("result.lost", job_id=wanted.job_id)
                else:
                    _log.warning("job.closed_elsewhere", job_id=wanted.job_id)
                # The node that had it under this id is not to blame, unless it said so, and may be the only one.
                freed = wanted.last_node if wanted.number > 1 and not has_failed else ""
                wanted = self._renewed(wanted, tuple(node for node in wanted.tried if node != freed))
                continue
            if placed.outcome is DispatchOutcome.EXHAUSTED and innocent:
                await asyncio.sleep(min(FIRST_RETURN_S * 2**unsent, LONGEST_RETURN_S))
                tried = tuple(node for node in wanted.tried if node not in innocent)
                if all(innocent.values()):
                    wanted.tried = tried
                elif await self._is_given_up(wanted):
                    return _cancelled(wanted.job_id)
                else:
                    wanted = self._renewed(wanted, tried)
                innocent.clear()
                continue
            if placed.attempt is None or placed.dispatched is None:
                return await self._give_up(work, wanted, placed.outcome, lost)
            sent_at = monotonic()
            report = await self._attempt(work, wanted, placed.attempt, placed.dispatched)
            if work.trail is not None:
                work.trail.reported(report)
            if isinstance(report, JobResult):
                away_s = monotonic() - sent_at
                metrics.ATTEMPT_SECONDS.observe(away_s)
                outcome = _outcome(report, away_s * 1000, wanted.attempts_made + 1)
                if outcome is not None:
                    measure_stages(report)
                    return outcome
                report = Lost(meaning_of(report).reason)
                has_failed = report.reason != Loss.DUPLICATE
            else:
                has_failed = False
            if isinstance(report, Cancelled):
                return _cancelled(placed.attempt.job_id)
            lost = report
            acknowledges = placed.dispatched.features.acknowledges
            may_return = lost.reason in (*VANISHED, Loss.ACK_TIMEOUT if acknowledges else Loss.DUPLICATE)
            # A caller that was told a job id follows that one.
            may_return = may_return and (acknowledges or work.may_send is None)
            if may_return:
                innocent[placed.attempt.node_id] = acknowledges
            else:
                # It may have vanished with the job before.
                innocent.pop(placed.attempt.node_id, None)
            if lost is WITHDRAWN:
                return Outcome(JobState.CANCELLED, placed.attempt.job_id, detail="withdrawn before it was sent")
            lost = Lost(known_reason(lost.reason))
            _LOST[lost.reason].inc()
            _log.info("attempt.lost", attempt=placed.attempt.number, reason=lost.reason)
            wanted = msgspec.structs.replace(
                wanted,
                number=wanted.number + 1,
                job_id=placed.attempt.job_id,
                shard=placed.attempt.shard,
                tried=(*wanted.tried, placed.attempt.node_id),
                last_node=placed.attempt.node_id,
                awaits_return=may_return and not acknowledges,
            )
            headline = f"attempt {placed.attempt.number} on {placed.attempt.node_id} was lost: {lost.reason}"
            self._recorder.explain(work, wanted.shard, wanted.job_id, wanted.tried, headline)
            if lost.reason in (VANISHED if may_return else NEVER_LEFT):
                unsent += 1
            if not await self._may_try_again(wanted, lost, unsent):
                return await self._give_up(work, wanted, DispatchOutcome.FULL, lost)

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

    def _renewed(self, wanted: Try, tried: tuple[str, ...]) -> Try:
        """The same utterance under another job id."""
        return msgspec.structs.replace(
            wanted,
            number=1,
            serial=self._serial(),
            job_id="",
            shard=-1,
            tried=tried,
            renewal=wanted.renewal + 1,
            attempts_before=wanted.attempts_made,
        )

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

    async def _may_try_again(self, wanted: Try, lost: Lost, unsent: int) -> bool:
        """After a pause, if the loss calls for one: bounded in number, in time, and as a share of all jobs."""
        # A try that never reached its node is nobody's failure; but there is an end to those too.
        retry = wanted.attempts_made - min(unsent, MAX_UNSENT)
        if retry > self._settings.max_retries:
            return False
        pause_s = pause_ms(lost.reason, max(1, retry), random.random()) / 1000
        if monotonic() + pause_s >= wanted.give_up_at:
            metrics.RETRIES.labels("too_late", lost.reason).inc()
            return False
        if not self._retries.take():
            metrics.RETRIES.labels("over_budget", lost.reason).inc()
            return False
        metrics.RETRIES.labels("made", lost.reason).inc()
        self.retries_made += 1
        if pause_s:
            await asyncio.sleep(pause_s)
        return True

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

    async def _give_up(self, work: Work, wanted: Try, outcome: DispatchOutcome, lost: Lost) -> Outcome:
        """No node, or no other node: close the job if there is one, and say why."""
        error, detail = await self._why(work, outcome, lost)
        try:
            if wanted.number == 1:
                is_closed = await self._recorder.refused(work, wanted, error, detail) is not NoteOutcome.STALE
            else:
                is_closed = await self._store.jobs.close(
                    wanted.shard, wanted.job_id, wanted.number - 1, JobEvent.FAIL, detail
                )
                self._recorder.explain(work, wanted.shard, wanted.job_id, wanted.tried, detail)
            if not is_closed and await self._store.jobs.is_cancelled(wanted.shard, wanted.job_id):
                return _cancelled(wanted.job_id)
        except RedisAway:
            _log.warning("job.left_open", job_id=wanted.job_id)
        return _failed(wanted, error, detail)

    async def _why(self, work: Work, outcome: DispatchOutcome, lost: Lost) -> tuple[ErrorCode, str]:
        src, tgt, _ = work.pools[0].split(":")
        if lost.reason in SILENCE:
            return ErrorCode.JOB_TIMEOUT, "no node answered in time"
        if lost.reason:
            return ErrorCode.ALL_CANDIDATES_FULL_OR_FAILED, f"every try failed, the last one: {lost.reason}"
        match outcome:
            case DispatchOutcome.NOBODY:
                return ErrorCode.NO_CAPABLE_NODE, await self._explainer.missing_for(work.pools)
            case DispatchOutcome.UNFIT:
                preferred = work.wish.preferred_node
                return ErrorCode.PREFERRED_NODE_NOT_CAPABLE, f"{preferred} is not there or does not serve {src}→{tgt}"
            case _:
                return ErrorCode.ALL_CANDIDATES_FULL_OR_FAILED, f"every node for {src}→{tgt} is busy"

    def _run_ms(self, work: Work) -> int:
        wanted = self._settings.timeout_base_ms + self._settings.timeout_factor * work.duration_ms
        return int(min(wanted, self._settings.timeout_max_ms))


def _outcome(result: JobResult, away_ms: float, attempts: int) -> Outcome | None:
    """None when another node should have a try."""
    event, reason = meaning_of(result)
    if event is JobEvent.LOSE_ATTEMPT:
        return None
    state = target_of(event)
    if state is not JobState.FAILED:
        return Outcome(state, result.job_id, result, away_ms=away_ms, attempts=attempts)
    known = ErrorCode.__members__.get(reason, ErrorCode.PROCESSING_ERROR)
    return Outcome(
        state,
        result.job_id,
        error=known,
        detail="the node failed the job",
        node_id=result.node_id,
        attempts=attempts,
    )


def _failed(wanted: Try, error: ErrorCode, detail: str) -> Outcome:
    return Outcome(
        JobState.FAILED,
        wanted.job_id,
        error=error,
        detail=detail,
        node_id=wanted.last_node,
        attempts=wanted.attempts_made,
    )


def _cancelled(job_id: str) -> Outcome:
    return Outcome(JobState.CANCELLED, job_id, detail="cancelled")
