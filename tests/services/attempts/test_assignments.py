"""Who waits for an attempt hears how it ended, once; nobody else does."""

import asyncio
import gc

import pytest

from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.services.attempts.assignments import Assignment, Assignments, AttemptStep
from lingua_scheduler.services.attempts.reports import Answered, Cancelled, LostAttempt, answered
from lingua_sdk.protocol.node import JobResult
from tests.support.speech import work

# As plain values: a limit that changes is noticed.
CANCELLED_MAX = 1_000

LONG_S = 60.0
WORK = work(utterance_index=3)
FIRST = Attempt("job-0-1", 1, "node-a", 0)
SECOND = Attempt("job-0-1", 2, "node-b", 0)


def result(attempt: Attempt) -> Answered:
    return answered(
        JobResult(
            job_id=attempt.job_id,
            attempt_id=attempt.number,
            node_id=attempt.node_id,
            session_id="s-1",
            utterance_index=0,
            success=True,
            trace_id="t",
        )
    )


@pytest.fixture
def assignments() -> Assignments:
    return Assignments(lambda step, assignment: None)


@pytest.fixture
def first(assignments: Assignments) -> Assignment:
    return assignments.open(FIRST, WORK)


async def test_who_waits_is_told(assignments: Assignments, first: Assignment) -> None:
    waiting = asyncio.create_task(first.wait(LONG_S))
    await asyncio.sleep(0)
    report = result(FIRST)
    assignments.settle(FIRST, report)
    assert await waiting is report


async def test_a_report_that_came_before_the_wait_is_not_lost(assignments: Assignments, first: Assignment) -> None:
    assignments.settle(FIRST, LostAttempt("node_gone"))
    assert await first.wait(LONG_S) == LostAttempt("node_gone")
    assert await first.wait(LONG_S) == LostAttempt("node_gone")


async def test_only_the_first_report_counts(assignments: Assignments, first: Assignment) -> None:
    assignments.settle(FIRST, LostAttempt("node_gone"))
    assignments.settle(FIRST, result(FIRST))
    assert await first.wait(LONG_S) == LostAttempt("node_gone")


async def test_when_time_is_up_there_is_no_report_and_one_may_wait_again(
    assignments: Assignments, first: Assignment
) -> None:
    assert await first.wait(0) is None
    waiting = asyncio.create_task(first.wait(LONG_S))
    await asyncio.sleep(0)
    assignments.settle(FIRST, LostAttempt("late"))
    assert await waiting == LostAttempt("late")


async def test_who_waits_hears_that_the_node_moved_on(first: Assignment) -> None:
    waiting = asyncio.create_task(first.wait(LONG_S))
    await asyncio.sleep(0)
    first.advance()
    assert await waiting is None
    assert first.advances == 1


async def test_a_report_in_the_tick_time_is_up_is_not_lost(assignments: Assignments, first: Assignment) -> None:
    waiting = asyncio.create_task(first.wait(0))
    await asyncio.sleep(0)
    assignments.settle(FIRST, LostAttempt("just in time"))
    assert await waiting == LostAttempt("just in time")


async def test_one_who_stops_waiting_disturbs_nobody(assignments: Assignments, first: Assignment) -> None:
    waiting = asyncio.create_task(first.wait(LONG_S))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assignments.settle(FIRST, LostAttempt("later"))
    assert first.report == LostAttempt("later")


@pytest.mark.parametrize(
    "stranger",
    [
        SECOND,
        FIRST._replace(number=2),
        FIRST._replace(node_id="node-b"),
        FIRST._replace(shard=1),
        FIRST._replace(job_id="job-0-2"),
    ],
)
def test_a_report_about_another_attempt_is_nobodys(
    assignments: Assignments, first: Assignment, stranger: Attempt
) -> None:
    assignments.settle(stranger, LostAttempt("not yours"))
    assert first.report is None
    assert assignments.find(stranger) is None


def test_the_current_attempt_is_found_by_its_name_or_by_job_and_node(
    assignments: Assignments, first: Assignment
) -> None:
    assert assignments.find(FIRST) is first
    assert assignments.of_node("job-0-1", "node-a") is first
    assert assignments.of_node("job-0-1", "node-b") is None
    assert assignments.of_node("job-0-2", "node-a") is None
    assert (first.work, first.advances) == (WORK, 0)


def test_a_retry_takes_the_place_of_the_attempt_before_it(assignments: Assignments, first: Assignment) -> None:
    second = assignments.open(SECOND, WORK)
    assert assignments.find(FIRST) is None
    assert assignments.of_node("job-0-1", "node-a") is None
    assert assignments.find(SECOND) is second
    assert len(assignments) == 1


def test_the_clean_up_of_an_old_attempt_does_not_remove_the_new_one(
    assignments: Assignments, first: Assignment
) -> None:
    second = assignments.open(SECOND, WORK)
    assignments.close(first)
    assert assignments.find(SECOND) is second
    assignments.close(second)
    assignments.close(second)
    assert len(assignments) == 0


def test_what_is_closed_is_not_found(assignments: Assignments, first: Assignment) -> None:
    assignments.close(first)
    assignments.settle(FIRST, LostAttempt("too late"))
    assert assignments.find(FIRST) is None
    assert first.report is None


async def test_an_attempt_that_is_over_is_not_kept_alive_by_its_timer(assignments: Assignments) -> None:
    waiting = asyncio.create_task(assignments.open(FIRST, WORK).wait(3600))
    await asyncio.sleep(0)
    found = assignments.find(FIRST)
    assert found is not None
    found.settle(LostAttempt("over"))
    await waiting
    assignments.close(found)
    del found, waiting
    gc.collect()
    assert [thing for thing in gc.get_objects() if isinstance(thing, Assignment)] == []


def test_whoever_watches_hears_of_every_step_once() -> None:
    steps: list[tuple[AttemptStep, Attempt]] = []
    assignments = Assignments(lambda step, assignment: steps.append((step, assignment.attempt)))
    first = assignments.open(FIRST, WORK)
    assert steps == []
    assignments.sent(first)
    assignments.advanced(FIRST)
    assignments.advanced(FIRST)  # started is accepted too
    assignments.advanced(SECOND)  # nobody's
    assert steps == [(AttemptStep.DISPATCHED, FIRST), (AttemptStep.ACCEPTED, FIRST)]
    assert first.advances == 2


async def test_who_waits_for_a_cancelled_job_is_told_whatever_its_attempt(
    assignments: Assignments, first: Assignment
) -> None:
    waiting = asyncio.create_task(first.wait(LONG_S))
    await asyncio.sleep(0)
    assignments.cancel("job-0-2")
    assert first.report is None
    assignments.cancel(FIRST.job_id)
    assert await waiting == Cancelled()


async def test_a_cancel_that_overtakes_the_attempt_is_remembered_for_a_while(assignments: Assignments) -> None:
    assignments.cancel(FIRST.job_id)
    assert assignments.open(FIRST, WORK).report == Cancelled()
    for serial in range(CANCELLED_MAX):
        assignments.cancel(f"job-1-{serial}")
    assert assignments.open(SECOND, WORK).report is None


def test_a_result_is_that_of_the_node_which_had_the_job(assignments: Assignments, first: Assignment) -> None:
    report = result(FIRST)
    report.result.node_id = "another"
    assignments.settle(FIRST, report)
    assert first.report is report
    assert report.result.node_id == FIRST.node_id
