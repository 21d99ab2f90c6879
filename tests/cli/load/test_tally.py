"""Outcomes are counted by kind, percentiles are true, and what failed is said."""

import pytest

from lingua_scheduler.cli.load.tally import MOST_REASONS, LoadTally, Percentiles
from lingua_sdk.client import Failed, Gap, NoText, Translation

RESULT = Translation(0, "hello", "你好")


def test_percentiles_are_those_of_all_values() -> None:
    took = Percentiles()
    for ms in range(100, 0, -1):
        took.add(ms)
    assert [took.at(share) for share in (0.5, 0.95, 0.99, 1.0)] == [50, 95, 99, 100]
    assert took.max_ms == 100


def test_no_percentile_is_above_the_maximum() -> None:
    took = Percentiles()
    took.add(9_149.9)
    took.add(9_151.0)
    assert took.at(0.99) == took.max_ms


def test_there_is_no_percentile_of_nothing() -> None:
    assert Percentiles().at(0.99) is None


def test_many_values_take_little_memory_and_keep_three_digits() -> None:
    took = Percentiles()
    for ms in range(100_000, 200_000):
        took.add(ms)
    assert took.at(0.5) == pytest.approx(150_000, rel=0.005)
    assert len(took._counts) <= 101


def test_every_kind_of_outcome_is_counted_and_only_translations_have_a_latency() -> None:
    tally = LoadTally()
    tally.said = 7
    tally.take(RESULT, 100)
    tally.take(RESULT._replace(is_late=True), 300)
    tally.take(NoText(2, "no_text"), 9_000)
    tally.take(Failed(3, "NO_CAPABLE_NODE", ""), 9_000)
    tally.take(Failed(4), 9_000)
    tally.take(Gap(5, "timeout"), 9_000)
    assert (tally.translated, tally.late, tally.no_text, tally.under_way) == (2, 1, 1, 1)
    assert dict(tally.failed) == {"NO_CAPABLE_NODE": 1, "unknown": 1}
    assert dict(tally.gaps) == {"timeout": 1}
    assert (tally.took.at(0.5), tally.took.max_ms) == (100, 300)
    assert tally.problems(None) == ["2 utterances failed", "1 utterance was skipped"]


def test_an_outcome_that_is_taken_back_leaves_no_trace() -> None:
    tally = LoadTally()
    tally.said = 1
    for outcome in (RESULT, NoText(0, "no_text"), Failed(0, "JOB_TIMEOUT", ""), Gap(0, "timeout")):
        tally.take(outcome, 100)
        tally.take_back(outcome, 100)
    assert (tally.translated, tally.no_text, tally.under_way, tally.took.at(0.5), tally.took.max_ms) == (
        0,
        0,
        1,
        None,
        0,
    )
    assert not tally.failed
    assert not tally.gaps


def test_a_load_in_which_all_went_well_has_no_problem() -> None:
    tally = LoadTally()
    tally.take(RESULT, 100)
    tally.take(NoText(1, "no_text"), 100)
    assert tally.problems(None) == tally.problems(100) == tally.notes() == []


def test_what_else_is_a_problem() -> None:
    tally = LoadTally()
    assert tally.problems(None) == ["nothing was translated"]
    tally.take(RESULT, 100)
    tally.unanswered = 3
    tally.lose_session("the scheduler hung up")
    assert tally.problems(99) == [
        "3 utterances got no answer",
        "1 session was lost",
        "p99 is 100 ms, more than 99 ms",
    ]


def test_reasons_of_lost_sessions_are_bounded() -> None:
    tally = LoadTally()
    for number in range(2 * MOST_REASONS):
        tally.lose_session(f"reason {number}")
    assert len(tally.sessions_lost) == MOST_REASONS + 1
    assert tally.sessions_lost["other reasons"] == MOST_REASONS


def test_a_load_test_that_was_late_itself_and_a_recording_that_was_cut_are_noted() -> None:
    tally = LoadTally()
    tally.lag.add(80)
    tally.is_cut = True
    late, cut = tally.notes()
    assert late.startswith("This machine was late itself (p99 80 ms)")
    assert "--audio" in cut
