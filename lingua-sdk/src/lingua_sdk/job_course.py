"""How far a job of a node has come, for the line in the node's log when it is given up."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from lingua_sdk.domain.losses import Loss, known_reason

_TOO_SLOW = frozenset({Loss.JOB_TIMEOUT, Loss.PART_TIMEOUT, Loss.NO_ANSWER, Loss.LEASE_OVER})
_ADVICE = "an engine that needs longer calls more_time (docs/engines.md)"


class JobCourse:
    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        # The method of an engine that was called last; empty before the first, and of engines that do all stages.
        self.stage = ""
        # How a thread ended that went on after its job was cancelled.
        self.late_end = ""
        self._began_s: float | None = None
        self._given_up_s: float | None = None

    def begin(self) -> None:
        self._began_s = time.monotonic()

    def give_up(self, said: str | None) -> tuple[str, str]:
        """The event and its detail; `said` is the reason that the scheduler gives."""
        self._given_up_s = time.monotonic()
        reason = known_reason(said or Loss.CANCELLED)
        event = "job cancelled" if reason == Loss.CANCELLED else "job given up"
        where = f"{self.job_id} {self.stage}" if self.stage else self.job_id
        if self._began_s is None:
            return event, f"{where}: {reason} before it began"
        told = f"{where}: {reason} after {self._given_up_s - self._began_s:.1f} s"
        return event, f"{told}; {_ADVICE}" if reason in _TOO_SLOW else told

    def dropped(self, ended: str) -> str:
        """What is told of an engine that ended after its job was given up; empty if there is nothing to tell."""
        if not ended or self._given_up_s is None or self._began_s is None:
            return ""
        now_s = time.monotonic()
        late_s = now_s - self._given_up_s
        return f"{self.job_id}: the engine {ended} after {now_s - self._began_s:.1f} s, {late_s:.1f} s too late"


@contextmanager
def following(course: JobCourse) -> Iterator[None]:
    token = _COURSE.set(course)
    try:
        yield
    finally:
        _COURSE.reset(token)


def reached(stage: str) -> None:
    """Called by a pipeline; outside a job of a node it does nothing."""
    if (course := _COURSE.get()) is not None:
        course.stage = stage


def ended_late(error: BaseException | None) -> None:
    if (course := _COURSE.get()) is not None:
        course.late_end = "returned" if error is None else f"raised {type(error).__name__}"


_COURSE: ContextVar[JobCourse | None] = ContextVar("course", default=None)
