"""What a listener is told about where the time went."""

from typing import Any

import pytest

from lingua_scheduler.protocol.node import JobResult
from lingua_scheduler.protocol.shapes import NetworkTimings, ServiceTimings
from lingua_scheduler.services.attempts.timings import network_timings, service_timings

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
