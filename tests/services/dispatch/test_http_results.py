"""Results for HTTP callers: the newest are kept, within their number, bytes and time."""

import pytest

from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.protocol.http_dispatch import FetchedResult, ResultError
from lingua_scheduler.services.attempts.work import Outcome, Refusal
from lingua_scheduler.services.dispatch.http_results import Results, end_of, result_of
from lingua_scheduler.services.dispatch.idempotency import Placement
from lingua_scheduler.setting_sections.callers import CallsSettings
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.protocol.node import JobResult


def done(job_id: str, size: int = 0) -> FetchedResult:
    return FetchedResult(job_id=job_id, state="DONE", tts_audio="x" * size)


def kept(results: Results, *names: str, now_s: float = 0) -> list[str]:
    return [name for name in names if results.find(name, now_s) is not None]


def test_a_result_is_kept_for_its_time() -> None:
    results = Results(CallsSettings(keep_ms=1_000))
    results.keep(done("a"), 10.0)
    assert results.find("a", 10.999) == done("a")
    assert results.find("a", 11.0) is None
    assert len(results) == 0


def test_old_results_go_even_when_nobody_asks() -> None:
    results = Results(CallsSettings(keep_ms=1_000))
    results.keep(done("a"), 10.0)
    results.keep(done("b"), 10.5)
    results.forget_old(11.2)
    assert len(results) == 1
    assert kept(results, "a", "b", now_s=11.2) == ["b"]
    results.keep(done("c"), 12.0)
    assert len(results) == 1


def test_the_oldest_make_room_when_there_are_too_many() -> None:
    results = Results(CallsSettings(max_results=2))
    for name in "abc":
        results.keep(done(name), 0)
    assert kept(results, *"abc") == ["b", "c"]


def test_the_oldest_make_room_when_they_are_too_large() -> None:
    results = Results(CallsSettings(max_result_bytes=10_000))
    for name in "abc":
        results.keep(done(name, 4_000), 0)
    assert kept(results, *"abc") == ["b", "c"]
    results.keep(done("giant", 20_000), 0)
    assert len(results) == 0
    results.keep(done("d", 9_000), 0)
    assert kept(results, "d") == ["d"]


def test_a_result_that_comes_twice_counts_once() -> None:
    results = Results(CallsSettings(max_result_bytes=10_000))
    for _ in range(5):
        results.keep(done("a", 4_000), 0)
    results.keep(done("b", 4_000), 0)
    assert kept(results, "a", "b") == ["a", "b"]


def test_an_outcome_is_told_with_its_texts_or_with_its_reason() -> None:
    said = JobResult(
        job_id="j", attempt_id=1, node_id="n", session_id="s", utterance_index=0, success=True, trace_id="t",
        text_asr="hello", text_translated="你好", tts_audio="AAAA", tts_format="opus",
    )  # fmt: skip
    assert result_of("j", Outcome(JobState.DONE, "j", said)) == FetchedResult(
        job_id="j", state="DONE", text_asr="hello", text_translated="你好", tts_audio="AAAA", tts_format="opus"
    )
    failed = Outcome(JobState.FAILED, "j", error=ErrorCode.JOB_TIMEOUT, detail="no node answered in time")
    assert result_of("j", failed) == FetchedResult(
        job_id="j", state="FAILED", error=ResultError(code="JOB_TIMEOUT", detail="no node answered in time")
    )


@pytest.mark.parametrize(
    ("ended", "end"),
    [
        (
            Outcome(JobState.FAILED, "job-0-1", error=ErrorCode.JOB_TIMEOUT),
            (JobState.FAILED, ErrorCode.JOB_TIMEOUT, "job-0-1"),
        ),
        (Outcome(JobState.DONE, "job-0-1"), (JobState.DONE, None, "job-0-1")),
        (Placement("job-0-2", "n1", 1), (JobState.CANCELLED, None, "job-0-2")),
        (Refusal(ErrorCode.NO_CAPABLE_NODE, "nobody"), (JobState.FAILED, ErrorCode.NO_CAPABLE_NODE, "")),
    ],
)
def test_how_a_call_ended_is_told(ended: Outcome | Placement | Refusal, end: tuple[object, ...]) -> None:
    assert end_of(ended) == end
