"""How much CPU a connection costs us: roughly first, then exactly."""

from time import perf_counter, thread_time

import pytest

from lingua_scheduler.gateway.scales import CPU_BURST_S, EXACT_FOR_S, LEAST_WAIT_S, Scales


def test_only_who_seems_to_cost_too_much_is_weighed_exactly() -> None:
    scales = Scales(0.2)
    assert scales.take(CPU_BURST_S / 2, 100.0) == 0
    assert scales.clock is perf_counter
    assert scales.take(0.001, 100.0) == 0
    assert scales.clock is thread_time


def test_and_rests_for_what_it_cost() -> None:
    scales = Scales(0.2)
    scales.take(1.0, 100.0)
    # The second that passed is not held against it.
    assert scales.take(CPU_BURST_S / 2, 100.0) == 0
    assert scales.take(0.02, 100.0) == pytest.approx(0.1)
    assert scales.take(0.0, 100.099) == LEAST_WAIT_S


def test_until_it_had_not_to_rest_for_a_while() -> None:
    scales = Scales(0.2)
    scales.take(1.0, 100.0)
    assert scales.take(1.0, 105.0) > 0
    assert scales.take(0.0, 104.0 + EXACT_FOR_S) == 0
    assert scales.clock is thread_time
    assert scales.take(0.0, 105.1 + EXACT_FOR_S) == 0
    assert scales.clock is perf_counter
    # And it has its reserve again.
    assert scales.take(CPU_BURST_S / 2, 105.1 + EXACT_FOR_S) == 0
    assert scales.clock is perf_counter
