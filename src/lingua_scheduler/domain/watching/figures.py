"""What an instance counts and tells the others; and what all of them did between two looks."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from lingua_scheduler.domain.jobs.jobs import ENDED, JobState
from lingua_scheduler.domain.watching.latency import LatencyTally, merged
from lingua_scheduler.domain.watching.pair_work import PairWork
from lingua_scheduler.domain.watching.picture import JobLook, Moment, NodeLook
from lingua_scheduler.domain.watching.rooms import RoomFigures

# Of a list or a table one instance tells no more than this.
NAMED_MAX = 200
JOBS_MAX = 20
OTHER = "other"
MINUTE_MS = 60_000
# What is called "now": shorter, and the pause between two sentences would look like a standstill.
WINDOW_MS = 15_000
# Older figures are not current.
FRESH_MS = 30_000
# In less than this a single job looks like a rush, and none like a standstill.
SHORTEST_MS = 900
_PERCENTILES = (50, 95, 99)


class Figures(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One instance's own; counters begin with its life."""

    life: str
    at_ms: int
    sessions: int = 0
    session_languages: dict[str, int] = {}
    # Pools (src:tgt:facet) its sessions ask for, and those jobs wait for here.
    wanted: list[str] = []
    # Pools that jobs asked for since the figures before.
    asked: list[str] = []
    waiting: dict[str, int] = {}
    # What jobs cost the public nodes, by pair (src:tgt).
    work: dict[str, PairWork] = {}
    nodes: int = 0
    # Nodes that said they take no more work, and then left, a moment ago.
    goodbyes: list[str] = []
    jobs_waiting: int = 0
    jobs_ended: dict[str, int] = {}
    # Of those that failed, how many for a cause that has an alarm of its own, by code.
    failed_for: dict[str, int] = {}
    retries: int = 0
    latency: list[int] = []
    slow: list[JobLook] = []
    failures: list[JobLook] = []
    # It lets every caller in, and can be reached from other computers.
    is_unprotected: bool = False
    # Keys in use that end soon, and when (ms).
    expiring: dict[str, int] = {}
    # Tenants in which room codes are being guessed, and how many wrong ones were named in a minute.
    guessing: dict[str, int] = {}
    # When its TLS certificate expires (ms), if that is soon; and whether its newer files cannot be used.
    certificate_ends_ms: int = 0
    is_certificate_refused: bool = False
    # A person watches the fleet through this instance.
    is_watched: bool = False
    rooms: RoomFigures = RoomFigures()


class Growth(NamedTuple):
    """What one instance did between two of its figures."""

    at_ms: int
    took_ms: int
    ended: Mapping[str, int]
    retries: int
    latency: LatencyTally
    failed_for: Mapping[str, int] = {}

    @property
    def total(self) -> int:
        return sum(self.ended.values())

    @property
    def failed(self) -> int:
        return self.ended.get(JobState.FAILED.value, 0)


class Rates(NamedTuple):
    """All instances together, a second."""

    ended: Mapping[str, float]
    retries: float
    latency: LatencyTally


def growth(before: Figures, after: Figures) -> Growth | None:
    """None if unknown: there are no newer figures, or another process has the id."""
    took_ms = after.at_ms - before.at_ms
    if before.life != after.life or took_ms <= 0:
        return None
    ended = {state.value: _risen(before.jobs_ended, after.jobs_ended, state.value) for state in ENDED}
    latency = LatencyTally(after.latency).since(LatencyTally(before.latency))
    failed_for = {code: _risen(before.failed_for, after.failed_for, code) for code in after.failed_for}
    return Growth(after.at_ms, took_ms, ended, max(0, after.retries - before.retries), latency, failed_for)


