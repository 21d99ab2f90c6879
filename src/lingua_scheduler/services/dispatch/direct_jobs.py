"""Jobs without a task: the usual course of a job, driven by callbacks, because a task and its coroutines cost much.

Whatever is unusual (no free slot, a node of another instance, a failure, a deadline) continues in a task, from where
it is: the job is put to `Dispatcher` with all that is known of it."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.jobs.retry_course import RetryCourse
from lingua_scheduler.services.attempts.reports import Answered
from lingua_scheduler.services.attempts.work import Outcome, Work
from lingua_scheduler.services.dispatch.dispatcher import Dispatcher
from lingua_scheduler.services.dispatch.placing import Aim, Asked, Placer
from lingua_scheduler.services.dispatch.running import AttemptRunner, Sent, Slot
from lingua_scheduler.store.connection import NotDone, RedisAway
from lingua_scheduler.store.jobs.jobs import Dispatched
from lingua_scheduler.telemetry import logs
from lingua_sdk.domain.errors import ErrorCode

_log = logs.get()

SURPRISED = Outcome(JobState.FAILED, "", error=ErrorCode.INTERNAL_ERROR, detail="the scheduler failed")

Rest = Callable[[], Coroutine[Any, Any, Outcome]]


class DirectJobs:
    """Those of one instance. Each ends with one call: of `ended`, or of `goes_on` with what a task has to do."""

    def __init__(self, dispatcher: Dispatcher, placer: Placer, runner: AttemptRunner) -> None:
        self.dispatcher = dispatcher
        self.placer = placer
        self.runner = runner
        self._jobs: set[DirectJob] = set()
        self._idle: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._jobs)

    def start(self, work: Work, ended: Callable[[Outcome], None], goes_on: Callable[[Rest], None]) -> bool:
        """False if its beginning is unusual already: nothing was done then."""
        # Traces and debug events tell of every step: those are told by the task.
        if work.trail is not None or work.request is not None or logs.shows_debug:
            return False
        aim = self.placer.aim(work)
        if aim is None:
            return False
        job = DirectJob(self, work, self.dispatcher.begin(work), ended, goes_on)
        self._jobs.add(job)
        job.ask(self, aim)
        return True

    def over(self, job: "DirectJob") -> None:
        self._jobs.discard(job)
        if self._idle is not None and not self._jobs and not self._idle.done():
            self._idle.set_result(None)

    async def settle(self, timeout_s: float) -> int:
        """Let them end or become tasks, for a while; return how many did not."""
        if self._jobs:
            self._idle = asyncio.get_running_loop().create_future()
            await asyncio.wait((self._idle,), timeout=timeout_s)
            self._idle = None
        return len(self._jobs)

    def close(self) -> None:
        """Follow them no longer: the process ends."""
        for job in list(self._jobs):
            job.abandon()


class DirectJob:
    __slots__ = ("_asked", "_course", "_ended", "_goes_on", "_jobs", "_sent", "_slot", "_work")

    def __init__(
        self,
        jobs: DirectJobs,
        work: Work,
        course: RetryCourse,
        ended: Callable[[Outcome], None],
        goes_on: Callable[[Rest], None],
    ) -> None:
        self._jobs: DirectJobs | None = jobs
        self._work = work
        self._course = course
        self._ended = ended
        self._goes_on = goes_on
        self._asked: Asked | None = None
        self._slot: Slot | None = None
        self._sent: Sent | None = None

    def ask(self, jobs: DirectJobs, aim: Aim) -> None:
        """Ask for a slot."""
        try:
            asked = self._asked = jobs.placer.ask(self._work, self._course.wanted, aim)
            asked.reply.add_done_callback(self.placed)
        except RedisAway:
            self._leave(jobs, partial(jobs.dispatcher.go_on, self._work, self._course))
        except Exception:
            self._surprised()

    def placed(self, reply: asyncio.Future[Dispatched]) -> None:
        """Redis answered the question for a slot, or did not."""
        jobs, asked = self._jobs, self._asked
        if jobs is None or asked is None:
            return
        try:
            self._placed(jobs, asked, reply)
        except Exception:
            self._surprised()

    def ring(self) -> None:
        """The node answered or moved on, the attempt was lost, or its time is up."""
        jobs, slot, sent = self._jobs, self._slot, self._sent
        if jobs is None or slot is None or sent is None:
            return
        try:
            report = slot.assignment.report
            if type(report) is Answered:
                self._answered(jobs, slot, sent, report)
            elif report is not None or not jobs.runner.moved_on(slot, sent, self._course.wanted):
                # Its end is not the node's answer: what has to be done about it may take a while.
                slot.assignment.unlisten()
                self._leave(jobs, partial(jobs.dispatcher.go_on, self._work, self._course, slot, sent))
        except Exception:
            self._surprised()

    def abandon(self) -> None:
        jobs, self._jobs = self._jobs, None
        if jobs is not None:
            jobs.over(self)
            if self._slot is not None:
                jobs.runner.over(self._slot)

    def _placed(self, jobs: DirectJobs, asked: Asked, reply: asyncio.Future[Dispatched]) -> None:
        work, course = self._work, self._course
        error = reply.exception()
        if error is not None:
            if not isinstance(error, RedisAway):
                raise error
            if not isinstance(error, NotDone):
                course.wanted.doubtful = (*course.wanted.doubtful, asked.shard)
            self._leave(jobs, partial(jobs.dispatcher.go_on, work, course))
            return
        dispatched = reply.result()
        attempt = jobs.placer.asked(work, course.wanted, asked, dispatched)
        if attempt is None:
            self._leave(jobs, partial(jobs.dispatcher.go_on, work, course))
            return
        course.on_placed(attempt, dispatched.features.acknowledges)
        slot = self._slot = jobs.runner.open(work, attempt, dispatched)
        sent = self._sent = jobs.runner.send_here(work, course.wanted, slot)
        if sent is None:
            self._leave(jobs, partial(jobs.dispatcher.go_on, work, course, slot))
        elif slot.assignment.report is None:
            jobs.runner.listen(slot, sent, course.wanted, self)
        else:
            self.ring()

    def _answered(self, jobs: DirectJobs, slot: Slot, sent: Sent, report: Answered) -> None:
        jobs.runner.over(slot)
        outcome = jobs.dispatcher.ended(self._work, self._course, slot, report, sent.at_s)
        if outcome is None:
            self._leave(jobs, partial(jobs.dispatcher.go_on_after, self._work, self._course, slot, report))
            return
        self._jobs = None
        jobs.over(self)
        self._tell(outcome)

    def _leave(self, jobs: DirectJobs, rest: Rest) -> None:
        self._jobs = None
        # First: until it is a task it counts as a job here.
        self._goes_on(rest)
        jobs.over(self)

    def _surprised(self) -> None:
        """Every utterance gets an outcome, also after an unexpected exception."""
        _log.exception("job.surprised")
        if self._jobs is not None:
            self.abandon()
            self._tell(SURPRISED)

    def _tell(self, outcome: Outcome) -> None:
        try:
            self._ended(outcome)
        except Exception:
            _log.exception("job.surprised")
