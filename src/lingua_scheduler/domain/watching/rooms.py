"""Rooms in the picture: what each instance tells of those it has, and all of them together."""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from lingua_scheduler.domain.watching.latency import LatencyTally, merged
from lingua_scheduler.domain.watching.picture import RoomsLook

# Languages of rooms that are named.
LANGUAGES_MAX = 50


class RoomFigures(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Of one instance. Each room is counted by the instance of its first member, each person by its own."""

    rooms: int = 0
    members: int = 0
    guests: int = 0
    # In which languages they read and hear the others, and how many.
    languages: dict[str, int] = {}
    # Pools (src:tgt:text) that the others need to understand members here, and how many of these there are.
    pools: dict[str, int] = {}
    # From the end of speech to its delivery in the last minutes: language → step of a LatencyTally → how many.
    lag: dict[str, dict[int, int]] = {}


def rooms_look(told: Iterable[RoomFigures]) -> RoomsLook:
    some = list(told)
    languages: Counter[str] = Counter()
    tallies: dict[str, list[LatencyTally]] = {}
    for figures in some:
        languages.update(figures.languages)
        for language, counts in figures.lag.items():
            tallies.setdefault(language, []).append(dense(counts))
    lag = {language: merged(each) for language, each in sorted(tallies.items())}
    return RoomsLook(
        rooms=sum(figures.rooms for figures in some),
        members=sum(figures.members for figures in some),
        guests=sum(figures.guests for figures in some),
        languages=dict(languages.most_common(LANGUAGES_MAX)),
        lag_p50_ms=_percentiles(lag, 50),
        lag_p95_ms=_percentiles(lag, 95),
    )


def sparse(tally: LatencyTally) -> dict[int, int]:
    return {step: count for step, count in enumerate(tally.counts) if count}


def dense(counts: Mapping[int, int]) -> LatencyTally:
    tally = LatencyTally()
    for step, count in counts.items():
        if 0 <= step < len(tally.counts):
            tally.counts[step] += max(0, count)
    return tally


def _percentiles(lag: Mapping[str, LatencyTally], percent: int) -> dict[str, float]:
    found = {language: tally.percentile(percent) for language, tally in lag.items()}
    return {language: round(ms, 1) for language, ms in found.items() if ms is not None}
