"""Which data a release refuses, and what it says then."""

import pytest

from lingua_scheduler.domain.maintenance.versions import VersionClaimOutcome, refusal, unreadable

REFUSED = {
    VersionClaimOutcome.NEWER: "its data has version 9, but this release supports versions up to 5",
    VersionClaimOutcome.TOO_OLD: "its data has version 9, but this release supports only 4 and 5",
}


@pytest.mark.parametrize("outcome", VersionClaimOutcome)
def test_only_data_it_cannot_read_is_refused(outcome: VersionClaimOutcome) -> None:
    said = refusal(outcome, "9", known=5)
    assert (said or "").partition(";")[0] == REFUSED.get(outcome, "")


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        (None, ""),
        ("4", ""),
        ("5", ""),
        ("9", REFUSED[VersionClaimOutcome.NEWER]),
        ("?", "its data has version ?, but this release supports versions up to 5"),
        ("3", "its data has version 3, but this release supports only 4 and 5"),
    ],
)
def test_one_who_only_reads_is_refused_the_same(stored: str | None, said: str) -> None:
    assert (unreadable(stored, known=5) or "").partition(";")[0] == said
