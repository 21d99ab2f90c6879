"""The formula on a recorded load: two utterances a second, after a minute four, after another two again, then none.

recorded/load.jsonl is what an instance told every two seconds while `lingua load` spoke to it: when (ms), the work of
the pair en:zh, and the jobs that waited."""

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from lingua_scheduler.domain.watching.demanded import DemandMemory, WorkTrend, remembered
from lingua_scheduler.domain.watching.figures import Figures
from lingua_scheduler.domain.watching.pair_work import PairWork
from lingua_scheduler.domain.watching.scaling import slots_for

PAIR = "en:zh"
WINDOW_MS, HOLD_MS, HEADROOM = 10_000, 20_000, 1.5
MINUTE_MS = 60_000
LINES = [json.loads(line) for line in (Path(__file__).parent / "recorded" / "load.jsonl").read_text().splitlines()]


class Wanted(NamedTuple):
    at_ms: int
    slots: int


def replayed(window_ms: int = WINDOW_MS, hold_ms: int = HOLD_MS) -> list[Wanted]:
    trend, memory, found = WorkTrend(window_ms), DemandMemory(), []
    for at_ms, work, waiting in LINES:
        told = Figures(life="a", at_ms=at_ms, work={PAIR: PairWork(*work)} if work[0] else {})
        flows = trend.look(at_ms, {"x": told})
        memory = remembered(flows, {PAIR: waiting} if waiting else {}, memory, at_ms, hold_ms)
        load = memory.pairs[PAIR].load if PAIR in memory.pairs else 0.0
        found.append(Wanted(at_ms, slots_for(load, HEADROOM)))
    return found


def jobs_at(at_ms: int) -> int:
    return max((int(work[0]) for told_ms, work, _ in LINES if told_ms <= at_ms), default=0)


FIRST_MS = next(at_ms for at_ms, work, _ in LINES if work[0])
# Of the whole recording, as nothing that is averaged over a window can know it.
NODE_S = LINES[-1][1][2] / LINES[-1][1][1] / 1000


def needed(at_ms: int, for_ms: int) -> int:
    per_s = (jobs_at(at_ms + for_ms) - jobs_at(at_ms)) * 1000 / for_ms
    return slots_for(per_s * NODE_S, HEADROOM)


def wanted_at(at_ms: int) -> int:
    return [one.slots for one in replayed() if one.at_ms <= at_ms][-1]


def test_the_recording_is_what_it_is_said_to_be() -> None:
    rates = [
        (jobs_at(FIRST_MS + end_s * 1000) - jobs_at(FIRST_MS + begin_s * 1000)) / (end_s - begin_s)
        for begin_s, end_s in ((5, 50), (70, 110), (130, 170), (200, 210))
    ]
    assert rates == pytest.approx([2, 4, 2, 0], rel=0.1)


@pytest.mark.parametrize(("since_s", "for_s"), [(5, 50), (70, 45), (130, 45)])
def test_within_a_minute_of_each_change_a_fifth_more_or_less_is_wanted_than_needed(since_s: int, for_s: int) -> None:
    should = needed(FIRST_MS + since_s * 1000, for_s * 1000)
    minute_later_ms = FIRST_MS + (since_s + for_s) * 1000
    assert abs(wanted_at(minute_later_ms) - should) <= math.ceil(0.2 * should), should


def test_the_end_of_speech_wants_nothing_and_the_way_there_goes_up_once_and_down_once() -> None:
    found = replayed()
    assert found[-1].slots == 0
    steps = [after.slots - before.slots for before, after in pairwise(found) if after.slots != before.slots]
    turns = sum((before > 0) != (after > 0) for before, after in pairwise([step for step in steps if abs(step) > 1]))
    assert turns <= 1, steps


def test_without_a_hold_it_would_go_up_and_down() -> None:
    """Or the test above says nothing about the hold."""

    def reversals(found: list[Wanted]) -> int:
        steps = [after.slots - before.slots for before, after in pairwise(found) if after.slots != before.slots]
        return sum((before > 0) != (after > 0) for before, after in pairwise(steps))

    assert reversals(replayed(window_ms=3_000, hold_ms=1)) > 4 * max(1, reversals(replayed()))
