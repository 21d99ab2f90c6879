"""A rate with a reserve for bursts."""

from lingua_scheduler.domain.rates import Bucket


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
