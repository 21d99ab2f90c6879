"""What instances count, put together: rates of each at its own pace, never negative, nothing of the dead."""

from typing import Any

from lingua_scheduler.domain.watching.figures import Figures, Trend, growth, latest_jobs, most_common, summed
from lingua_scheduler.domain.watching.latency import LatencyTally
from tests.support.pictures import job


def told(at_ms: int, done: int = 0, failed: int = 0, life: str = "a", **more: Any) -> Figures:
    return Figures(life=life, at_ms=at_ms, jobs_ended={"DONE": done, "FAILED": failed}, **more)


def test_growth_is_the_difference_of_two_figures_of_one_life() -> None:
    grown = growth(told(1_000, done=5), told(3_000, done=9, failed=1, retries=2))
    assert grown is not None
    assert (grown.took_ms, grown.total, grown.failed, grown.retries) == (2_000, 5, 1, 2)


def test_a_process_that_began_anew_has_no_growth_yet_and_a_counter_that_fell_none() -> None:
    assert growth(told(1_000, done=5), told(2_000, done=1, life="b")) is None
    assert growth(told(1_000), told(1_000)) is None
    fallen = growth(told(1_000, done=5), told(2_000, done=1))
    assert fallen is not None
    assert fallen.total == 0


def test_rates_are_summed_over_instances_each_at_its_own_pace() -> None:
    trend = Trend()
    trend.look(0, {"x": told(0), "y": told(0)})
    trend.look(1_000, {"x": told(1_000, done=10), "y": told(0)})
    rates = trend.look(5_000, {"x": told(5_000, done=50), "y": told(5_000, done=5)})
    assert rates.ended["DONE"] == 10 + 1


def test_one_that_has_not_told_anything_since_keeps_its_rate_and_a_dead_one_has_none() -> None:
    trend = Trend()
    trend.look(0, {"x": told(0), "y": told(0)})
    trend.look(5_000, {"x": told(5_000, done=50), "y": told(5_000, done=50)})
    assert trend.look(6_000, {"x": told(5_000, done=50), "y": told(5_000, done=50)}).ended["DONE"] == 20
    assert trend.look(7_000, {"x": told(5_000, done=50)}).ended["DONE"] == 10
    assert trend.look(60_000, {"x": told(5_000, done=50)}).ended["DONE"] == 0


def test_a_sentence_now_and_then_is_a_steady_rate_with_steady_percentiles() -> None:
    trend, counted, done = Trend(), LatencyTally(), 0
    seen = []
    for second in range(60):
        if second % 5 in (0, 2):
            counted.add(700)
            done += 1
        at_ms = 1_000 * second
        rates = trend.look(at_ms, {"x": told(at_ms, done=done, latency=list(counted.counts))})
        seen.append((rates.ended["DONE"], rates.latency.percentile(50)))
    assert all(0.3 < rate < 0.5 and p50 for rate, p50 in seen[15:])


def test_what_is_called_now_is_over_after_its_window() -> None:
    trend = Trend()
    trend.look(0, {"x": told(0)})
    assert trend.look(1_000, {"x": told(1_000, done=3)}).ended["DONE"] == 3
    for second in range(2, 16):
        rates = trend.look(1_000 * second, {"x": told(1_000 * second, done=3)})
        assert rates.ended["DONE"] == 3 / second
    assert trend.look(16_000, {"x": told(16_000, done=3)}).ended["DONE"] == 0


def test_an_instance_that_comes_with_many_jobs_behind_it_does_not_make_a_peak() -> None:
    trend = Trend()
    trend.look(0, {"x": told(0)})
    rates = trend.look(5_000, {"x": told(5_000), "y": told(5_000, done=100_000)})
    assert rates.ended["DONE"] == 0


def test_the_last_minute_is_remembered_and_no_more() -> None:
    trend = Trend()
    slow = LatencyTally()
    slow.add(7_000)
    trend.look(0, {"x": told(0)})
    unserved = {"NO_CAPABLE_NODE": 1}
    trend.look(5_000, {"x": told(5_000, done=3, failed=1, latency=slow.counts, failed_for=unserved)})
    ended, failed, failed_for, latency = trend.last_minute()
    assert (ended, failed, failed_for, len(latency)) == (4, 1, unserved, 1)
    trend.look(66_000, {"x": told(66_000, done=3, failed=1, latency=slow.counts)})
    assert trend.last_minute()[:3] == (0, 0, {})


def test_only_so_many_names_are_told_and_the_rest_summed() -> None:
    assert most_common({"a": 1, "b": 5, "c": 2}, 2) == {"b": 5, "c": 2, "other": 1}
    assert most_common({"a": 1}, 2) == {"a": 1}
    assert summed([{"a": 1}, {"a": 2, "b": 1}]) == {"a": 3, "b": 1}


def test_jobs_come_once_newest_first_and_old_ones_not_at_all() -> None:
    one, two, three = job("j1", ended_at_ms=1), job("j2", ended_at_ms=2), job("j3", ended_at_ms=3)
    assert latest_jobs([one, two], [two, three], since_ms=2) == [three, two]
    assert latest_jobs([one, two, three], most=1) == [three]
