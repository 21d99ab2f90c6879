"""A node's job is a span under the attempt it belongs to, if the node has OpenTelemetry."""

from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode

from lingua_sdk import tracing
from lingua_sdk.protocol.node import JobAssign
from lingua_sdk.protocol.shapes import JobPipeline
from lingua_sdk.tracing import job_span
from tests.support.traces import Collected, said

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
ATTEMPT = "b7ad6b7169203331"


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> Collected:
    """In place of the process-wide provider, which can be set only once."""
    found = Collected()
    monkeypatch.setattr(trace, "get_tracer", found.provider.get_tracer)
    return found


def job(**more: Any) -> JobAssign:
    return JobAssign(
        job_id="job-0-1",
        attempt_id=2,
        session_id="s-1",
        utterance_index=0,
        src_lang="en",
        tgt_lang="zh",
        pipeline=JobPipeline(use_asr=True, use_nmt=True, use_tts=True, use_semantic=False, use_tone=False),
        audio=b"",
        audio_format="pcm16",
        sample_rate=16_000,
        enable_streaming_asr=False,
        partial_update_interval_ms=0,
        trace_id="tr",
        turn_id="turn",
        **more,
    )


def test_a_job_is_a_span_under_its_attempt(collected: Collected) -> None:
    with job_span(job(traceparent=f"00-{TRACE_ID}-{ATTEMPT}-01"), "node-1"):
        with collected.provider.get_tracer("engine").start_as_current_span("engine.asr"):
            pass
    span = collected.one("node.job")
    assert span.parent is not None
    assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE_ID, ATTEMPT)
    assert said(span) == {"lingua.job_id": "job-0-1", "lingua.attempt": 2, "lingua.node_id": "node-1"}
    assert ("node.job", "engine.asr") in collected.tree()


def test_a_failing_engine_fails_its_span_without_its_words(collected: Collected) -> None:
    with pytest.raises(ValueError, match="secret"), job_span(job(traceparent=f"00-{TRACE_ID}-{ATTEMPT}-01"), "node-1"):
        raise ValueError("secret")
    span = collected.one("node.job")
    assert span.status.status_code is StatusCode.ERROR
    assert "secret" not in span.to_json()


def test_without_a_context_there_is_no_span(collected: Collected) -> None:
    with job_span(job(), "node-1"):
        pass
    assert collected.spans == []


def test_without_opentelemetry_the_job_is_done_all_the_same(
    collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "_opentelemetry", lambda: None)
    with job_span(job(traceparent=f"00-{TRACE_ID}-{ATTEMPT}-01"), "node-1"):
        pass
    assert collected.spans == []
