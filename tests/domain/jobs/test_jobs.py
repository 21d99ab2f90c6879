"""The table of moves: complete, without a way out of the end, and with one target an event."""

from itertools import product

import pytest

from lingua_scheduler.domain.jobs.jobs import (
    ENDED,
    LIVE,
    MOVES,
    JobEvent,
    JobState,
    event_of_result,
    legal_before,
    move,
    target_of,
)
from lingua_sdk.domain.errors import RETRYABLE, ErrorCode

# The whole table, written out by hand: state → event → state. What is not here is not legal.
_ENDINGS = {"finish": "DONE", "find_no_text": "NO_TEXT", "lose_attempt": "RETRYING"}
_ALWAYS = {"fail": "FAILED", "cancel": "CANCELLED"}
TABLE = {
    "CREATED": {"dispatch": "DISPATCHED", **_ALWAYS},
    "DISPATCHED": {"accept": "ACCEPTED", "start": "RUNNING", **_ENDINGS, **_ALWAYS},
    "ACCEPTED": {"start": "RUNNING", **_ENDINGS, **_ALWAYS},
    "RUNNING": {**_ENDINGS, **_ALWAYS},
    "RETRYING": {"dispatch": "DISPATCHED", **_ALWAYS},
    "DONE": {},
    "NO_TEXT": {},
    "FAILED": {},
    "CANCELLED": {},
}


@pytest.mark.parametrize(("state", "event"), list(product(JobState, JobEvent)))
def test_every_event_moves_a_job_or_is_illegal(state: JobState, event: JobEvent) -> None:
    expected = TABLE[state.value].get(event.value)
    assert move(state, event) == (None if expected is None else JobState(expected))


def test_every_state_is_alive_or_ended_or_between_attempts() -> None:
    assert sorted((*LIVE, *ENDED, JobState.CREATED, JobState.RETRYING)) == sorted(JobState)


@pytest.mark.parametrize("state", ENDED)
def test_nothing_moves_a_job_that_has_ended(state: JobState) -> None:
    assert [event for event in JobEvent if move(state, event)] == []


@pytest.mark.parametrize("event", JobEvent)
def test_every_event_leads_to_one_state_wherever_it_happens(event: JobEvent) -> None:
    targets = {target for (_, other), target in MOVES.items() if other is event}
    assert targets == {target_of(event)}


@pytest.mark.parametrize("event", JobEvent)
def test_an_event_is_legal_exactly_where_it_moves(event: JobEvent) -> None:
    assert set(legal_before(event)) == {state for state in JobState if move(state, event)}
    assert len(legal_before(event)) == len(set(legal_before(event)))


def reachable_from(start: JobState) -> set[JobState]:
    found: set[JobState] = set()
    waiting = [start]
    while waiting:
        state = waiting.pop()
        for event in JobEvent:
            target = move(state, event)
            if target is not None and target not in found:
                found.add(target)
                waiting.append(target)
    return found


def test_a_new_job_can_come_to_every_other_state() -> None:
    assert reachable_from(JobState.CREATED) == set(JobState) - {JobState.CREATED}


@pytest.mark.parametrize("state", [state for state in JobState if state not in ENDED])
def test_a_job_that_has_not_ended_can_always_end_either_way(state: JobState) -> None:
    assert set(ENDED) <= reachable_from(state)


@pytest.mark.parametrize("state", LIVE)
def test_whatever_happens_to_a_live_attempt_its_slot_can_come_back(state: JobState) -> None:
    for event in (JobEvent.FINISH, JobEvent.FIND_NO_TEXT, JobEvent.LOSE_ATTEMPT, JobEvent.FAIL, JobEvent.CANCEL):
        assert move(state, event) not in LIVE


# What a node's result means


def test_a_successful_result_finishes_the_job() -> None:
    assert event_of_result(True, None, None) is JobEvent.FINISH
    assert event_of_result(True, "anything else", None) is JobEvent.FINISH


@pytest.mark.parametrize("reason", ["ASR_EMPTY", "NO_TEXT_ASSIGNED"])
def test_a_node_that_heard_nothing_ends_the_job_without_text(reason: str) -> None:
    assert event_of_result(True, reason, None) is JobEvent.FIND_NO_TEXT


def test_the_success_flag_counts_more_than_the_reason_and_the_error() -> None:
    assert event_of_result(False, "ASR_EMPTY", "NODE_OVERLOADED") is JobEvent.LOSE_ATTEMPT
    assert event_of_result(True, None, "INVALID_MESSAGE") is JobEvent.FINISH


@pytest.mark.parametrize("code", sorted(RETRYABLE))
def test_another_node_gets_a_try_when_this_one_could_not(code: ErrorCode) -> None:
    assert event_of_result(False, None, code.value) is JobEvent.LOSE_ATTEMPT


@pytest.mark.parametrize("code", sorted(set(ErrorCode) - RETRYABLE))
def test_an_error_that_would_come_again_fails_the_job(code: ErrorCode) -> None:
    assert event_of_result(False, None, code.value) is JobEvent.FAIL


@pytest.mark.parametrize("code", [None, ""])
def test_a_failure_without_a_code_is_tried_elsewhere(code: str | None) -> None:
    assert event_of_result(False, None, code) is JobEvent.LOSE_ATTEMPT


@pytest.mark.parametrize("code", ["CAT_ON_KEYBOARD", "other", "invalid_message"])
def test_a_code_nobody_knows_is_tried_elsewhere(code: str) -> None:
    assert event_of_result(False, None, code) is JobEvent.LOSE_ATTEMPT


@pytest.mark.parametrize("reason", [5, None, 0.5, True, ["ASR_EMPTY"], {"why": "ASR_EMPTY"}])
def test_a_reason_that_is_no_text_is_no_reason(reason: object) -> None:
    assert event_of_result(True, reason, None) is JobEvent.FINISH
