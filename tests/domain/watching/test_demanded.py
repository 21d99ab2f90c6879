"""The load of a pair: what arrives and waits, held for a while, the same on every instance and after a restart."""

from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.domain.watching import demanded
from lingua_scheduler.domain.watching.demanded import (
    CLEAR_S,
    DEFAULT_JOB_S,
    HOLD_STEPS,
    MAX_JOB_S,
    DemandMemory,
    PairFlow,
    PairMemory,
    WorkTrend,
    held,
    load_of,
    remembered,
    rows,
    waiting_by_pair,
)
from lingua_scheduler.domain.watching.figures import FRESH_MS, Figures
from lingua_scheduler.domain.watching.pair_work import REST, PairWork

HOLD_MS = 60_000
loads = st.floats(0, 1_000, allow_nan=False)


def told(at_ms: int, jobs: int, life: str = "a", pair: str = "en:zh", node_ms: int = 500) -> Figures:
    work = PairWork(jobs, jobs, jobs * node_ms, jobs * 2_000, jobs * node_ms)
    return Figures(life=life, at_ms=at_ms, work={pair: work} if jobs else {})


def flow(per_s: float, node_ms: int = 1_000, jobs: int = 100) -> PairFlow:
    return PairFlow(per_s, PairWork(jobs, jobs, jobs * node_ms, jobs * 2_000, jobs * node_ms))


# The window


def test_arrivals_are_averaged_over_the_window_and_summed_over_instances() -> None:
    trend = WorkTrend(10_000)
    assert trend.look(0, {"x": told(0, 0), "y": told(0, 0)}) == {}
    trend.look(5_000, {"x": told(5_000, 10), "y": told(5_000, 5)})
    flows = trend.look(10_000, {"x": told(10_000, 20), "y": told(10_000, 10)})
    assert flows["en:zh"].arrivals_per_s == pytest.approx(3)
    assert flows["en:zh"].work.jobs == 30
    # The first five seconds are out of the window; only x has done anything since.
    flows = trend.look(15_000, {"x": told(15_000, 40), "y": told(15_000, 10)})
    assert flows["en:zh"].arrivals_per_s == pytest.approx(3 + 0.5)


def test_an_instance_that_began_anew_left_or_fell_silent_does_not_count() -> None:
    trend = WorkTrend(10_000)
    trend.look(0, {"x": told(0, 100), "y": told(0, 0)})
    # Another life: nothing is known of its rate yet.
    assert trend.look(5_000, {"x": told(5_000, 3, life="b"), "y": told(5_000, 0)}) == {}
    assert trend.look(10_000, {"x": told(10_000, 8, life="b")})["en:zh"].arrivals_per_s == pytest.approx(1)
    assert trend.look(10_000 + FRESH_MS, {"x": told(10_000, 8, life="b")}) == {}
    assert trend.look(11_000 + FRESH_MS, {}) == {}


def test_one_job_right_after_the_start_is_no_rush() -> None:
    trend = WorkTrend(10_000)
    trend.look(0, {"x": told(0, 0)})
    assert trend.look(100, {"x": told(100, 1)}) == {}


def test_it_is_settled_after_a_window() -> None:
    trend = WorkTrend(10_000)
    assert not trend.is_settled(0)
    trend.look(5_000, {})
    assert not trend.is_settled(14_999)
    assert trend.is_settled(15_000)


