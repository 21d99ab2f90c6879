"""What a node says it lacks is read with care, and not over and over."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.domain.nodes.complaints import (
    Complaint,
    ComplaintFilter,
    ComplaintRules,
    SuspendOutcome,
    complaint_of,
    services_hit,
)
from lingua_scheduler.domain.nodes.nodes import SERVICES, NodeService
from lingua_scheduler.domain.sessions.terms import PipelineTerms

RULES = ComplaintRules(debounce_ms=5_000, window_ms=10_000, most=30)
INSTALLED = (
    NodeService("piper", "tts"),
    NodeService("twin", "asr"),
    NodeService("twin", "nmt"),
    NodeService("commas", "punctuation"),
)


def test_a_complaint_names_service_and_version() -> None:
    details = {"service_id": "piper", "service_version": "1.0", "reason": "not loaded"}
    assert complaint_of(details) == Complaint("piper", "1.0")


@pytest.mark.parametrize("details", [None, [], "piper", 5, {}, {"service_id": 5, "service_version": ["1"]}])
def test_one_that_names_nothing_is_still_a_complaint(details: Any) -> None:
    assert complaint_of(details) == Complaint("", "")


def test_long_names_are_cut() -> None:
    assert complaint_of({"service_id": "x" * 10_000, "service_version": "y" * 10_000}) == Complaint("x" * 64, "y" * 64)


@pytest.mark.parametrize(
    ("service_id", "kinds"),
    [("piper", ("tts",)), ("twin", ("asr", "nmt")), ("commas", SERVICES), ("stranger", SERVICES), ("", SERVICES)],
)
def test_a_service_no_pipeline_names_may_be_needed_by_every_job(service_id: str, kinds: tuple[str, ...]) -> None:
    assert services_hit(service_id, INSTALLED) == kinds


def test_a_job_needs_what_its_pipeline_uses() -> None:
    assert PipelineTerms().needs == ("asr", "nmt", "tts", "semantic")
    assert PipelineTerms(use_tts=False, use_semantic=False, use_tone=True).needs == ("asr", "nmt", "tone")


def test_the_same_complaint_is_passed_on_every_five_seconds() -> None:
    filtered = ComplaintFilter(RULES)
    passed = [at for at in range(0, 20_000, 100) if filtered.judge(Complaint("a"), at) is SuspendOutcome.SUSPENDED]
    assert passed == [0, 5_000, 10_000, 15_000]


def test_another_version_is_another_complaint() -> None:
    filtered = ComplaintFilter(RULES)
    assert filtered.judge(Complaint("a", "1"), 0) is SuspendOutcome.SUSPENDED
    assert filtered.judge(Complaint("a", "2"), 0) is SuspendOutcome.SUSPENDED
    assert filtered.judge(Complaint("a", "1"), 1) is SuspendOutcome.DEBOUNCED


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 60)), max_size=500))
def test_no_window_passes_more_than_the_limit_and_nothing_more_is_remembered(said: list[tuple[int, int]]) -> None:
    filtered = ComplaintFilter(RULES)
    at_ms, passed = 0, []
    for pause_ms, service in said:
        at_ms += pause_ms
        if filtered.judge(Complaint(str(service)), at_ms) is SuspendOutcome.SUSPENDED:
            passed.append(at_ms)
        assert sum(at_ms - 10_000 < when for when in passed) <= 30
        assert len(filtered) <= 30


def test_a_node_that_said_too_much_is_heard_again_when_the_window_has_passed() -> None:
    filtered = ComplaintFilter(RULES)
    outcomes = [filtered.judge(Complaint(str(i)), 0) for i in range(31)]
    assert outcomes[-2:] == [SuspendOutcome.SUSPENDED, SuspendOutcome.LIMITED]
    assert filtered.judge(Complaint("x"), 9_999) is SuspendOutcome.LIMITED
    assert filtered.judge(Complaint("x"), 10_000) is SuspendOutcome.SUSPENDED
