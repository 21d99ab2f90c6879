"""What is told of a selection: to the log, and to a caller who preferred a node."""

import pytest
from structlog.testing import capture_logs

from lingua_scheduler.domain.jobs.attempts import Attempt, DispatchOutcome, Try
from lingua_scheduler.services.attempts.work import Wish
from lingua_scheduler.services.dispatch import selection_log
from tests.support.speech import work

TAKEN = Attempt("job-0-x-1", 1, "n2", 0)


@pytest.mark.parametrize(
    ("tried", "is_unfit", "reason", "words"),
    [((), True, "unfit", "not connected"), ((), False, "busy", "in use"), (("n1",), False, "tried", "failed this job")],
)
def test_a_caller_hears_why_another_node_was_taken(
    tried: tuple[str, ...], is_unfit: bool, reason: str, words: str
) -> None:
    asked = work(wish=Wish("n1"), notes=[])
    with capture_logs() as logged:
        selection_log.passed_over(asked, Try(1, "x-1", 30_000, tried=tried), TAKEN, is_unfit=is_unfit)
    (event,) = logged
    assert (event["event"], event["node_id"], event["reason"], event["taken"]) == (
        "node.passed_over",
        "n1",
        reason,
        "n2",
    )
    assert asked.notes is not None
    (note,) = asked.notes
    assert note.startswith("n1 was not taken: ")
    assert words in note


def test_a_selection_that_found_no_node_is_logged_with_its_pair() -> None:
    with capture_logs() as logged:
        selection_log.found_none(work(), Try(2, "x-1", 30_000, tried=("n1",)), DispatchOutcome.NOBODY)
    (event,) = logged
    assert (event["event"], event["outcome"], event["src"], event["tgt"], event["tried"], event["attempt"]) == (
        "selection.failed",
        "nobody",
        "en",
        "zh",
        1,
        2,
    )
