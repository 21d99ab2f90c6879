"""A job's history is read back in order, however much of it is left."""

import pytest

from lingua_scheduler.domain.history import Step, steps_of
from lingua_scheduler.domain.jobs import JobState


def record_of(count: int, kept: int) -> dict[str, str]:
    """A record as the scripts leave it after so many moves."""
    record = {"state": "RETRYING", "steps": str(count)}
    for number in range(count):
        record[f"step{number % kept}"] = f"RETRYING {number} {number} node-1 reason {number}"
    return record


@pytest.mark.parametrize("count", [1, 2, 23, 24, 25, 47, 48, 100])
def test_the_last_moves_come_oldest_first(count: int) -> None:
    expected = list(range(max(0, count - 24), count))
    assert [step.at_ms for step in steps_of(record_of(count, 24))] == expected


def test_a_reason_may_be_a_sentence_or_nothing() -> None:
    record = {"steps": "2", "step0": "DISPATCHED 5 1 n ", "step1": "FAILED 6 1 n every node is busy"}
    assert steps_of(record) == [
        Step(JobState.DISPATCHED, 5, 1, "n", ""),
        Step(JobState.FAILED, 6, 1, "n", "every node is busy"),
    ]


def test_a_record_without_moves_has_no_history() -> None:
    assert steps_of({}) == []
