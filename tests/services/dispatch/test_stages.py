"""Jobs of one utterance: each as a work of its own, and their results as one."""

from typing import Any

import msgspec
import pytest

from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.pools.lanes import Whose
from lingua_scheduler.domain.pools.names import Pool
from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.services.attempts.work import NO_WISH, Binding, Outcome, Wish
from lingua_scheduler.services.dispatch.stages import joined, stage_of, text_after, without_text
from lingua_sdk.protocol.node import JobResult
from tests.support.speech import work


def result(**more: Any) -> JobResult:
    said: dict[str, Any] = {
        "job_id": "job-1",
        "attempt_id": 1,
        "node_id": "n",
        "session_id": "s",
        "utterance_index": 0,
        "success": True,
        "trace_id": "t",
    }
    return JobResult(**(said | more))


def done(job_id: str, attempts: int = 1, **more: Any) -> Outcome:
    return Outcome(JobState.DONE, job_id, result(job_id=job_id, **more), away_ms=10, attempts=attempts)


SPOKEN = work(
    audio=b"1234", terms=Terms("zh", "en", mode="two_way_auto", lang_a="zh", lang_b="en"), binding=Binding("node-a", 0)
)


def test_a_job_from_text_brings_no_audio_and_needs_no_recognition() -> None:
    stage = stage_of(SPOKEN, Pool.from_text("zh", "ja", "speech"), "ja", "你好")
    assert (stage.audio, stage.text, stage.branch, stage.pools) == (b"", "你好", "ja", ("text/zh:ja:speech",))
    assert stage.terms.pipeline.needs == ("nmt", "tts")
    assert (stage.terms.src_lang, stage.terms.tgt_lang, stage.terms.mode) == ("zh", "ja", None)
    assert stage.binding is None


def test_all_jobs_of_a_paired_session_go_to_its_node() -> None:
    text = Pool.from_text("zh", "ja", "speech")
    paired = Wish("node-a", is_strict=True, paired_tenant="acme")
    stage = stage_of(msgspec.structs.replace(SPOKEN, wish=paired), text, "ja", "你好")
    assert (stage.wish, stage.whose) == (paired, Whose("acme", is_private_only=True))
    # One that is only preferred may not take text.
    assert stage_of(msgspec.structs.replace(SPOKEN, wish=Wish("node-a")), text, "ja", "你好").wish is NO_WISH


@pytest.mark.parametrize(
    ("pool", "needs"),
    [
        (Pool("zh", "zh", "text"), ("asr", "semantic")),
        (Pool("zh", "en", "text"), ("asr", "nmt", "semantic")),
        (Pool.from_text("en", "en", "speech"), ("tts",)),
    ],
)
def test_a_job_needs_what_its_pool_has(pool: Pool, needs: tuple[str, ...]) -> None:
    stage = stage_of(SPOKEN, pool, "", "text" if pool.is_from_text else None)
    assert stage.terms.pipeline.needs == needs
    assert stage.audio == (b"" if pool.is_from_text else b"1234")


def test_the_next_job_brings_what_was_recognised_or_translated() -> None:
    both = result(text_asr="你好", text_translated="hello")
    assert text_after(Pool("zh", "zh", "text"), both) == "你好"
    assert text_after(Pool("zh", "en", "text"), both) == "hello"
    assert text_after(Pool("zh", "en", "text"), result()) == ""


def test_the_result_has_what_was_recognised_and_all_of_the_time() -> None:
    timings = {"service_timings": {"asr_ms": 30, "total_ms": 31}, "language_probability": 0.9}
    heard = done("job-1", text_asr="你好", processing_time_ms=31, extra=timings, asr_quality_level="good")
    spoken = done(
        "job-2", tts_audio="AA==", processing_time_ms=9, extra={"service_timings": {"tts_ms": 8, "total_ms": 9}}
    )
    whole = joined(heard, spoken, Pool.from_text("en", "en", "speech"), "hello")
    assert whole.result is not None
    assert (whole.job_id, whole.attempts, whole.away_ms) == ("job-2", 2, 20)
    assert (whole.result.text_asr, whole.result.text_translated, whole.result.tts_audio) == ("你好", "hello", "AA==")
    assert whole.result.processing_time_ms == 40
    assert whole.result.extra == {
        "service_timings": {"asr_ms": 30, "total_ms": 40, "tts_ms": 8},
        "language_probability": 0.9,
    }
    assert whole.result.asr_quality_level == "good"


def test_an_empty_translation_is_not_replaced_by_the_source() -> None:
    whole = joined(done("job-1", text_asr="你好"), done("job-2"), Pool.from_text("zh", "en", "text"), "你好")
    assert whole.result is not None
    assert not whole.result.text_translated


def test_a_job_without_a_result_keeps_its_error() -> None:
    failed = Outcome(JobState.FAILED, "job-2", detail="why", attempts=3)
    assert joined(done("job-1"), failed, Pool.from_text("zh", "en", "text"), "x") == msgspec.structs.replace(
        failed, attempts=4
    )


def test_nothing_said_is_no_failure() -> None:
    assert without_text(done("job-1")).state is JobState.NO_TEXT
