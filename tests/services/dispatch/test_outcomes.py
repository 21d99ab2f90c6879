"""The outcome of a job tells who had it, how often, and why there is no result."""

from lingua_scheduler.domain.jobs.attempts import Try
from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.jobs.retry_budget import RetryBudget
from lingua_scheduler.domain.jobs.retry_course import RetryCourse, RetryRules
from lingua_scheduler.domain.jobs.retry_steps import CANCELLED, End
from lingua_scheduler.services.attempts.work import Outcome
from lingua_scheduler.services.dispatch.outcomes import failed, outcome_of, over
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.protocol.node import JobResult

WANTED = Try(2, "1", 1_000, job_id="job-0-1", last_node="n1", attempts_before=3)
COURSE = RetryCourse(RetryRules(2, 1.0, RetryBudget(10, 10)), WANTED, "en:zh:speech")
RESULT = JobResult(
    job_id="job-0-1", attempt_id=2, node_id="n2", session_id="s", utterance_index=0, success=True, trace_id="t"
)
BROKEN = End(JobState.FAILED, ErrorCode.PROCESSING_ERROR, "the node failed the job")


def test_a_result_counts_the_attempt_that_brought_it() -> None:
    done = outcome_of(End(JobState.DONE), RESULT, COURSE, 0.25)
    assert done == Outcome(JobState.DONE, "job-0-1", RESULT, away_ms=250.0, attempts=5)


def test_an_error_of_the_node_names_the_node_and_no_result() -> None:
    expected = Outcome(
        JobState.FAILED,
        "job-0-1",
        error=ErrorCode.PROCESSING_ERROR,
        detail="the node failed the job",
        node_id="n2",
        attempts=5,
    )
    assert outcome_of(BROKEN, RESULT, COURSE, 0.25) == expected


def test_without_a_result_only_earlier_attempts_count() -> None:
    expected = Outcome(JobState.FAILED, "job-0-1", error=ErrorCode.JOB_TIMEOUT, detail="late", node_id="n1", attempts=4)
    assert failed(WANTED, ErrorCode.JOB_TIMEOUT, "late") == expected
    assert over(End(JobState.FAILED, ErrorCode.JOB_TIMEOUT, "late"), COURSE) == expected


def test_a_cancelled_job_has_no_error() -> None:
    assert over(CANCELLED, COURSE) == Outcome(JobState.CANCELLED, "job-0-1", detail=CANCELLED.detail)
