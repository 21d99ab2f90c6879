"""Percentiles, CPU clocks and the yardstick."""

import os
import time

import pytest

from bench import measure
from bench.measure import CpuMeter, Track, Waits, Yardstick, percentile, tail, within
from tests.support.waiting import until


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.0, 1), (0.5, 50), (0.99, 99), (0.991, 100), (0.999, 100), (1.0, 100)],
)
def test_a_percentile_is_the_smallest_value_that_the_share_does_not_exceed(share: float, expected: float) -> None:
    assert percentile(range(1, 101), share) == expected


def test_every_percentile_of_one_value_is_that_value() -> None:
    assert [percentile([7.5], share) for share in (0.0, 0.5, 0.999)] == [7.5] * 3


@pytest.mark.parametrize(
    ("count", "share", "expected"), [(1000, 0.999, 999), (999, 0.999, None), (100, 0.99, 99), (99, 0.99, None)]
)
def test_a_percentile_beyond_all_values_is_not_known(count: int, share: float, expected: float | None) -> None:
    assert tail(range(1, count + 1), share) == expected


def test_the_cpu_clock_of_a_process_counts_its_work_and_not_its_sleep() -> None:
    meter = CpuMeter({"me": os.getpid()})
    own_s = time.process_time()
    while time.process_time() - own_s < 0.05:
        pass
    worked_s = meter.spent_s()["me"]
    time.sleep(0.05)
    assert worked_s >= 0.05
    assert meter.spent_s()["me"] < worked_s


def test_memory_of_a_process_is_more_than_a_megabyte_and_less_than_all() -> None:
    assert 1 < measure.resident_mb(os.getpid()) < 100_000


@pytest.mark.parametrize(("text", "seconds"), [("0:01.50", 1.5), ("02:03:04", 7384), ("1-00:00:01", 86_401)])
def test_times_of_ps_are_read(text: str, seconds: float) -> None:
    assert measure._clock_text_s(text) == seconds


async def test_a_yardstick_begins_anew_when_it_was_asked() -> None:
    yardstick = Yardstick()
    async with yardstick.ticking():
        assert yardstick.slowdown() > 0
    assert yardstick.slowdown() > 0


def test_a_process_that_is_gone_was_never_starved_as_far_as_we_know() -> None:
    assert measure.starved_s(2**22 + 1) is None


async def test_a_track_reads_again_and_again_and_knows_what_was_between() -> None:
    readings = iter(range(1000))
    async with Track(lambda: float(next(readings)), 0.01).running() as track:
        await until(lambda: len(track.points) >= 4)
    moments = [moment for moment, _ in track.points]
    assert [reading for _, reading in track.points] == list(range(len(moments)))
    assert track.at(0) == 0
    assert track.at((moments[1] + moments[2]) / 2) == pytest.approx(1.5)
    assert track.at(moments[-1] + 100) == len(moments) - 1


def test_a_moment_is_quiet_while_the_processes_wait_for_no_core() -> None:
    waits = Waits([os.getpid()], 0.1)
    waits.began_s = 100.0
    waits.points = [(0.0, 5.0), (1.0, 5.05), (2.0, 5.2), (3.0, 5.2)]
    assert waits.quiet() == [(100.0, 101.0), (102.0, 103.0)]
    events = [(99.9, 1.0), (100.0, 2.0), (100.9, 3.0), (101.0, 4.0), (102.5, 5.0), (103.0, 6.0)]
    assert within(waits.quiet(), events) == [2.0, 3.0, 5.0]
    assert within([], events) == []
