"""How a node did lately, from the steps of time that are written."""

import pytest

from lingua_scheduler.domain.watching.tallies import (
    STEP_MS,
    STEPS,
    WINDOW_MS,
    NodeTally,
    TalliedError,
    TallySums,
    error_line,
    is_failure,
    tally_of,
)
from lingua_sdk.domain.losses import Loss

NOW_MS = 100 * STEP_MS + 7


def test_the_steps_of_the_last_hour_are_added_up() -> None:
    fields = {
        "100": "2 1 300 200 4000 300",
        str(101 - STEPS): "1 0 600 600 2000 600",
        # An hour ago and more.
        str(100 - STEPS): "50 50 1 1 1 1",
    }
    assert tally_of(fields, NOW_MS) == NodeTally(
        done=3, failed=1, mean_ms=300, slowest_ms=600, real_time_factor=0.15, errors=[]
    )


def test_without_attempts_nothing_is_said_about_times() -> None:
    assert tally_of({}, NOW_MS) == NodeTally()
    assert NodeTally().failed_percent is None
    only_failed = tally_of({"100": "0 3 0 0 0 0"}, NOW_MS)
    assert only_failed == NodeTally(failed=3)
    assert only_failed.failed_percent == 100.0


def test_errors_are_known_words_and_the_newest_first() -> None:
    said = [
        TalliedError(NOW_MS - 5, "JOB_TIMEOUT", "j1"),
        TalliedError(NOW_MS - 2, "what the person said", "j2"),
        TalliedError(NOW_MS - WINDOW_MS, "JOB_TIMEOUT", "j0"),
    ]
    tally = tally_of({"errors": "\n".join(map(error_line, said))}, NOW_MS)
    assert tally is not None
    assert [(error.reason, error.job_id) for error in tally.errors] == [("other", "j2"), ("JOB_TIMEOUT", "j1")]


@pytest.mark.parametrize(
    "fields",
    [
        {"x": "1 1 1 1 1 1"},
        {"100": "1 1"},
        {"100": "1 1 1 1 1 -1"},
        {"100": "9" * 40},
        {"errors": "a b"},
        {"errors": "x y z"},
    ],
)
def test_what_cannot_be_read_is_no_tally(fields: dict[str, str]) -> None:
    assert tally_of(fields, NOW_MS) is None


def test_sums_add_up_and_keep_the_slowest() -> None:
    assert TallySums(1, 2, 3, 9, 5, 6).plus(TallySums(1, 1, 1, 4, 1, 1)) == TallySums(2, 3, 4, 9, 6, 7)


def test_silence_that_existing_nodes_are_allowed_is_no_failure() -> None:
    assert is_failure(Loss.JOB_TIMEOUT)
    assert not is_failure(Loss.NO_ANSWER)
