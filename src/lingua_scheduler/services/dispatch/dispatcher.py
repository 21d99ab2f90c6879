"""From an utterance to its outcome: place the job on a node, follow it, and retry on another node if it fails."""

import asyncio
import random
import secrets
from collections.abc import Callable
from functools import partial
from itertools import count

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.jobs.attempts import Attempt, NoteOutcome, Try
from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.domain.jobs.retry_budget import RetryBudget
from lingua_scheduler.domain.jobs.retry_course import RetryCourse, RetryRules
from lingua_scheduler.domain.jobs.retry_steps import CANCELLED, GiveUp, PlaceJob, PlaceWhenBack, Renew, Renewal
from lingua_scheduler.services.attempts.reports import Answered, Cancelled, Report
from lingua_scheduler.services.attempts.timings import measure_stages
from lingua_scheduler.services.attempts.work import Outcome, Work
from lingua_scheduler.services.dispatch.leftovers import CONTINUED, Leftovers
from lingua_scheduler.services.dispatch.outcomes import failed, outcome_of, over
from lingua_scheduler.services.dispatch.placing import Placed, Placer
from lingua_scheduler.services.dispatch.recording import Recorder
from lingua_scheduler.services.dispatch.running import AttemptRunner, Sent, Slot
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.connection import RedisAway, WritesRefused
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import logs, metrics
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.domain.losses import REASONS, known_cause

_log = logs.get()


_LOST = metrics.by(metrics.ATTEMPTS_LOST, *REASONS)


