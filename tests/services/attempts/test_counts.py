"""What an instance counts of its own jobs: each once, of slow and failed ones the latest few, and no words."""

import asyncio

import pytest
from structlog.testing import capture_logs

from lingua_scheduler.domain.errors import ErrorCode
from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.domain.sessions.utterances import CutReason
from lingua_scheduler.domain.watching.figures import JOBS_MAX
from lingua_scheduler.protocol.node import JobResult
from lingua_scheduler.services.attempts.counts import Books
from lingua_scheduler.services.attempts.work import Outcome, Work
from lingua_scheduler.services.dispatch.waiting import WaitingRoom, node_queue, retry_queue
from tests.support.waiting import until

WORK = Work("s-1", 0, Terms("en", "zh"), ("en:zh:speech",), b"", "pcm16", 16_000, 0, "t", "t", CutReason.IS_FINAL, 0)


def done(job_id: str) -> Outcome:
    result = JobResult(
        job_id=job_id,
        attempt_id=1,
        node_id="n1",
        session_id="s-1",
        utterance_index=0,
        success=True,
        trace_id="t",
        text_asr="secret words",
    )
    return Outcome(JobState.DONE, job_id, result, attempts=2)


def test_every_job_is_counted_by_its_state_and_time() -> None:
    books = Books(slow_ms=1_000)
    books.ended(WORK, done("j1"), 0.5)
    books.ended(WORK, Outcome(JobState.NO_TEXT, "j2"), 0.5)
    assert books.jobs_ended == {"DONE": 1, "NO_TEXT": 1, "FAILED": 0, "CANCELLED": 0}
    assert len(books.latency) == 2
    assert not books.slow
    assert not books.failures


def test_a_slow_job_is_kept_without_what_was_said() -> None:
    books = Books(slow_ms=1_000)
    books.ended(WORK, done("j1"), 1.2)
    (slow,) = books.slow
    assert (slow.job_id, slow.node_id, slow.attempts, slow.took_ms) == ("j1", "n1", 2, 1_200)
    assert "secret" not in repr(slow)


def test_a_failed_job_is_kept_with_the_code_and_the_node_that_had_it_last() -> None:
    books = Books(slow_ms=1_000)
    with capture_logs() as logged:
        books.ended(WORK, Outcome(JobState.FAILED, "j1", error=ErrorCode.JOB_TIMEOUT, node_id="n9", attempts=3), 0.1)
    (failed,) = books.failures
    (event,) = logged
    assert (event["event"], event["job_id"], event["session_id"]) == ("job.failed", "j1", "s-1")
    assert (event["code"], event["node_id"], event["src"], event["tgt"]) == ("JOB_TIMEOUT", "n9", "en", "zh")
    assert (failed.reason, failed.node_id, failed.attempts) == ("JOB_TIMEOUT", "n9", 3)
    assert (failed.src, failed.tgt) == ("en", "zh")


def test_of_a_flood_the_latest_few_are_kept_and_those_without_a_record_counted_alone() -> None:
    books = Books(slow_ms=1_000)
    for number in range(100):
        books.ended(WORK, Outcome(JobState.FAILED, f"j{number}"), 2.0)
        books.ended(WORK, Outcome(JobState.FAILED, ""), 2.0)
    assert books.jobs_ended["FAILED"] == 200
    assert [job.job_id for job in books.failures] == [f"j{number}" for number in range(100 - JOBS_MAX, 100)]
    assert len(books.slow) == JOBS_MAX


@pytest.mark.parametrize(
    ("terms", "word"),
    [
        (Terms("en", "zh"), "en:zh"),
        (Terms("auto", "auto", mode="two_way_auto", lang_a="en", lang_b="zh"), "auto:en+zh"),
        (Terms("auto", "zh", auto_langs=("en", "fr")), "auto:zh"),
    ],
)
def test_what_a_session_asks_for_in_a_word(terms: Terms, word: str) -> None:
    assert terms.languages == word


async def test_who_waits_is_counted_by_pool_and_not_by_node() -> None:
    room = WaitingRoom(10, 10.0)
    queues = ("en:zh:speech", "en:zh:speech", retry_queue("en:zh:speech"), node_queue("n1"))
    tasks = [asyncio.create_task(room.wait(queue, room.ticket(), 60)) for queue in queues]
    await until(lambda: len(room) == 4)
    assert room.by_pool() == {"en:zh:speech": 3}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