class Trend:
    """Remembers the last figures of each living instance, and what grew in the last minute."""

    def __init__(self) -> None:
        self._figures: dict[str, Figures] = {}
        self._growths: dict[str, list[Growth]] = {}
        self._minute: list[Growth] = []

    def look(self, now_ms: int, living: Mapping[str, Figures]) -> Rates:
        """Each instance tells at its own pace, so each has the rate of its own last intervals."""
        for instance, figures in living.items():
            before = self._figures.get(instance)
            if before is not None and before.life == figures.life and figures.at_ms - before.at_ms < SHORTEST_MS:
                continue
            self._figures[instance] = figures
            grown = None if before is None else growth(before, figures)
            if grown is not None:
                # When we heard of it: their clock may not be ours.
                grown = grown._replace(at_ms=now_ms)
                self._growths.setdefault(instance, []).append(grown)
                self._minute.append(grown)
        self._figures = {instance: figures for instance, figures in self._figures.items() if instance in living}
        self._growths = {
            instance: lately
            for instance, growths in self._growths.items()
            if instance in living and (lately := _lately(growths, now_ms))
        }
        self._minute = [grown for grown in self._minute if now_ms - grown.at_ms < MINUTE_MS]
        return rates(self._growths.values())

    def last_minute(self) -> tuple[int, int, Mapping[str, int], LatencyTally]:
        """Jobs that ended, those that failed, of these some by code, and how long all of them took."""
        return (
            sum(grown.total for grown in self._minute),
            sum(grown.failed for grown in self._minute),
            summed(grown.failed_for for grown in self._minute),
            merged(grown.latency for grown in self._minute),
        )


def rates(instances: Iterable[Sequence[Growth]]) -> Rates:
    """Each instance's jobs by the time in which it did them, all instances summed."""
    known = [(growths, sum(g.took_ms for g in growths) / 1000) for growths in instances]
    ended = {
        state.value: sum(sum(g.ended[state.value] for g in growths) / took_s for growths, took_s in known)
        for state in ENDED
    }
    retries = sum(sum(g.retries for g in growths) / took_s for growths, took_s in known)
    return Rates(ended, retries, merged(g.latency for growths, _ in known for g in growths))


def summed(tables: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for table in tables:
        total.update(table)
    return dict(total)


def highest(tables: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for table in tables:
        for name, count in table.items():
            found[name] = max(count, found.get(name, 0))
    return found


def most_common(counts: Mapping[str, int], most: int = NAMED_MAX) -> dict[str, int]:
    """The largest by name, all others together under one."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    rest = sum(count for _, count in ranked[most:])
    return dict(ranked[:most]) | ({OTHER: rest} if rest else {})


def latest_jobs(*lists: Iterable[JobLook], since_ms: int = 0, most: int = JOBS_MAX) -> list[JobLook]:
    """Each job once, the newest first."""
    jobs = {
        (job.job_id, job.session_id if not job.job_id else "", job.utterance_index if not job.job_id else -1): job
        for some in lists
        for job in some
        if job.ended_at_ms >= since_ms
    }
    return sorted(jobs.values(), key=lambda job: (-job.ended_at_ms, job.job_id))[:most]


def moment_of(now_ms: int, rates: Rates, living: Sequence[Figures], nodes: Sequence[NodeLook]) -> Moment:
    per_s = {state: round(rate, 2) for state, rate in rates.ended.items()}
    p50, p95, p99 = (_tenths(rates.latency.percentile(percent)) for percent in _PERCENTILES)
    return Moment(
        at_ms=now_ms,
        done_per_s=per_s[JobState.DONE],
        no_text_per_s=per_s[JobState.NO_TEXT],
        failed_per_s=per_s[JobState.FAILED],
        cancelled_per_s=per_s[JobState.CANCELLED],
        retries_per_s=round(rates.retries, 2),
        p50_ms=p50,
        p95_ms=p95,
        p99_ms=p99,
        sessions=sum(figures.sessions for figures in living),
        jobs_waiting=sum(figures.jobs_waiting for figures in living),
        slots_taken=sum(node.held for node in nodes),
        slots_total=sum(node.max_jobs for node in nodes),
    )


def _risen(before: Mapping[str, int], after: Mapping[str, int], name: str) -> int:
    return max(0, after.get(name, 0) - before.get(name, 0))


def _lately(growths: Sequence[Growth], now_ms: int) -> list[Growth]:
    """Those of the window; of one that tells seldom its last, unless that is old."""
    last = [grown for grown in growths[-1:] if now_ms - grown.at_ms < FRESH_MS]
    return [grown for grown in growths if now_ms - grown.at_ms < WINDOW_MS] or last


def _tenths(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