class Dispatcher:
    def __init__(
        self,
        store: Store,
        placer: Placer,
        runner: AttemptRunner,
        recorder: Recorder,
        settings: Settings,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        # An instance's id may be long, and is used again when it restarts; this is short, and new.
        self._token = secrets.token_hex(4)
        self._store = store
        self._placer = placer
        self._runner = runner
        self._recorder = recorder
        self._settings = settings.job
        self._serials = count(1)
        self._rules = RetryRules(
            settings.job.max_retries,
            settings.dispatch.queue_wait_ms / 1000,
            RetryBudget(settings.job.retry_percent, settings.job.retry_burst),
        )
        self.retries_made = 0
        # Hears how each attempt ended, after how many seconds, and how long its audio was (0: not known).
        self.on_ended: Callable[[Attempt, Report, float, int], None] = _tell_nobody
        self.leftovers = Leftovers(store, runner, settings.job, clock)

    async def translate(self, work: Work) -> Outcome:
        """Always returns an outcome: a result, or the reason why there is none."""
        return await self.go_on(work, self.begin(work))

    async def go_on(
        self, work: Work, course: RetryCourse, slot: Slot | None = None, sent: Sent | None = None
    ) -> Outcome:
        """Continue from where it is: not placed yet, placed in a slot, or sent."""
        while True:
            if slot is None:
                placed = await self.place(work, course)
                if isinstance(placed, Outcome):
                    return placed
                slot = placed
            outcome = await self.run(work, course, slot, sent)
            if outcome is not None:
                return outcome
            slot = sent = None

    async def go_on_after(self, work: Work, course: RetryCourse, slot: Slot, report: Report) -> Outcome:
        """Continue after the loss of an attempt."""
        logs.bind(job_id=slot.attempt.job_id, node_id=slot.attempt.node_id)
        outcome = await self._carry_out(work, course, self._lost(work, course, report))
        return await self.go_on(work, course) if outcome is None else outcome

    def begin(self, work: Work, *, is_id_promised: bool = False) -> RetryCourse:
        """The course of one utterance, to be driven by `place` and `run` in turns. A promised job id is kept to."""
        give_up_at = work.give_up_at_s or self._clock() + self._settings.deadline_ms / 1000
        wanted = Try(1, self._serial(), self._run_ms(work), give_up_at=give_up_at)
        course = RetryCourse(self._rules, wanted, work.pools[0], work.wish.preferred_node, is_id_promised, work.is_call)
        course.begin()
        return course

    async def place(self, work: Work, course: RetryCourse) -> Slot | Outcome:
        """A slot at a node for the next attempt, to be used with `run` or given back; or how the job ended without."""
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
                self.leftovers.let_go(wanted, placed.attempt)
            if placed.attempt is not None and placed.dispatched is not None:
                course.on_placed(placed.attempt, placed.dispatched.features.acknowledges)
                return self._runner.open(work, placed.attempt, placed.dispatched)
            outcome = await self._carry_out(work, course, course.on_not_placed(placed.outcome, placed.shard))
            if outcome is not None:
                return outcome

    async def run(self, work: Work, course: RetryCourse, slot: Slot, sent: Sent | None = None) -> Outcome | None:
        """Send the job, unless it was, and follow it to its outcome.

        None when the attempt was lost and another is to be placed."""
        sent_at_s = self._clock() if sent is None else sent.at_s
        report = await self._runner.run(work, course.wanted, slot, sent)
        outcome = self.ended(work, course, slot, report, sent_at_s)
        if outcome is not None:
            return outcome
        return await self._carry_out(work, course, self._lost(work, course, report))

    def ended(self, work: Work, course: RetryCourse, slot: Slot, report: Report, sent_at_s: float) -> Outcome | None:
        """The outcome, if this attempt was the last one; None when it was lost."""
        away_s = self._clock() - sent_at_s
        has_audio = work.audio_ref is None and work.text is None
        self.on_ended(slot.assignment.attempt, report, away_s, work.duration_ms if has_audio else 0)
        return self._ended(work, course, report, away_s)

    def forget(self, slot: Slot) -> None:
        """Something failed before the job was sent, and its outcome is not followed any more."""
        self._runner.forget(slot)

    async def give_back(self, course: RetryCourse, slot: Slot) -> Outcome:
        """End the job before it was sent: its caller does not want it any more."""
        await self._runner.give_back(slot)
        return over(course.on_withdrawn(), course)

    async def _place_when_back(self, work: Work, course: RetryCourse, error: RedisAway) -> Placed | Outcome:
        decision = course.on_redis_away(self._clock(), refuses_writes=isinstance(error, WritesRefused))
        if isinstance(decision, PlaceWhenBack):
            place = partial(self._placer.place, work, course.wanted)
            try:
                return await self._store.insist(place, decision.patience_s, bears_refusal=False)
            except RedisAway as again:
                return await self._place_when_back(work, course, again)
        _log.warning("job.unplaced", error=str(error))
        # Redis may have begun the job, and reads what it was sent before it stood still when it goes on.
        self._fail_when_back(work, course.wanted, ErrorCode.SCHEDULER_DEPENDENCY_DOWN, decision.detail)
        return over(decision, course)

    def _ended(self, work: Work, course: RetryCourse, report: Report, away_s: float) -> Outcome | None:
        """The outcome, if this attempt was the last one; None when it was lost."""
        if work.trail is not None:
            work.trail.reported(report)
        if isinstance(report, Answered):
            result, (event, reason) = report.result, report.meaning
            metrics.ATTEMPT_SECONDS.observe(away_s)
            end = course.on_result(event, reason)
            if end is None:
                return None
            measure_stages(result)
            return outcome_of(end, result, course, away_s)
        if isinstance(report, Cancelled):
            return over(course.on_cancelled(), course)
        return None

    def _lost(self, work: Work, course: RetryCourse, report: Report) -> PlaceJob | GiveUp:
        """What to do about the loss of an attempt, after telling of it."""
        if isinstance(report, Answered):
            error = report.result.error
            cause = known_cause(error.details) if error is not None else ""
            decision = course.on_failed(report.meaning.reason, self._clock(), random.random(), cause)
        else:
            decision = course.on_lost(report.reason, self._clock(), random.random())
        reason, wanted = course.lost, course.wanted
        _LOST[reason].inc()
        _log.info("attempt.lost", attempt=wanted.number - 1, reason=reason)
        headline = f"attempt {wanted.number - 1} on {wanted.last_node} was lost: {reason}"
        self._recorder.explain(work, wanted.shard, wanted.job_id, wanted.tried, headline)
        if isinstance(decision, PlaceJob):
            metrics.RETRIES.labels("made", reason).inc()
            self.retries_made += 1
        elif decision.denial is not None:
            metrics.RETRIES.labels(decision.denial, reason).inc()
        return decision

    async def _carry_out(self, work: Work, course: RetryCourse, decision: PlaceJob | Renew | GiveUp) -> Outcome | None:
        """None when the next try is to be placed."""
        match decision:
            case PlaceJob(pause_s):
                if pause_s:
                    await asyncio.sleep(pause_s)
                return None
            case Renew():
                return await self._renew(course, decision)
            case GiveUp():
                return await self._give_up(work, course.wanted, decision)

    async def _renew(self, course: RetryCourse, decision: Renew) -> Outcome | None:
        """Continue under a new job id, unless the job was cancelled meanwhile."""
        if decision.pause_s:
            await asyncio.sleep(decision.pause_s)
        wanted = course.wanted
        if await (self._is_given_up(wanted) if decision.is_open else self._is_cancelled(wanted)):
            return over(course.on_cancelled(), course)
        match decision.cause:
            case Renewal.RESULT_LOST:
                _log.warning("result.lost", job_id=wanted.job_id)
            case Renewal.CLOSED_ELSEWHERE:
                _log.warning("job.closed_elsewhere", job_id=wanted.job_id)
        course.on_renewed(self._serial())
        return None

    def _serial(self) -> str:
        return f"{self._token}-{next(self._serials):x}"

    async def _is_given_up(self, wanted: Try) -> bool:
        """Close a job that continues under another id; True if it was cancelled meanwhile and must not continue."""
        if not wanted.job_id:
            # It began anew and had no attempt since.
            return False
        try:
            is_closed = await self._store.jobs.close(
                wanted.shard, wanted.job_id, wanted.number - 1, JobEvent.CANCEL, CONTINUED
            )
        except RedisAway:
            self.leftovers.close(wanted, JobEvent.CANCEL, CONTINUED)
            return False
        return not is_closed and await self._is_cancelled(wanted)

    async def _is_cancelled(self, wanted: Try) -> bool:
        try:
            return await self._store.jobs.is_cancelled(wanted.shard, wanted.job_id)
        except RedisAway:
            return False

    async def _give_up(self, work: Work, wanted: Try, decision: GiveUp) -> Outcome:
        """No node, or no other node: close the job if there is one, and say why."""
        error = decision.error
        if not decision.is_open:
            if await self._is_cancelled(wanted):
                return Outcome(CANCELLED.state, wanted.job_id, detail=CANCELLED.detail)
            _log.warning("result.lost", job_id=wanted.job_id)
            return failed(wanted, error, decision.detail)
        detail = decision.detail or await self._recorder.missing_for(work)
        try:
            if wanted.number == 1:
                noted = await self._recorder.refused(work, wanted, error, detail)
                is_closed = noted is not NoteOutcome.STALE
                if noted is None:
                    self._fail_when_back(work, wanted, error, detail)
            else:
                is_closed = await self._store.jobs.close(
                    wanted.shard, wanted.job_id, wanted.number - 1, JobEvent.FAIL, detail
                )
                self._recorder.explain(work, wanted.shard, wanted.job_id, wanted.tried, detail)
            if not is_closed and await self._store.jobs.is_cancelled(wanted.shard, wanted.job_id):
                return Outcome(CANCELLED.state, wanted.job_id, detail=CANCELLED.detail)
        except RedisAway:
            self._fail_when_back(work, wanted, error, detail)
        return failed(wanted, error, detail)

    def _fail_when_back(self, work: Work, wanted: Try, error: ErrorCode, detail: str) -> None:
        note = partial(self._recorder.note_of, work, error=error.value, detail=detail)
        self.leftovers.close(wanted, JobEvent.FAIL, detail, note)

    def _run_ms(self, work: Work) -> int:
        settings = self._settings
        wanted_ms = settings.timeout_base_ms + settings.timeout_factor * work.duration_ms
        return int(wanted_ms if wanted_ms < settings.timeout_max_ms else settings.timeout_max_ms)


def _tell_nobody(attempt: Attempt, report: Report, took_s: float, audio_ms: int) -> None:
    """Until a counter is set."""
