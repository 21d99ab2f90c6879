"""What an instance counts of its own jobs: each once, of slow and failed ones the latest few, and no words."""

import asyncio

import msgspec
import pytest

from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.pools.lanes import Whose
from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.domain.sessions.utterances import CutReason
from lingua_scheduler.domain.watching.failures import FailedJob
from lingua_scheduler.domain.watching.figures import JOBS_MAX
from lingua_scheduler.domain.watching.pair_work import PairWork
from lingua_scheduler.services.attempts import counts
from lingua_scheduler.services.attempts.counts import Books
from lingua_scheduler.services.attempts.work import Outcome, Wish, Work
from lingua_scheduler.services.dispatch.waiting import WaitingRoom, node_queue, retry_queue
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.protocol.node import JobResult
from tests.support.waiting import until

WORK = Work("s-1", 0, Terms("en", "zh"), ("en:zh:speech",), b"", "pcm16", 16_000, 0, "t", "t", CutReason.IS_FINAL, 0)


def done(job_id: str, away_ms: float = 0.0) -> Outcome:
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
    return Outcome(JobState.DONE, job_id, result, away_ms=away_ms, attempts=2)


def test_every_job_is_counted_by_its_state_and_time() -> None:
    books = Books(1_000, "i1", lambda *_: None)
    books.ended(WORK, done("j1"), 0.5)
    books.ended(WORK, Outcome(JobState.NO_TEXT, "j2"), 0.5)
    assert books.jobs_ended == {"DONE": 1, "NO_TEXT": 1, "FAILED": 0, "CANCELLED": 0}
    assert len(books.latency) == 2
    assert not books.slow
    assert not books.failures


def test_pools_that_were_asked_for_are_told_once_and_only_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "ASKED_MAX", 3)
    books = Books(1_000, "i1", lambda *_: None)
    both_ways = msgspec.structs.replace(WORK, pools=("en:zh:speech", "zh:en:speech"))
    for work in (WORK, both_ways, WORK):
        books.ended(work, done("j1"), 0.5)
    assert [one[:2] for one in books.take_asked()] == [(WORK.pools, Whose()), (both_ways.pools, Whose())]
    assert books.take_asked() == []
    for number in range(9):
        books.ended(msgspec.structs.replace(WORK, pools=(f"p{number}", f"q{number}")), done("j1"), 0.5)
    assert [one.pools for one in books.take_asked()] == [(f"p{number}", f"q{number}") for number in (6, 7, 8)]


def test_pools_are_told_with_the_tenant_whose_nodes_may_serve_them() -> None:
    books = Books(1_000, "i1", lambda *_: None)
    of_acme = msgspec.structs.replace(WORK, belongs_to="x", tenant_id="acme")
    paired = msgspec.structs.replace(of_acme, wish=Wish("n1", is_strict=True, paired_tenant="beta"))
    for work in (WORK, of_acme, paired):
        books.ended(work, done("j1"), 0.5)
    assert [one.whose for one in books.take_asked()] == [Whose(), Whose("acme"), Whose("beta", is_private_only=True)]


def test_what_jobs_cost_is_counted_with_what_they_asked_for() -> None:
    books = Books(10_000, "i1", lambda *_: None)
    books.ended(msgspec.structs.replace(WORK, duration_ms=2_000), done("j1", away_ms=700.9), 1.0)
    # Text has no length of speech, and a job that found no slot took no time of a node.
    books.ended(msgspec.structs.replace(WORK, duration_ms=0), done("j2", away_ms=300.0), 1.0)
    refused = Outcome(JobState.FAILED, "j3", error=ErrorCode.ALL_CANDIDATES_FULL_OR_FAILED)
    books.ended(WORK, refused, 0.1)
    (asked,) = books.take_asked()
    assert asked.work == PairWork(jobs=3, answered=2, node_ms=1_000, speech_ms=2_000, speech_node_ms=700)
    books.ended(WORK, refused, 0.1)
    assert [one.work.jobs for one in books.take_asked()] == [1]


def test_a_slow_job_is_kept_without_what_was_said() -> None:
    books = Books(1_000, "i1", lambda *_: None)
    books.ended(WORK, done("j1"), 1.2)
    (slow,) = books.slow
    assert (slow.job_id, slow.node_id, slow.attempts, slow.took_ms) == ("j1", "n1", 2, 1_200)
    assert "secret" not in repr(slow)


def test_a_failed_job_is_kept_with_the_code_and_the_node_that_had_it_last() -> None:
    told: list[tuple[FailedJob, str]] = []
    books = Books(1_000, "i1", lambda failure, session_id: told.append((failure, session_id)))
    work = msgspec.structs.replace(WORK, session_id="s-0123456789ABCDEF")
    outcome = Outcome(JobState.FAILED, "j1", error=ErrorCode.JOB_TIMEOUT, detail="why", node_id="n9", attempts=3)
    books.ended(work, outcome, 0.1)
    (failed,) = books.failures
    ((failure, session_id),) = told
    assert (failure.job_id, failure.session_id, session_id) == ("j1", "s-01234567…", "s-0123456789ABCDEF")
    assert (failure.code, failure.reason, failure.node_id) == ("JOB_TIMEOUT", "why", "n9")
    assert (failure.src, failure.tgt, failure.instance_id, failure.took_ms) == ("en", "zh", "i1", 100)
    assert (failed.reason, failed.node_id, failed.attempts) == ("JOB_TIMEOUT", "n9", 3)
    assert (failed.src, failed.tgt) == ("en", "zh")


def test_a_job_in_any_of_several_languages_is_named_as_it_was_asked_for() -> None:
    told: list[FailedJob] = []
    books = Books(0, "i1", lambda failure, _: told.append(failure))
    for terms in (
        Terms("auto", "zh", auto_langs=("en", "fr")),
        Terms("auto", "auto", mode="two_way_auto", lang_a="zh", lang_b="en"),
    ):
        work = msgspec.structs.replace(WORK, terms=terms, pools=terms.pools())
        books.ended(work, Outcome(JobState.FAILED, f"j{len(told)}", error=ErrorCode.JOB_TIMEOUT), 0.1)
    assert [(one.src, one.tgt) for one in told] == [("auto", "zh"), ("auto", "en+zh")]
    assert [(one.src, one.tgt) for one in books.failures] == [("auto", "zh"), ("auto", "en+zh")]


def test_failures_with_an_alarm_of_their_own_are_counted_by_code() -> None:
    books = Books(1_000, "i1", lambda *_: None)
    codes = (ErrorCode.NO_CAPABLE_NODE, ErrorCode.JOB_TIMEOUT, ErrorCode.SCHEDULER_DEPENDENCY_DOWN, None)
    for code in (*codes, ErrorCode.NO_CAPABLE_NODE):
        books.ended(WORK, Outcome(JobState.FAILED, "", error=code), 0.1)
    assert books.failed_for == {"NO_CAPABLE_NODE": 2, "SCHEDULER_DEPENDENCY_DOWN": 1}


def test_of_a_flood_the_latest_few_are_kept_and_each_is_told() -> None:
    told: list[str] = []
    books = Books(1_000, "i1", lambda failure, _: told.append(failure.job_id))
    for number in range(100):
        books.ended(WORK, Outcome(JobState.FAILED, f"j{number}"), 2.0)
        books.ended(WORK, Outcome(JobState.FAILED, ""), 2.0)
    assert books.jobs_ended["FAILED"] == len(told) == 200
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
