"""The load of each language pair: arrivals times node time, with the jobs that wait, held for a while."""

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from lingua_scheduler.domain.pools.names import Pool
from lingua_scheduler.domain.watching.figures import FRESH_MS, SHORTEST_MS, Figures
from lingua_scheduler.domain.watching.pair_work import PAIRS_MAX, REST, PairDemand, PairWork
from lingua_sdk.domain.languages import Pair

# Of a job of which nothing is known yet.
DEFAULT_JOB_S = 2.0
# No slot is busy for longer with one job, whatever a measurement says.
MAX_JOB_S = 600.0
# Slots for the jobs that wait are such that these are done in this time.
CLEAR_S = 10.0
# A hold is kept in so many steps of time, so that its peaks are few.
HOLD_STEPS = 10
# Less than one job in an hour.
NOTHING = 0.0005


class PairFlow(NamedTuple):
    """What came and what was done in the window, by all instances together."""

    arrivals_per_s: float = 0.0
    work: PairWork = PairWork()

    def plus(self, other: "PairFlow") -> "PairFlow":
        return PairFlow(self.arrivals_per_s + other.arrivals_per_s, self.work.plus(other.work))


class _Told(NamedTuple):
    life: str
    at_ms: int
    heard_ms: int
    work: Mapping[str, PairWork]


class WorkTrend:
    """Remembers what each living instance told within the window."""

    def __init__(self, window_ms: int) -> None:
        self._window_ms = window_ms
        self._told: dict[str, deque[_Told]] = {}
        self._began_ms: int | None = None

    def is_settled(self, now_ms: int) -> bool:
        """Whether it has looked for a whole window."""
        return self._began_ms is not None and now_ms - self._began_ms >= self._window_ms

    def look(self, now_ms: int, living: Mapping[str, Figures]) -> dict[str, PairFlow]:
        """Each instance at its own pace, by its own clock."""
        if self._began_ms is None:
            self._began_ms = now_ms
        self._told = {instance: self._told.get(instance, deque()) for instance in living}
        flows: dict[str, PairFlow] = {}
        for instance, figures in living.items():
            told = self._told[instance]
            self._take(told, _Told(figures.life, figures.at_ms, now_ms, figures.work))
            if now_ms - told[-1].heard_ms < FRESH_MS:
                _add_flows(flows, told[0], told[-1])
        return flows

    def _take(self, told: deque[_Told], latest: _Told) -> None:
        if told and told[-1].life != latest.life:
            told.clear()
        if not told or latest.at_ms > told[-1].at_ms:
            told.append(latest)
        # The first of them is the last that is as old as the window.
        while len(told) > 1 and told[-1].at_ms - told[1].at_ms >= self._window_ms:
            told.popleft()


def _add_flows(flows: dict[str, PairFlow], first: _Told, last: _Told) -> None:
    took_ms = last.at_ms - first.at_ms
    if took_ms < SHORTEST_MS:
        return
    for pair, work in last.work.items():
        grown = work.since(first.work.get(pair, PairWork()))
        if grown.jobs:
            flows[pair] = flows.get(pair, PairFlow()).plus(PairFlow(grown.jobs * 1000 / took_ms, grown))