def test_few_figures_are_kept_however_often_they_are_told() -> None:
    trend = WorkTrend(10_000)
    for at_ms in range(0, 100_000, 100):
        trend.look(at_ms, {"x": told(at_ms, at_ms // 100)})
    assert len(trend._told["x"]) <= 102


# The load


def test_the_load_is_arrivals_times_node_time() -> None:
    assert load_of(flow(4.0), 0, 1.5) == pytest.approx(6)


def test_jobs_that_wait_call_for_slots_that_clear_the_queue_and_never_for_more_than_one_each() -> None:
    assert load_of(PairFlow(), 20, CLEAR_S / 10) == pytest.approx(2)
    assert load_of(PairFlow(), 20, CLEAR_S * 50) == pytest.approx(20)


@given(st.floats(0, 100), st.integers(0, 100), st.floats(0.01, 100), st.floats(0, 10), st.integers(0, 10))
def test_more_arrivals_more_waiting_and_longer_jobs_never_make_a_smaller_load(
    per_s: float, waiting: int, job_s: float, more: float, more_waiting: int
) -> None:
    load = load_of(PairFlow(per_s), waiting, job_s)
    assert load_of(PairFlow(per_s + more), waiting, job_s) >= load
    assert load_of(PairFlow(per_s), waiting + more_waiting, job_s) >= load
    assert load_of(PairFlow(per_s), waiting, job_s + more) >= load


def remember(
    before: DemandMemory, now_ms: int = 1_000, waiting: Mapping[str, int] | None = None, **flows: PairFlow
) -> DemandMemory:
    by_pair = {name.replace("_", ":"): one for name, one in flows.items()}
    return remembered(by_pair, waiting or {}, before, now_ms, HOLD_MS)


def test_node_time_is_measured_else_as_it_was_else_as_that_of_other_pairs_else_a_default() -> None:
    none = remember(DemandMemory(), waiting={"de:fr": 10})
    assert (none.pairs["de:fr"].node_s, none.pairs["de:fr"].load) == (None, 10 * DEFAULT_JOB_S / CLEAR_S)
    others = remember(DemandMemory(), waiting={"de:fr": 10}, en_zh=flow(1.0, 4_000))
    assert others.pairs["de:fr"].node_s is None
    assert others.pairs["de:fr"].load == pytest.approx(4)
    measured = remember(DemandMemory(), de_fr=flow(1.0, 3_000))
    assert measured.pairs["de:fr"].node_s == pytest.approx(3)
    later = remember(measured, 2_000, waiting={"de:fr": 20})
    assert later.pairs["de:fr"].node_s == pytest.approx(3)
    assert later.pairs["de:fr"].load == pytest.approx(6)
    # As it was last, also for a pair of which nothing is known.
    assert remember(measured, 2_000, waiting={"en:ko": 10}).pairs["en:ko"].load == pytest.approx(3)


def test_a_measurement_that_cannot_be_true_has_a_limit() -> None:
    assert remember(DemandMemory(), de_fr=flow(1.0, 10**9)).pairs["de:fr"].node_s == MAX_JOB_S


def test_refused_jobs_are_demand_though_no_node_had_them() -> None:
    refused = PairFlow(5.0, PairWork(jobs=50))
    found = remember(DemandMemory(), de_fr=refused)
    assert found.pairs["de:fr"].load == pytest.approx(5 * DEFAULT_JOB_S)


def test_without_load_there_is_no_row_and_no_memory() -> None:
    memory = remember(DemandMemory())
    assert (memory.pairs, rows({}, {}, memory)) == ({}, [])
    busy = remember(DemandMemory(), de_fr=flow(1.0))
    assert remember(busy, 1_000 + 3 * HOLD_MS).pairs == {}


def test_rows_are_the_busiest_first_with_their_figures() -> None:
    flows = {"en:zh": flow(1.0, 1_500), "zh:en": flow(4.0, 500)}
    memory = remembered(flows, {"en:zh": 3}, DemandMemory(), 0, HOLD_MS)
    first, second = rows(flows, {"en:zh": 3}, memory)
    assert (first.src, first.tgt, first.arrivals_per_s, first.waiting, first.load) == ("zh", "en", 4.0, 0, 2.0)
    assert (second.node_s_per_job, second.real_time_factor, second.waiting) == (1.5, 0.75, 3)


def test_the_pairs_with_the_highest_loads_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demanded, "PAIRS_MAX", 2)
    memory = remember(DemandMemory(), a_b=flow(1.0), c_d=flow(3.0), e_f=flow(2.0))
    assert set(memory.pairs) == {"c:d", "e:f"}


def test_waiting_jobs_are_counted_by_pair_and_beyond_the_limit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    pools = {"en:zh:speech": 2, "en:zh:text": 3, "text/en:zh:text": 1, "de:fr:speech": 1}
    assert waiting_by_pair(pools) == {"en:zh": 6, "de:fr": 1}
    monkeypatch.setattr(demanded, "PAIRS_MAX", 1)
    assert waiting_by_pair(pools) == {"en:zh": 6, REST: 1}


# The hold


@given(st.lists(st.tuples(st.integers(100, 20_000), loads), max_size=60))
def test_the_load_is_the_highest_of_the_hold_and_no_older_one(steps: list[tuple[int, float]]) -> None:
    now_ms, memory, history = 0, PairMemory(), list[tuple[int, float]]()
    for pause_ms, load in steps:
        now_ms += pause_ms
        history.append((now_ms, load))
        memory = PairMemory(None, held(memory, load, now_ms, HOLD_MS))
        step_ms = HOLD_MS // HOLD_STEPS
        lately = [one for at_ms, one in history if now_ms - at_ms < HOLD_MS - step_ms and one > demanded.NOTHING]
        longest = [one for at_ms, one in history if now_ms - at_ms <= HOLD_MS + step_ms]
        assert max(lately, default=0.0) <= memory.load <= max(longest)
        assert len(memory.peaks) <= HOLD_STEPS + 2


@given(st.floats(1, 100), st.floats(1, 100), st.integers(1, 10))
def test_a_load_that_goes_up_and_down_within_the_hold_does_not_move_what_is_held(
    low: float, high: float, looks: int
) -> None:
    low, high = sorted((low, high))
    memory, seen = PairMemory(None, held(PairMemory(), high, 0, HOLD_MS)), set()
    for number in range(1, 20 * looks):
        load = high if number % 10 == 0 else low
        memory = PairMemory(None, held(memory, load, number * 1_000, HOLD_MS))
        seen.add(memory.load)
    assert seen == {high}


def test_more_load_counts_at_once_and_less_after_the_hold() -> None:
    memory = PairMemory(None, held(PairMemory(), 8.0, 0, HOLD_MS))
    memory = PairMemory(None, held(memory, 16.0, 1_000, HOLD_MS))
    assert memory.load == 16
    for at_ms in range(2_000, HOLD_MS, 1_000):
        memory = PairMemory(None, held(memory, 4.0, at_ms, HOLD_MS))
        assert memory.load == 16
    assert PairMemory(None, held(memory, 4.0, HOLD_MS + HOLD_MS // HOLD_STEPS + 1_000, HOLD_MS)).load == 4


def test_after_a_restart_the_last_load_counts_as_if_it_were_now() -> None:
    before = remember(DemandMemory(), 0, de_fr=flow(4.0))
    late_ms = 10 * HOLD_MS
    after = remembered({}, {}, before.renewed(late_ms), late_ms, HOLD_MS)
    assert after.pairs["de:fr"].load == pytest.approx(4)
    assert not after.is_settled
    assert remembered({}, {}, before, late_ms, HOLD_MS).pairs == {}


def test_the_memory_can_be_written_and_read() -> None:
    before = remember(DemandMemory(is_settled=True), 0, de_fr=flow(4.0))
    assert msgspec.json.decode(msgspec.json.encode(before), type=DemandMemory) == before
