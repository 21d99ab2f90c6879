"""What a filter of the failure history takes, and how failures look that were only counted."""

from typing import Any

import pytest

from lingua_scheduler.domain.watching.failures import FailedJob, FailureFilter, kind_of, look_of, summaries


def failure(**more: Any) -> FailedJob:
    about: dict[str, Any] = {
        "at_ms": 1_000,
        "job_id": "job-0-a-1",
        "session_id": "s-01234567…",
        "utterance_index": 3,
        "src": "en",
        "tgt": "de",
        "code": "JOB_TIMEOUT",
        "node_id": "n1",
        "tenant_id": "acme",
    }
    return FailedJob(**(about | more))


@pytest.mark.parametrize(
    ("asked", "is_taken"),
    [
        (FailureFilter(), True),
        (FailureFilter(since_ms=1_000), True),
        (FailureFilter(since_ms=1_001), False),
        (FailureFilter(node_id="n1", pair="en:de", code="JOB_TIMEOUT"), True),
        (FailureFilter(node_id="n2"), False),
        (FailureFilter(pair="de:en"), False),
        (FailureFilter(code="NO_CAPABLE_NODE"), False),
        (FailureFilter(tenant_id="acme"), True),
        (FailureFilter(tenant_id="other"), False),
        # Whole or shortened; but nobody can try out the rest of an id.
        (FailureFilter(session_id="s-0123456789ABCDEF"), True),
        (FailureFilter(session_id="s-01234567FFFFFFFF"), True),
        (FailureFilter(session_id="s-01234567…"), True),
        (FailureFilter(session_id="s-1"), False),
    ],
)
def test_a_filter_takes_what_fits_in_every_respect(asked: FailureFilter, is_taken: bool) -> None:
    assert asked.takes(failure()) is is_taken


def test_it_looks_as_any_failed_job_does() -> None:
    look = look_of(failure(attempts=2, took_ms=7))
    assert (look.job_id, look.state, look.reason, look.node_id) == ("job-0-a-1", "FAILED", "JOB_TIMEOUT", "n1")
    assert (look.session_id, look.utterance_index, look.attempts, look.took_ms) == ("s-01234567…", 3, 2, 7)


def test_what_was_only_counted_has_a_kind_and_a_number_but_no_ids() -> None:
    (summary,) = summaries({kind_of(failure()): 12}, 5_000)
    assert (summary.count, summary.code, summary.src, summary.tgt, summary.node_id) == (
        12,
        "JOB_TIMEOUT",
        "en",
        "de",
        "n1",
    )
    assert (summary.at_ms, summary.job_id, summary.session_id, summary.utterance_index) == (5_000, "", "", -1)