class PairMemory(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is remembered of a pair."""

    # Of its jobs; None: not measured yet.
    node_s: float | None = None
    # The highest loads by the end of a step of time, each lower than the one before.
    peaks: tuple[tuple[int, float], ...] = ()

    @property
    def load(self) -> float:
        return self.peaks[0][1] if self.peaks else 0.0


class DemandMemory(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The leader's, so that all instances say the same, and a new leader goes on with it."""

    is_settled: bool = False
    pairs: dict[str, PairMemory] = {}

    def renewed(self, now_ms: int) -> "DemandMemory":
        """After a restart: the load that was held then counts as if it were now, because nothing is measured yet."""
        pairs = {
            pair: PairMemory(one.node_s, ((now_ms, one.load),) if one.peaks else ()) for pair, one in self.pairs.items()
        }
        return DemandMemory(pairs=pairs)


def held(before: PairMemory, load: float, now_ms: int, hold_ms: int) -> tuple[tuple[int, float], ...]:
    """The peaks with this load. A load counts for `hold_ms`, and up to a step longer."""
    step_ms = max(1, hold_ms // HOLD_STEPS)
    end_ms = (now_ms // step_ms + 1) * step_ms
    peaks = [(at_ms, peak) for at_ms, peak in before.peaks if now_ms - at_ms < hold_ms and peak > load]
    if load > NOTHING and not (peaks and peaks[-1][0] >= end_ms):
        peaks.append((end_ms, load))
    return tuple(peaks)


def load_of(flow: PairFlow, waiting: int, job_s: float) -> float:
    """Little's law: how many slots these jobs keep busy; and what clears the queue, at most a slot for each in it."""
    return flow.arrivals_per_s * job_s + waiting * min(1.0, job_s / CLEAR_S)


def remembered(
    flows: Mapping[str, PairFlow], waiting: Mapping[str, int], before: DemandMemory, now_ms: int, hold_ms: int
) -> DemandMemory:
    """The memory after a look. `waiting`: jobs by pair. The pairs with the highest loads are kept."""
    otherwise_s = _usual_job_s(flows, before)
    pairs: dict[str, PairMemory] = {}
    for pair in {*before.pairs, *flows, *waiting}:
        known, flow = before.pairs.get(pair, PairMemory()), flows.get(pair, PairFlow())
        node_s = _node_s(flow.work) or known.node_s
        load = load_of(flow, waiting.get(pair, 0), node_s or otherwise_s)
        peaks = held(known, load, now_ms, hold_ms)
        if peaks:
            pairs[pair] = PairMemory(node_s, peaks)
    if len(pairs) > PAIRS_MAX:
        ranked = sorted(pairs.items(), key=lambda item: (-item[1].load, item[0]))
        pairs = dict(ranked[:PAIRS_MAX])
    return DemandMemory(is_settled=before.is_settled, pairs=pairs)


def rows(flows: Mapping[str, PairFlow], waiting: Mapping[str, int], memory: DemandMemory) -> list[PairDemand]:
    """The busiest first."""
    found = []
    for name, one in sorted(memory.pairs.items(), key=lambda item: (-item[1].load, item[0])):
        pair, flow = Pair.parse(name), flows.get(name, PairFlow())
        found.append(
            PairDemand(
                src=pair.src,
                tgt=pair.tgt,
                arrivals_per_s=round(flow.arrivals_per_s, 2),
                node_s_per_job=None if one.node_s is None else round(one.node_s, 3),
                real_time_factor=_real_time_factor(flow.work),
                waiting=waiting.get(name, 0),
                load=round(one.load, 3),
            )
        )
    return found


def waiting_by_pair(pools: Mapping[str, int]) -> dict[str, int]:
    """Of a table by pool; those beyond the limit together."""
    found: dict[str, int] = {}
    for pool, jobs in sorted(pools.items(), key=lambda item: -item[1]):
        pair = str(Pool.parse(pool).pair)
        if pair not in found and len(found) >= PAIRS_MAX:
            pair = REST
        found[pair] = found.get(pair, 0) + jobs
    return found


def _usual_job_s(flows: Mapping[str, PairFlow], before: DemandMemory) -> float:
    """Of a pair whose jobs were not measured yet: as those of the others."""
    done = PairWork()
    for flow in flows.values():
        done = done.plus(flow.work)
    known = [one.node_s for one in before.pairs.values() if one.node_s is not None]
    return _node_s(done) or (sum(known) / len(known) if known else DEFAULT_JOB_S)


def _node_s(work: PairWork) -> float | None:
    return min(MAX_JOB_S, work.node_ms / work.answered / 1000) if work.answered and work.node_ms else None


def _real_time_factor(work: PairWork) -> float | None:
    return round(work.speech_node_ms / work.speech_ms, 3) if work.speech_ms else None
