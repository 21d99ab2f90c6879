"""What a listener is told about where the time went."""

from operator import sub
from typing import Any

import pytest

from lingua_scheduler.services.attempts.timings import measure_stages, network_timings, service_timings
from lingua_scheduler.telemetry import metrics
from lingua_sdk.protocol.node import JobResult
from lingua_sdk.protocol.shapes import NetworkTimings, ServiceTimings

# As plain values: a limit that changes is noticed.
MAX_STAGE_MS = 600_000

NOW_MS = 1_700_000_000_000


def result(**fields: Any) -> JobResult:
    return JobResult(
        job_id="job-0-1",
        attempt_id=1,
        node_id="n",
        session_id="s",
        utterance_index=0,
        success=True,
        trace_id="t",
        **fields,
    )


def test_stages_are_as_the_node_says() -> None:
    stages = {"asr_ms": 120, "nmt_ms": 30.5, "tts_ms": 80, "total_ms": 999}
    said = result(processing_time_ms=240, extra={"service_timings": stages})
    assert service_timings(said) == ServiceTimings(asr_ms=120, nmt_ms=30.5, tts_ms=80, total_ms=240)


@pytest.mark.parametrize("rubbish", [None, 7, "fast", [], {"asr_ms": "120"}, {"asr_ms": True}, {"asr_ms": {}}])
def test_a_node_that_says_nothing_useful_leaves_them_out(rubbish: object) -> None:
    assert service_timings(result(extra={"service_timings": rubbish})) is None


def test_what_was_not_work_was_on_the_way() -> None:
    timings = network_timings(None, 260.0, result(processing_time_ms=200), NOW_MS)
    assert timings == NetworkTimings(scheduler_to_node_ms=30, node_to_scheduler_ms=30)


def test_the_nodes_clock_says_how_the_way_divides_when_it_can_be_true() -> None:
    said = result(processing_time_ms=200, node_completed_at_ms=NOW_MS - 10)
    assert network_timings(40, 260.0, said, NOW_MS) == NetworkTimings(
        web_to_scheduler_ms=40, scheduler_to_node_ms=50, node_to_scheduler_ms=10
    )


@pytest.mark.parametrize("off_ms", [-5_000, 61, 3_600_000])
def test_a_clock_that_is_wrong_is_not_believed(off_ms: int) -> None:
    said = result(processing_time_ms=200, node_completed_at_ms=NOW_MS - off_ms)
    assert network_timings(None, 260.0, said, NOW_MS) == NetworkTimings(
        scheduler_to_node_ms=30, node_to_scheduler_ms=30
    )


def test_a_node_that_claims_more_work_than_time_was_not_on_the_way_at_all() -> None:
    timings = network_timings(None, 100.0, result(processing_time_ms=500), NOW_MS)
    assert timings == NetworkTimings(scheduler_to_node_ms=0, node_to_scheduler_ms=0)


def test_nothing_known_is_nothing_said() -> None:
    assert network_timings(None, 100.0, result(), NOW_MS) is None


def test_the_whole_is_told_also_by_a_node_that_says_nothing_of_the_stages() -> None:
    assert service_timings(result(processing_time_ms=240)) == ServiceTimings(total_ms=240)
    assert service_timings(result(extra={"service_timings": {"total_ms": 9}})) == ServiceTimings(total_ms=9)
    assert service_timings(result()) is None


def test_the_way_to_the_scheduler_is_told_alone() -> None:
    assert network_timings(40, 100.0, result(), NOW_MS) == NetworkTimings(web_to_scheduler_ms=40)


def observed(stage: str) -> tuple[float, float]:
    """How often, and the sum in seconds."""
    of = {"stage": stage}
    count = metrics.REGISTRY.get_sample_value("lingua_node_stage_seconds_count", of)
    return count or 0.0, metrics.REGISTRY.get_sample_value("lingua_node_stage_seconds_sum", of) or 0.0


def test_stages_are_measured_if_they_can_be_true() -> None:
    before = {stage: observed(stage) for stage in ("asr", "nmt", "tts")}
    stages = {"asr_ms": 500, "nmt_ms": -1, "tts_ms": MAX_STAGE_MS + 1}
    measure_stages(result(extra={"service_timings": stages}))
    measure_stages(result(extra={"service_timings": {"asr_ms": "9", "nmt_ms": 0, "tts_ms": MAX_STAGE_MS}}))
    measure_stages(result(extra={"service_timings": 7}))
    measure_stages(result())
    grown = {stage: tuple(map(sub, observed(stage), before[stage])) for stage in before}
    assert grown == {"asr": (1, pytest.approx(0.5)), "nmt": (1, pytest.approx(0)), "tts": (1, pytest.approx(600))}
