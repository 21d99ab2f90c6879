"""Pauses grow, have an end, and do not march in step."""

from hypothesis import given
from hypothesis import strategies as st

from lingua_sdk.domain.backoff import Backoff


def test_each_pause_is_twice_the_one_before_up_to_the_longest() -> None:
    backoff = Backoff(0.1, 0.5)
    assert [backoff.pause_s(failures) for failures in range(6)] == [0, 0.1, 0.2, 0.4, 0.5, 0.5]
    assert backoff.pause_s(10**9) == 0.5


@given(st.integers(1, 50), st.floats(0, 1), st.floats(0, 1))
def test_chance_decides_no_more_than_its_share(failures: int, dice: float, jitter: float) -> None:
    longest = Backoff(0.1, 5.0).pause_s(failures)
    pause = Backoff(0.1, 5.0, jitter).pause_s(failures, dice)
    assert longest * (1 - jitter) <= pause <= longest * (1 + 1e-9)


def test_full_jitter_may_be_no_pause_at_all() -> None:
    assert Backoff(0.1, 5.0, jitter=1.0).pause_s(9, 0.0) == 0
