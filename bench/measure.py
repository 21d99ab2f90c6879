"""What processes cost, and what a list of measurements says."""

import asyncio
import math
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Self

_LINUX = sys.platform == "linux"
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")

# What the yardstick's work takes on the machine our targets are meant for, when nothing disturbs it.
REFERENCE_US = 370.0
YARDSTICK_LOOPS = 4_000
YARDSTICK_EVERY_S = 0.03


def cpu_s(pid: int) -> float:
    """CPU seconds of a process and all its threads so far, user and system together."""
    if _LINUX:
        # The kernel's clock of another process: nanoseconds, where /proc/<pid>/stat counts in steps of 10 ms.
        return time.clock_gettime_ns((~pid << 3) | 2) / 1e9
    return _clock_text_s(_ps(pid, "cputime"))


def resident_mb(pid: int) -> float:
    if _LINUX:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES / 2**20
    return int(_ps(pid, "rss")) / 2**10


def starved_s(pid: int) -> float | None:
    """How long a process was ready to run, so far, and others had the cores; None where nobody counts."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return None


def stolen_s() -> float:
    """CPU seconds that the hypervisor kept from this machine since it started; 0 where this is not counted."""
    if not _LINUX:
        return 0.0
    with Path("/proc/stat").open() as stat:
        return int(stat.readline().split()[8]) / _TICKS_PER_S


def machine_busy_s() -> float | None:
    """CPU seconds that everybody on this machine has used since it started; None where nobody counts."""
    if not _LINUX:
        return None
    with Path("/proc/stat").open() as stat:
        user, nice, system, _idle, _iowait, irq, softirq, *_ = map(int, stat.readline().split()[1:])
    return (user + nice + system + irq + softirq) / _TICKS_PER_S


class CpuMeter:
    """CPU of several processes since it was last asked."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = dict(pids)
        self._before = {name: cpu_s(pid) for name, pid in self._pids.items()}

    def spent_s(self) -> dict[str, float]:
        now = {name: cpu_s(pid) for name, pid in self._pids.items()}
        spent = {name: now[name] - self._before[name] for name in now}
        self._before = now
        return spent


def keep_apart(pids: Sequence[int], others: Sequence[int]) -> bool:
    """Give the processes a core of their own and the others the rest; only where there are two cores or more.

    Processes that wake each other up are put on one core even while another one is idle, and then they wait.
    """
    if not hasattr(os, "sched_setaffinity"):
        return False
    *rest, own = sorted(os.sched_getaffinity(0))
    if not rest:
        return False
    for pid in pids:
        os.sched_setaffinity(pid, {own})
    for pid in others:
        os.sched_setaffinity(pid, rest)
    return True


class Track:
    """A reading, again and again, with the moment of each; moments count from when it began to run."""

    def __init__(self, read: Callable[[], float], every_s: float) -> None:
        self._read = read
        self._every_s = every_s
        self.began_s = 0.0
        self.points: list[tuple[float, float]] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        self.began_s = time.perf_counter()
        self.points = [(0.0, self._read())]
        task = asyncio.create_task(self._keep_reading(self.began_s))
        try:
            yield self
        finally:
            task.cancel()

    def at(self, moment_s: float) -> float:
        """As if it had grown evenly between two readings."""
        for (from_s, before), (to_s, after) in pairwise(self.points):
            if moment_s <= to_s:
                return before + (after - before) * (moment_s - from_s) / (to_s - from_s)
        return self.points[-1][1]

    async def _keep_reading(self, began_s: float) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            try:
                self.points.append((time.perf_counter() - began_s, self._read()))
            except OSError:  # the process is gone, which others will tell
                return


class Waits(Track):
    """How long processes waited for a core, and the whole machine for its hypervisor: where that grows, the machine is
    not quiet, and a latency measured then says little about the processes."""

    # Of the time between two readings.
    MOST_WAITING = 0.05

    def __init__(self, pids: Sequence[int], every_s: float) -> None:
        super().__init__(lambda: stolen_s() + sum(starved_s(pid) or 0.0 for pid in pids), every_s)

    def quiet(self) -> list[tuple[float, float]]:
        """From when to when the machine was quiet, in seconds of `perf_counter`, which all processes share."""
        return [
            (self.began_s + from_s, self.began_s + to_s)
            for (from_s, before), (to_s, after) in pairwise(self.points)
            if after - before <= self.MOST_WAITING * (to_s - from_s)
        ]


def within(spans: Sequence[tuple[float, float]], events: Sequence[tuple[float, float]]) -> list[float]:
    """The values of the events, a moment and a value each, whose moment is in one of the spans; both are in order."""
    found, at = [], 0
    for moment, value in events:
        while at < len(spans) and spans[at][1] <= moment:
            at += 1
        if at < len(spans) and spans[at][0] <= moment:
            found.append(value)
    return found


class Yardstick:
    """How much slower this machine is right now than the reference machine at its best.

    Neighbours on a shared machine stretch everybody's CPU time, at times to double; the same fixed work, timed
    alongside, is stretched as much.
    """

    def __init__(self) -> None:
        self._ticks_us: list[float] = []

    def tick(self) -> None:
        began_s = time.thread_time()
        table = {}
        for i in range(YARDSTICK_LOOPS):
            table[i % 1000] = str(i)
        self._ticks_us.append((time.thread_time() - began_s) * 1e6)

    def slowdown(self) -> float:
        """Since it was last asked."""
        if not self._ticks_us:
            self.tick()
        ticks_us, self._ticks_us = self._ticks_us, []
        return fmean(ticks_us) / REFERENCE_US

    @asynccontextmanager
    async def ticking(self) -> AsyncIterator[None]:
        """Measure all the time, at one per cent of a core."""
        task = asyncio.create_task(self._keep_ticking())
        try:
            yield
        finally:
            task.cancel()

    async def _keep_ticking(self) -> None:
        while True:
            self.tick()
            await asyncio.sleep(YARDSTICK_EVERY_S)


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed; `ordered` is sorted, not empty."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def tail(ordered: Sequence[float], share: float) -> float | None:
    """A percentile, or None where so few values have none beyond it: it would be the largest under another name."""
    return percentile(ordered, share) if len(ordered) * (1 - share) >= 1 else None


def _ps(pid: int, column: str) -> str:
    answer = subprocess.run(["ps", "-o", f"{column}=", "-p", str(pid)], capture_output=True, text=True, check=True)
    return answer.stdout.strip()


def _clock_text_s(text: str) -> float:
    """`1-02:03:04` or `3:04.56`, as ps writes times."""
    days, _, clock = text.rpartition("-")
    seconds = 0.0
    for part in clock.split(":"):
        seconds = seconds * 60 + float(part)
    return seconds + int(days or 0) * 86_400
