"""What a node's result means for its job."""

from typing import Any

import pytest

from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.domain.jobs.quarantine import Mark, mark_of
from lingua_scheduler.services.attempts.meaning import meaning_of
from lingua_sdk.domain.losses import Loss
from lingua_sdk.protocol.node import JobResult
from lingua_sdk.protocol.shapes import JobError


def result(**more: Any) -> JobResult:
    about: dict[str, Any] = {"job_id": "job-0-1", "attempt_id": 1, "node_id": "n", "session_id": "s"}
    return JobResult(**about | {"utterance_index": 0, "success": True, "trace_id": "t"} | more)


def failure(code: str, message: str = "") -> JobResult:
    return result(success=False, error=JobError(code=code, message=message))


@pytest.mark.parametrize(
    ("said", "event", "reason"),
    [
        (result(text_asr="hello"), JobEvent.FINISH, ""),
        (result(extra={"reason": "ASR_EMPTY"}), JobEvent.FIND_NO_TEXT, ""),
        (result(extra={"reason": "NO_TEXT_ASSIGNED"}), JobEvent.FIND_NO_TEXT, ""),
        (result(extra={"reason": ["ASR_EMPTY"]}), JobEvent.FINISH, ""),
        (failure("NODE_OVERLOADED"), JobEvent.LOSE_ATTEMPT, "NODE_OVERLOADED"),
        (failure("PROCESSING_ERROR", "DUPLICATE_JOB: seen"), JobEvent.LOSE_ATTEMPT, Loss.DUPLICATE),
        (failure("INVALID_MESSAGE", "DUPLICATE_JOB"), JobEvent.FAIL, "INVALID_MESSAGE"),
        (failure("MADE_UP"), JobEvent.LOSE_ATTEMPT, "other"),
        (result(success=False), JobEvent.LOSE_ATTEMPT, "PROCESSING_ERROR"),
    ],
)
def test_a_result_means(said: JobResult, event: JobEvent, reason: str) -> None:
    assert meaning_of(said) == (event, reason)


@pytest.mark.parametrize("reason", [Loss.NO_ANSWER, Loss.PART_TIMEOUT])
def test_what_an_existing_node_does_by_design_is_no_fault(reason: Loss) -> None:
    assert mark_of(JobEvent.LOSE_ATTEMPT, reason) is Mark.NONE


def test_a_node_that_calls_every_job_a_duplicate_is_blamed_for_it() -> None:
    assert mark_of(JobEvent.LOSE_ATTEMPT, Loss.DUPLICATE) is Mark.BAD
