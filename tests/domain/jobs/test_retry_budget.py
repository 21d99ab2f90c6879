"""Retries come soon but not in step, and never flood the fleet."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.domain.jobs.retry_budget import RetryBudget, pause_s
from lingua_sdk.domain.errors import RETRYABLE

AT_ONCE = ("NODE_OVERLOADED", "MODEL_NOT_AVAILABLE", "WS_DISCONNECTED")


@pytest.mark.parametrize("reason", ["node_gone", "send_failed", "ack_timeout", "job_timeout", "disowned", *AT_ONCE])
@pytest.mark.parametrize("retry", [1, 7])
def test_a_job_whose_node_is_gone_or_refused_goes_on_at_once(reason: str, retry: int) -> None:
    assert pause_s(reason, retry, 0.5) == 0


@pytest.mark.parametrize("reason", [*sorted(RETRYABLE - set(AT_ONCE)), "other"])
def test_after_an_error_each_retry_waits_longer_up_to_a_second(reason: str) -> None:
    longest = [pause_s(reason, retry, 1.0) for retry in range(1, 9)]
    assert longest == [0.05, 0.1, 0.2, 0.4, 0.8, 1, 1, 1]


@given(st.integers(1, 100), st.floats(0, 1, exclude_max=True))
def test_chance_shortens_a_pause_by_up_to_half(retry: int, dice: float) -> None:
    assert pause_s("NMT_TIMEOUT", retry, 1.0) / 2 <= pause_s("NMT_TIMEOUT", retry, dice) <= 1


def test_the_burst_is_there_from_the_start_and_no_more() -> None:
    budget = RetryBudget(percent=10, burst=3)
    assert [budget.take() for _ in range(5)] == [True, True, True, False, False]


@given(st.lists(st.sampled_from(["job", "job", "job", "retry"]), max_size=400), st.integers(1, 100), st.integers(1, 20))
def test_retries_stay_within_their_share_and_the_burst(events: list[str], percent: int, burst: int) -> None:
    budget = RetryBudget(percent, burst)
    jobs = retries = 0
    for event in events:
        if event == "job":
            jobs += 1
            budget.earn()
        elif budget.take():
            retries += 1
        assert retries <= burst + jobs * percent / 100


def test_a_quiet_hour_saves_no_more_than_the_burst() -> None:
    budget = RetryBudget(percent=10, burst=2)
    for _ in range(10_000):
        budget.earn()
    assert [budget.take() for _ in range(3)] == [True, True, False]


def test_every_tenth_job_pays_for_one_retry() -> None:
    budget = RetryBudget(percent=10, burst=1)
    assert budget.take()
    for _ in range(9):
        budget.earn()
        assert not budget.take()
    budget.earn()
    assert budget.take()
