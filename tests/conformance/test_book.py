"""What was found of each check."""

import pytest

from lingua_scheduler.conformance.book import MAX_SHOWN_CHARS, NEEDS_COMMAND, Book, CheckVerdict, as_json, shown
from lingua_scheduler.conformance.checks import Check, PeerProfile

CHECKS = (Check("one", "Does one.", "page.md#one"), Check("two", "Does two.", "page.md#two", standard_only=True))


def test_a_failure_stays_the_first_one() -> None:
    book = Book(CHECKS, PeerProfile.STANDARD)
    book.failed("one", "this", "that")
    book.failed("one", "this", "another")
    book.passed("one")
    (one, _) = book.results
    assert (one.verdict, one.expected, one.came) == (CheckVerdict.FAILED, "this", "that")


def test_a_peer_conforms_when_everything_that_applies_was_met() -> None:
    book = Book(CHECKS, PeerProfile.STANDARD)
    book.passed("one")
    assert not book.conforms
    book.does_not_apply("two", "it has none")
    assert book.conforms


def test_what_was_not_tested_does_not_conform() -> None:
    book = Book(CHECKS, PeerProfile.STANDARD)
    book.passed("one")
    book.not_tested("two")
    assert not book.conforms
    assert [one.why for one in book.results] == ["", NEEDS_COMMAND]


def test_what_is_known_is_not_changed_by_what_was_not_tested() -> None:
    book = Book(CHECKS, PeerProfile.STANDARD)
    book.passed("one")
    book.not_tested("one")
    book.not_reached("it left")
    assert book.of(CheckVerdict.PASSED) == ["one"]
    assert book.of(CheckVerdict.NOT_REACHED) == ["two"]


def test_existing_peers_need_not_do_what_was_added_since() -> None:
    book = Book(CHECKS, PeerProfile.EXISTING)
    book.failed("two", "this", "that")
    assert book.of(CheckVerdict.NOT_APPLICABLE) == ["two"]


@pytest.mark.parametrize(("is_met", "verdict"), [(True, CheckVerdict.PASSED), (False, CheckVerdict.FAILED)])
def test_to_judge_is_to_pass_or_to_fail(is_met: bool, verdict: CheckVerdict) -> None:
    book = Book(CHECKS, PeerProfile.STANDARD)
    assert book.judge("one", is_met, "this", "that") is is_met
    assert book.of(verdict) == ["one"]


def test_values_of_a_peer_are_shortened() -> None:
    assert len(shown("x" * 10_000)) == MAX_SHOWN_CHARS + 1
    assert shown({"a": 1}) == "{'a': 1}"


def test_as_json_has_only_what_was_found() -> None:
    book = Book(CHECKS, PeerProfile.STANDARD)
    book.passed("one")
    assert as_json(book)["checks"][0] == {
        "name": "one",
        "must": "Does one.",
        "page": "docs/page.md#one",
        "verdict": "passed",
    }
