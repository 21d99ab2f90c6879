"""Scenario soak: small jobs at half load for a long time, while sessions come and go; memory stays flat."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import linear_regression, median
from typing import NamedTuple

from bench import children
from bench.children import BenchFailed, LoadChild
from bench.figures import Samples
from bench.life import MAX_SLOTS, SMALL_BYTES
from bench.measure import Track, resident_mb
from bench.orders import Cast, Order, Tally
from bench.plan import Plan

# Sessions remember what they were sent lately, and Redis keeps jobs for a while: both have to fill up first.
WARM_UP_S = 180.0
WARM_UP_SHARE = 0.1
# Before, it was not warm for as long as it takes to get warm: a little more or less would be thousands of MB an hour.
SLOPE_AFTER_S = 2 * WARM_UP_S
READ_EVERY_S = 2.0
HALF = 0.5
KEEP_JOBS_MS = 60_000
# How long a session lasts before another takes its place; each second one goes without a word.
LIFE_S = 60.0


def so_far(minute: int, minutes: float) -> str:
    """At the end of that minute, the last of which may be a part of one."""
    return f"{_span(min(minute, minutes))} of {_span(minutes)}"


def _span(minutes: float) -> str:
    return f"{minutes:g} min" if minutes >= 1 else f"{minutes * 60:g} s"


async def measure(plan: Plan, samples: Samples, folder: Path, tell: Callable[[str], None]) -> None:
    async with children.scheduler(folder, LINGUA_JOB_KEEP_MS=str(KEEP_JOBS_MS)) as scheduler:
        cast = Cast(
            port=scheduler.port, talkers=plan.sessions, nodes=plan.nodes, slots=MAX_SLOTS, takes_no=True, life_s=LIFE_S
        )
        async with children.load(cast) as load:
            rate = plan.rate or HALF * await _full_rate(plan, load)
            async with (
                Track(partial(resident_mb, scheduler.pids[0]), READ_EVERY_S).running() as of_scheduler,
                Track(partial(resident_mb, scheduler.redis_pid), READ_EVERY_S).running() as of_redis,
            ):
                errors = await _minutes(plan, rate, samples, load, (of_scheduler, of_redis), tell)
    samples.add("soak/jobs/errors", "in all", errors.total())
    for code, times in errors.most_common():
        samples.add(f"soak/jobs/error: {code}", "in all", times)
    for who, track in (("scheduler", of_scheduler), ("redis", of_redis)):
        _report(samples, who, track.points)
    if flatness(of_scheduler.points).per_hour_mb is None:
        samples.note(
            f"The soak was too short to tell a slope of memory: that takes more than {SLOPE_AFTER_S / 60:g} min."
        )


async def _full_rate(plan: Plan, load: LoadChild[Tally]) -> float:
    tally = await load.carry_out(Order(jobs=plan.jobs, in_flight=plan.in_flight, audio_bytes=SMALL_BYTES))
    return tally.jobs / tally.took_s


async def _minutes(
    plan: Plan,
    rate: float,
    samples: Samples,
    load: LoadChild[Tally],
    tracks: tuple[Track, Track],
    tell: Callable[[str], None],
) -> Counter[str]:
    """Errors by what clients were told. What cannot be gone on with ends it, and counts as one."""
    left_s = plan.minutes * 60
    errors: Counter[str] = Counter()
    for minute in range(1, math.ceil(plan.minutes) + 1):
        jobs = max(1, int(rate * min(60.0, left_s)))
        left_s -= 60
        try:
            tally = await load.carry_out(Order(jobs=jobs, in_flight=1, audio_bytes=SMALL_BYTES, rate=rate))
        except BenchFailed as error:
            samples.note(f"The soak ended before {so_far(minute, plan.minutes)} were over: {error}")
            errors["ended early"] += 1
            return errors
        errors.update(tally.refusals)
        samples.add("soak/jobs/jobs", "1/s", tally.jobs / tally.took_s)
        samples.add("soak/sessions/replaced", "1/s", tally.replaced / tally.took_s)
        samples.add("soak/jobs/p50", "ms", tally.p50_ms)
        samples.add("soak/jobs/p99", "ms", tally.p99_ms)
        scheduler_mb, redis_mb = (track.points[-1][1] for track in tracks)
        tell(
            f"soak: {so_far(minute, plan.minutes)}: {tally.jobs / tally.took_s:.0f} jobs/s,"
            f" p99 {tally.p99_ms:.1f} ms, {tally.replaced} sessions replaced,"
            f" scheduler {scheduler_mb:.1f} MB, Redis {redis_mb:.1f} MB,"
            f" {errors.total()} errors"
        )
    return errors


def _report(samples: Samples, who: str, points: Sequence[tuple[float, float]]) -> None:
    memory = flatness(points)
    samples.add(f"soak/{who}/memory", "MB", memory.middle_mb)
    samples.add(f"soak/{who}/memory at first", "MB", memory.first_mb)
    samples.add(f"soak/{who}/memory at last", "MB", memory.last_mb)
    samples.add(f"soak/{who}/memory spread", "%", memory.spread)
    if memory.per_hour_mb is not None:
        samples.add(f"soak/{who}/memory slope", "MB/h", memory.per_hour_mb)


class Flatness(NamedTuple):
    """Memory once it is warm: its median, that of the first and of the last tenth of the time, how far anything is from
    the median in per cent, and by how much an hour it grows, if it was warm for long enough to tell."""

    middle_mb: float
    first_mb: float
    last_mb: float
    spread: float
    per_hour_mb: float | None


def flatness(points: Sequence[tuple[float, float]]) -> Flatness:
    took_s = points[-1][0]
    warm_after_s = min(max(took_s * WARM_UP_SHARE, WARM_UP_S), took_s / 2)
    seconds, mb = zip(*((s, mb) for s, mb in points if s >= warm_after_s), strict=True)
    middle_mb, tenth = median(mb), math.ceil(len(mb) / 10)
    return Flatness(
        middle_mb,
        median(mb[:tenth]),
        median(mb[-tenth:]),
        max(abs(one - middle_mb) for one in mb) / middle_mb * 100,
        linear_regression(seconds, mb).slope * 3600 if took_s > SLOPE_AFTER_S else None,
    )
