"""Scenario idle: sessions that are connected and silent; what each of them takes, and what all of them cost."""

import asyncio
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

from lingua_scheduler.bench import children
from lingua_scheduler.bench.bare import open_store, used_bytes_of
from lingua_scheduler.bench.children import BenchFailed, LoadChild, SchedulerChild
from lingua_scheduler.bench.figures import Samples
from lingua_scheduler.bench.measure import CpuMeter, Yardstick, resident_mb
from lingua_scheduler.bench.orders import Cast, Gathered, Gathering
from lingua_scheduler.bench.plan import Plan

TIDY = "lingua_scheduler.bench.tidy"
# The first ones make the scheduler load what it needs once.
FIRST = 20
ARRIVALS = 10
# Files of a process besides the sockets of the sessions.
OTHER_FILES = 200
# For the collector, and for what follows an arrival.
SETTLE_S = 1.0
SILENCE_FACTOR = 2
MEMORY = "Memory of the scheduler, MB by idle sessions"


def steps(plan: Plan) -> int:
    return plan.rounds * (ARRIVALS + 1)


async def measure(plan: Plan, samples: Samples, folder: Path, tell: Callable[[str], None]) -> None:
    sessions = plan.silent
    room = max(1, allow_files(sessions + OTHER_FILES) - OTHER_FILES)
    if room < sessions:
        samples.note(
            f"Only {room} of {sessions} idle sessions: a process may have no more files open here"
            " (ulimit -Hn); ask for more, then measure again."
        )
        sessions = room
    for number in range(plan.rounds):
        own = folder / str(number)
        own.mkdir()
        await _round(plan, sessions, samples, own, tell)


def allow_files(wanted: int) -> int:
    """Let this process, and those it starts, have so many files open; how many they may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    except (OSError, ValueError):  # some systems allow less than they say
        return soft
    return allowed


async def _round(plan: Plan, sessions: int, samples: Samples, folder: Path, tell: Callable[[str], None]) -> None:
    yardstick = Yardstick()
    async with (
        children.scheduler(folder, module=TIDY) as scheduler,
        open_store(scheduler.redis_url) as store,
        children.silent_crowd(Cast(port=scheduler.port, talkers=sessions)) as crowd,
        yardstick.ticking(),
    ):
        first = min(FIRST, sessions // 2)
        await crowd.carry_out(Gathering(sessions=first))
        begin_mb, begin_bytes = await _collected_mb(scheduler), await used_bytes_of(store)
        await _arrive(first, sessions, samples, scheduler, crowd, tell)
        await asyncio.sleep(SETTLE_S)
        untidy_mb, end_mb = resident_mb(scheduler.pids[0]), await _collected_mb(scheduler)
        end_bytes = await used_bytes_of(store)
        each_kb = 1024 / (sessions - first)
        samples.add("idle/a session/scheduler memory", "KB", (end_mb - begin_mb) * each_kb)
        samples.add("idle/a session/scheduler memory before gc", "KB", (untidy_mb - begin_mb) * each_kb)
        samples.add("idle/a session/redis memory", "KB", (end_bytes - begin_bytes) / 2**20 * each_kb)
        samples.add("idle/all together/sessions", "connected", sessions)
        samples.add("idle/all together/scheduler memory", "MB", end_mb)
        await _silence(plan, samples, scheduler, crowd, yardstick)
        tell(f"idle: {sessions} sessions")


async def _arrive(
    first: int,
    sessions: int,
    samples: Samples,
    scheduler: SchedulerChild,
    crowd: LoadChild[Gathered],
    tell: Callable[[str], None],
) -> None:
    connected = first
    for arrival in range(1, ARRIVALS + 1):
        wanted = first + (sessions - first) * arrival // ARRIVALS
        connected = (await crowd.carry_out(Gathering(sessions=wanted - connected))).connected
        samples.point(MEMORY, "resident", connected, _mb(scheduler))
        tell("idle: connecting")


async def _silence(
    plan: Plan, samples: Samples, scheduler: SchedulerChild, crowd: LoadChild[Gathered], yardstick: Yardstick
) -> None:
    seconds = plan.phase_s * SILENCE_FACTOR
    before = await crowd.carry_out(Gathering(sessions=0))
    yardstick.slowdown()
    meter = CpuMeter({"scheduler": scheduler.pids[0], "redis": scheduler.redis_pid})
    await asyncio.sleep(seconds)
    spent_s, slowdown = meter.spent_s(), yardstick.slowdown()
    # Whoever was disconnected meanwhile is a failure of this answer.
    after = await crowd.carry_out(Gathering(sessions=0))
    for who, cpu_s in spent_s.items():
        samples.add_cpu(f"idle/all together/{who} CPU", "ms/s", cpu_s / seconds * 1000, slowdown)
    samples.add("idle/all together/heartbeats", "1/s", (after.heartbeats - before.heartbeats) / seconds)
    # One may be on its way.
    if after.heartbeats_answered < before.heartbeats:
        raise BenchFailed(f"{before.heartbeats - after.heartbeats_answered} heartbeats were not answered")


async def _collected_mb(scheduler: SchedulerChild) -> float:
    os.kill(scheduler.pids[0], signal.SIGUSR1)
    await asyncio.sleep(SETTLE_S)
    return _mb(scheduler)


def _mb(scheduler: SchedulerChild) -> float:
    return resident_mb(scheduler.pids[0])
