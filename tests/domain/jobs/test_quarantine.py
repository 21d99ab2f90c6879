"""Only what a node did badly counts against it."""

from itertools import product

import pytest

from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.domain.jobs.quarantine import Mark, mark_of
from lingua_sdk.domain.errors import RETRYABLE, ErrorCode
from lingua_sdk.domain.losses import known_reason

NO_FAULT = {"NODE_OVERLOADED", "MODEL_NOT_AVAILABLE", "WS_DISCONNECTED"}


@pytest.mark.parametrize(("event", "reason"), list(product((JobEvent.FINISH, JobEvent.FIND_NO_TEXT), ("", "anything"))))
def test_an_answer_speaks_for_the_node(event: JobEvent, reason: str) -> None:
    assert mark_of(event, reason) is Mark.GOOD


@pytest.mark.parametrize("reason", sorted({*RETRYABLE, "ack_timeout", "job_timeout"} - NO_FAULT))
def test_an_error_or_silence_speaks_against_it(reason: str) -> None:
    assert mark_of(JobEvent.LOSE_ATTEMPT, reason) is Mark.BAD


@pytest.mark.parametrize(
    "reason",
    [
        *sorted(NO_FAULT),
        "node_gone",
        "node_silent",
        "node_returned",
        "send_failed",
        "disowned",
        "lease_over",
        "part_timeout",
        "",
    ],
)
def test_a_node_that_refuses_or_is_gone_is_not_a_bad_node(reason: str) -> None:
    assert mark_of(JobEvent.LOSE_ATTEMPT, reason) is Mark.NONE


@pytest.mark.parametrize("code", sorted(set(ErrorCode) - RETRYABLE))
def test_what_would_fail_anywhere_is_the_utterances_own_fault(code: ErrorCode) -> None:
    assert mark_of(JobEvent.FAIL, code.value) is Mark.NONE


def test_a_made_up_code_does_not_shift_the_blame() -> None:
    assert mark_of(JobEvent.LOSE_ATTEMPT, known_reason("CAT_ON_KEYBOARD")) is Mark.BAD


@pytest.mark.parametrize("event", [JobEvent.CANCEL, JobEvent.FAIL, JobEvent.ACCEPT])
def test_what_the_scheduler_decides_says_nothing_of_the_node(event: JobEvent) -> None:
    assert mark_of(event, "") is Mark.NONE
