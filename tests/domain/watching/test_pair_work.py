"""What the jobs of a pair cost, counted: nothing is lost, nothing jumps, and names are bounded."""

import pytest

from lingua_scheduler.domain.watching import pair_work
from lingua_scheduler.domain.watching.pair_work import KEPT_MS, REST, PairWork, WorkBook

ONE = PairWork(1, 1, 500, 2_000, 500)


def test_counters_add_up_and_their_increase_is_the_difference() -> None:
    three = ONE.plus(ONE).plus(ONE)
    assert three == PairWork(3, 3, 1_500, 6_000, 1_500)
    assert three.since(ONE) == PairWork(2, 2, 1_000, 4_000, 1_000)


def test_counters_that_began_anew_have_grown_by_what_they_are() -> None:
    assert ONE.since(PairWork(7, 7, 3_500, 0, 0)) == ONE
    # As many jobs as before, which took less: another count.
    assert ONE.since(PairWork(1, 1, 900, 0, 0)) == ONE


def test_pairs_beyond_the_limit_are_counted_together_and_keep_that_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_work, "PAIRS_MAX", 2)
    book = WorkBook()
    for pair in ("en:zh", "zh:en", "de:fr", "fr:de", "en:zh"):
        book.add(pair, ONE, 0)
    assert {pair: work.jobs for pair, work in book.told(0).items()} == {"en:zh": 2, "zh:en": 1, REST: 2}


def test_a_pair_without_jobs_for_an_hour_is_forgotten_and_its_name_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_work, "PAIRS_MAX", 1)
    book = WorkBook()
    book.add("en:zh", ONE, 0)
    assert list(book.told(KEPT_MS - 1)) == ["en:zh"]
    assert book.told(KEPT_MS) == {}
    book.add("de:fr", ONE, KEPT_MS)
    assert list(book.told(KEPT_MS)) == ["de:fr"]


def test_what_was_told_does_not_change_afterwards() -> None:
    book = WorkBook()
    book.add("en:zh", ONE, 0)
    told = book.told(0)
    book.add("en:zh", ONE, 1)
    assert told == {"en:zh": ONE}
