"""Latencies in steps: small, mergeable, and close to the truth."""

import random
from itertools import pairwise

import pytest

from lingua_scheduler.domain.watching.latency import BOUNDS_MS, FIRST_MS, LAST_MS, LatencyTally, merged


def tally(*took_ms: float) -> LatencyTally:
    counted = LatencyTally()
    for ms in took_ms:
        counted.add(ms)
    return counted


def test_there_are_enough_steps_between_a_millisecond_and_a_minute() -> None:
    assert len(BOUNDS_MS) >= 200
    assert (BOUNDS_MS[0], round(BOUNDS_MS[-1])) == (FIRST_MS, LAST_MS)
    assert max(high / low for low, high in pairwise(BOUNDS_MS)) < 1.05


@pytest.mark.parametrize("percent", [50, 95, 99])
def test_a_percentile_is_within_a_thirtieth_of_the_true_one(percent: int) -> None:
    dice = random.Random(7)
    took_ms = sorted(dice.lognormvariate(6, 1) for _ in range(20_000))
    true_ms = took_ms[len(took_ms) * percent // 100]
    found = tally(*took_ms).percentile(percent)
    assert found is not None
    assert abs(found / true_ms - 1) < 1 / 30


@pytest.mark.parametrize("percent", [1, 50, 95, 99, 100])
@pytest.mark.parametrize("took_ms", [[3_385.0], [3_378.0, 3_385.0, 3_392.0], [1.5], [59_000.0]])
def test_jobs_that_took_alike_are_read_as_what_they_took(took_ms: list[float], percent: float) -> None:
    found = tally(*took_ms).percentile(percent)
    assert found is not None
    assert min(took_ms) * 0.975 <= found <= max(took_ms) * 1.025


def test_of_nothing_there_is_no_percentile() -> None:
    assert LatencyTally().percentile(95) is None


def test_what_is_out_of_range_counts_at_its_end() -> None:
    counted = tally(-5, 0, 0.2, 1e9)
    assert len(counted) == 4
    assert (counted.counts[0], counted.counts[-1]) == (3, 1)
    assert counted.percentile(100) == pytest.approx(LAST_MS)


def test_merged_is_as_if_one_had_counted_all() -> None:
    assert merged([tally(3, 40), tally(500), LatencyTally()]).counts == tally(3, 40, 500).counts


def test_the_difference_is_what_was_added_and_never_less_than_nothing() -> None:
    before = tally(3, 40)
    now = LatencyTally(before.counts)
    now.add(500)
    assert now.since(before).counts == tally(500).counts
    assert len(before.since(now)) == 0


def test_a_tally_of_another_length_is_read_as_far_as_it_goes() -> None:
    assert len(LatencyTally([1, 2])) == 3
    assert len(LatencyTally([1] * 500)) == len(LatencyTally().counts)
