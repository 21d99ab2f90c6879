"""So many a second, and the rest is left out."""

from lingua_scheduler.domain.budgets import Budget


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
