"""So many a second: what waits, and what is left out."""

import pytest

from lingua_scheduler.domain.guards import rates
from lingua_scheduler.domain.guards.rates import Bucket, Budget, MinuteAllowances, Paces


def test_a_burst_within_the_reserve_need_not_wait() -> None:
    bucket = Bucket(per_s=10, burst=20)
    assert [bucket.take(1, 100.0) for _ in range(20)] == [0.0] * 20


def test_who_takes_more_than_the_reserve_waits_until_it_is_paid_off() -> None:
    bucket = Bucket(per_s=10, burst=20)
    bucket.take(20, 100.0)
    assert bucket.take(5, 100.0) == 0.5
    assert bucket.take(5, 100.5) == 0.5


def test_the_reserve_fills_with_time_but_not_without_end() -> None:
    bucket = Bucket(per_s=10, burst=20)
    bucket.take(20, 100.0)
    assert bucket.take(10, 101.0) == 0.0
    assert bucket.take(20, 1_000.0) == 0.0
    assert bucket.take(1, 1_000.0) == 0.1


def test_a_burst_gets_a_seconds_worth_and_no_more() -> None:
    budget = Budget(5)
    assert [budget.take(100.0) for _ in range(7)] == [True] * 5 + [False] * 2


def test_it_fills_up_again_with_time_and_never_beyond_a_second() -> None:
    budget = Budget(5)
    for _ in range(5):
        budget.take(100.0)
    assert not budget.take(100.1)
    assert budget.take(100.3)
    assert not budget.take(100.3)
    assert sum(budget.take(1_000.0) for _ in range(20)) == 5


def test_each_thing_has_a_pace_of_its_own_and_the_oldest_is_forgotten() -> None:
    paces = Paces(per_s=2, max_known=2)
    assert [paces.may_show("a", 1.0) for _ in range(3)] == [True, True, False]
    assert paces.may_show("b", 1.0)
    assert paces.may_show("a", 1.6)
    assert paces.may_show("c", 1.6)
    assert len(paces._budgets) == 2


def test_each_name_has_so_many_a_minute_and_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "MAX_KNOWN", 2)
    allowances = MinuteAllowances(2)
    assert [allowances.take("a", 0.0) for _ in range(3)] == [True, True, False]
    assert (allowances.has("a", 0.0), allowances.has("b", 0.0)) == (False, True)
    assert allowances.has("a", 60.0)
    assert all(allowances.take("", 0.0) for _ in range(9))
    for name in ("b", "c"):
        allowances.take(name, 60.0)
    assert [allowances.take("a", 60.0) for _ in range(3)] == [True, True, False]
