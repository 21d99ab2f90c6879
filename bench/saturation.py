"""Scenario saturation: twice the work a fleet can do, then half of it: what is refused, and how soon it is over."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench import children
from bench.children import LoadChild, SchedulerChild
from bench.figures import Samples
from bench.measure import Track, Yardstick, cpu_s, percentile
from bench.orders import Fleet, Pressed, Pressure, Said
from bench.plan import Plan

SLOTS = 4
JOB_MS = 100.0
# A person says a few things in the time a job may wait, not dozens.
SESSIONS_PER_SLOT = 8
# So many more than there are slots keep a fleet busy without making anybody wait long.
BUSY_FACTOR = 2
FILL_S = 0.5
# Long enough for some hundred utterances, so that p99 is not just the slowest of them.
WINDOW_S = 1.0
NORMAL_FACTOR = 1.5
# Normal is what stays normal for so many windows; what disturbs later is another matter, and told apart.
STEADY_WINDOWS = 3
# Of a phase: too much work takes two, and what follows is watched for seven, so that a quick look sees its end.
PRESSED, WATCHED = 2, 7
BEFORE, PRESSING, AFTER = "half load", "2 × load", "half load after"


class Course(NamedTuple):
    """How one round went: utterances, CPU, and when pressure began and ended and watching was over."""

    pressed: Pressed
    scheduler: Track
    redis: Track
    slowdown: float
    begin_s: float
    end_s: float
    over_s: float


async def measure(plan: Plan, samples: Samples, folder: Path, tell: Callable[[str], None]) -> None:
    slots = plan.nodes * SLOTS
    yardstick = Yardstick()
    async with children.scheduler(folder) as scheduler, yardstick.ticking():
        fleet = Fleet(
            port=scheduler.port, talkers=slots * SESSIONS_PER_SLOT, nodes=plan.nodes, slots=SLOTS, job_ms=JOB_MS
        )
        async with children.pressure(fleet) as crowd:
            for _ in range(plan.rounds):
                capacity = await _capacity(plan, samples, slots, crowd)
                tell("saturation: capacity")
                course = await _course(plan, capacity, scheduler, crowd, yardstick)
                _report(samples, course, capacity)
                tell("saturation: 2 × load, and after it")


async def _capacity(plan: Plan, samples: Samples, slots: int, crowd: LoadChild[Pressed]) -> float:
    until_s = FILL_S + plan.phase_s
    full = await crowd.carry_out(Pressure(phases=[(0, until_s)], in_flight=slots * BUSY_FACTOR))
    capacity = served_per_s(full.said, FILL_S, until_s)
    samples.add("saturation/capacity/served", "1/s", capacity)
    samples.add("saturation/capacity/of its slots", "%", capacity / (slots / JOB_MS * 1000) * 100)
    return capacity


async def _course(
    plan: Plan, capacity: float, scheduler: SchedulerChild, crowd: LoadChild[Pressed], yardstick: Yardstick
) -> Course:
    begin_s, end_s = plan.phase_s, plan.phase_s * (1 + PRESSED)
    watched_s = plan.phase_s * WATCHED
    phases = [(capacity / 2, begin_s), (capacity * 2, end_s - begin_s), (capacity / 2, watched_s)]
    yardstick.slowdown()
    async with (
        Track(partial(cpu_s, scheduler.pids[0]), WINDOW_S).running() as of_scheduler,
        Track(partial(cpu_s, scheduler.redis_pid), WINDOW_S).running() as of_redis,
    ):
        pressed = await crowd.carry_out(Pressure(phases=phases))
    return Course(pressed, of_scheduler, of_redis, yardstick.slowdown(), begin_s, end_s, end_s + watched_s)


def _report(samples: Samples, course: Course, capacity: float) -> None:
    said, begin_s, end_s, over_s = course.pressed.said, course.begin_s, course.end_s, course.over_s
    _phase(samples, BEFORE, course, 0, begin_s)
    _phase(samples, PRESSING, course, begin_s, end_s)
    served = served_per_s(said, begin_s + FILL_S, end_s)
    samples.add(f"saturation/{PRESSING}/served", "1/s", served)
    samples.add(f"saturation/{PRESSING}/served of capacity", "% of capacity", served / capacity * 100)
    _phase(samples, AFTER, course, end_s, over_s)
    limit_ms = NORMAL_FACTOR * usual_p99_ms(said, begin_s)
    normal_again_s, disturbed = recovered_after_s(said, end_s, over_s, limit_ms)
    if normal_again_s is None:
        samples.note(
            f"After {over_s - end_s:g} s of half load p99 was still not back to normal: it takes longer than that."
        )
    samples.add(f"saturation/{AFTER}/normal again", "s", over_s - end_s if normal_again_s is None else normal_again_s)
    samples.add(f"saturation/{AFTER}/not normal later", "% of seconds", disturbed)
    for code, count in course.pressed.errors.items():
        samples.note(f"Clients were told {code} {count} times.")


def _phase(samples: Samples, phase: str, course: Course, begin_s: float, end_s: float) -> None:
    """What became of the utterances of one phase; latency is of those that got a result."""
    due = [one for one in course.pressed.said if begin_s <= one.due_s < end_s]
    took_ms = sorted((one.settled_s - one.due_s) * 1000 for one in due if not one.refusal)
    refusals = Counter(one.refusal for one in due if one.refusal)
    name = f"saturation/{phase}/"
    samples.add(f"{name}asked", "1/s", len(due) / (end_s - begin_s))
    samples.add(f"{name}p50", "ms", percentile(took_ms or [0.0], 0.5))
    samples.add(f"{name}p99", "ms", percentile(took_ms or [0.0], 0.99))
    for who, track in (("scheduler", course.scheduler), ("redis", course.redis)):
        share = (track.at(end_s) - track.at(begin_s)) / (end_s - begin_s)
        samples.add_cpu(f"{name}{who} CPU", "ms/s", share * 1000, course.slowdown)
    samples.add(f"{name}refused", "%", refusals.total() / max(1, len(due)) * 100)
    if refusals:
        waited_ms = sorted((one.settled_s - one.due_s) * 1000 for one in due if one.refusal)
        samples.add(f"{name}refused after, p50", "ms", percentile(waited_ms, 0.5))
    for why, count in refusals.most_common():
        samples.add(f"{name}refused: {why}", "%", count / len(due) * 100)


def served_per_s(said: Sequence[Said], begin_s: float, end_s: float) -> float:
    return sum(begin_s <= one.settled_s < end_s for one in said if not one.refusal) / (end_s - begin_s)


def usual_p99_ms(said: Sequence[Said], until_s: float) -> float:
    """Of the window in the middle, so that one bad moment does not make everything after it look normal."""
    return median(_p99_ms(due) for _, due in windows(said, 0, until_s) if due)


def recovered_after_s(
    said: Sequence[Said], since_s: float, until_s: float, limit_ms: float
) -> tuple[float | None, float]:
    """When things were normal and stayed so for a while, and in how many per cent of later windows they were not.

    Normal is a window in which nothing that was due was refused and p99 was within limits.
    """
    normal = [
        not any(one.refusal for one in due) and _p99_ms(due) <= limit_ms for _, due in windows(said, since_s, until_s)
    ]
    for i in range(len(normal) - STEADY_WINDOWS + 1):
        if all(normal[i : i + STEADY_WINDOWS]):
            return i * WINDOW_S, normal[i:].count(False) / len(normal[i:]) * 100
    return None, 0.0


def _p99_ms(due: Sequence[Said]) -> float:
    return percentile(sorted((one.settled_s - one.due_s) * 1000 for one in due) or [0.0], 0.99)


def windows(said: Sequence[Said], since_s: float, until_s: float) -> list[tuple[float, list[Said]]]:
    """Whole windows, each with the utterances that were due in it."""
    count = int((until_s - since_s) / WINDOW_S)
    found: list[tuple[float, list[Said]]] = [(since_s + i * WINDOW_S, []) for i in range(count)]
    for one in said:
        i = int((one.due_s - since_s) // WINDOW_S)
        if 0 <= i < count:
            found[i][1].append(one)
    return found
