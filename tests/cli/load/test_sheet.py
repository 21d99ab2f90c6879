"""The sheet of a load test fits narrow terminals, whatever the figures are."""

import pytest

from lingua_scheduler.cli.load.crowd import Plan
from lingua_scheduler.cli.load.sheet import MOST_LISTED, State, line, sheet
from lingua_scheduler.cli.load.tally import LoadTally
from lingua_sdk.client import Failed, Gap, Translation

NARROW = 60
PLAN = Plan("wss://translate.example.com", "en", "zh", 2_000, 0.0, 86_400, 5.0, b"")


def busy() -> LoadTally:
    tally = LoadTally()
    tally.said, tally.connected, tally.unanswered, tally.resumed, tally.no_text = 9_999_999, 2_000, 12_345, 999, 1
    for _ in range(10):
        tally.take(Translation(0, "", "", is_late=True), 99_999)
        tally.take(Failed(0, "ALL_CANDIDATES_FULL_OR_FAILED"), 1)
        tally.take(Gap(0, "sender_gone"), 1)
    return tally


@pytest.mark.parametrize("state", State)
def test_every_line_fits_sixty_columns(state: State) -> None:
    lines = [text.plain for text in sheet(PLAN, busy(), 86_399, state)]
    assert [one for one in lines if len(one) > NARROW] == []
    shown = "\n".join(lines)
    for words in ("9 999 999", "ALL_CANDIDATES_FULL_OR_FAILED: 10", "sender_gone: 10", "p99 100 s", "12 345"):
        assert words in shown


def test_it_says_how_far_it_is() -> None:
    heads = [sheet(PLAN._replace(seconds=60), LoadTally(), 12, state)[1].plain for state in State]
    assert heads == [
        "en → zh, 2000 speakers, 12 s of 1 min 0 s",
        "en → zh, 2000 speakers, waiting for the last results",
        "en → zh, 2000 speakers, 12 s",
    ]
    assert sheet(PLAN._replace(rate=20.0), LoadTally(), 12, State.OVER)[1].plain == "en → zh, 20 jobs/s, 12 s"


def test_nothing_yet_is_shown_as_nothing() -> None:
    shown = "\n".join(text.plain for text in sheet(PLAN, LoadTally(), 0, State.SPEAKING))
    assert "p50 -   p95 -   p99 -   max -" in shown
    assert "failed" not in shown


def test_only_the_most_frequent_reasons_are_listed_and_cannot_command_the_terminal() -> None:
    tally = LoadTally()
    for number in range(MOST_LISTED + 3):
        tally.lose_session(f"reason {number}\x1b[2J")
    shown = [text.plain for text in sheet(PLAN, tally, 1, State.OVER)]
    assert sum("reason" in one for one in shown) == MOST_LISTED
    assert all(one.isprintable() for one in shown)


def test_a_line_of_a_log_counts_everything_that_was_not_translated() -> None:
    told = line(PLAN, busy(), 65)
    assert told == "1 min 5 s: 2000/2000 sessions, 9999999 said, 10 translated, 12365 failed, p99 100 s"
