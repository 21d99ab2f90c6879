"""The outcome of a job, from the decision that ended it."""

from lingua_scheduler.domain.jobs.attempts import Try
from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.jobs.retry_course import RetryCourse
from lingua_scheduler.domain.jobs.retry_steps import End
from lingua_scheduler.services.attempts.work import Outcome
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.protocol.node import JobResult


def outcome_of(end: End, result: JobResult, course: RetryCourse, away_s: float) -> Outcome:
    """Of a job that ended with the word of its node."""
    attempts = course.wanted.attempts_before + course.wanted.number
    if end.error is None:
        return Outcome(end.state, result.job_id, result, away_ms=away_s * 1000, attempts=attempts)
    return Outcome(
        end.state, result.job_id, error=end.error, detail=end.detail, node_id=result.node_id, attempts=attempts
    )


def over(end: End, course: RetryCourse) -> Outcome:
    """Of a job that ended without a result."""
    if end.error is None:
        return Outcome(end.state, course.job_id, detail=end.detail)
    return failed(course.wanted, end.error, end.detail)


def failed(wanted: Try, error: ErrorCode, detail: str) -> Outcome:
    return Outcome(
        JobState.FAILED,
        wanted.job_id,
        error=error,
        detail=detail,
        node_id=wanted.last_node,
        attempts=wanted.attempts_made,
    )
