"""The load of this machine, in percent, for heartbeats."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

_STAT = Path("/proc/stat")
_MEMINFO = Path("/proc/meminfo")
_NVIDIA_WITHIN_S = 2.0


class GpuLoad(NamedTuple):
    percent: float
    memory_percent: float


class Processors:
    """Busy time since the last look; over the last minute where the kernel does not count it; 0 if it is unknown."""

    def __init__(self) -> None:
        self._before = _ticks()

    def percent(self) -> float:
        now, before = _ticks(), self._before
        self._before = now
        if now is None or before is None or now[1] <= before[1]:
            # Windows has neither.
            load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
            return round(min(100.0, load / (os.cpu_count() or 1) * 100), 1)
        return round(100 * (now[0] - before[0]) / (now[1] - before[1]), 1)


def memory_percent() -> float:
    """0 if it is unknown."""
    try:
        lines = _MEMINFO.read_text().splitlines()
    except OSError:
        return 0.0
    sizes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
    total, available = sizes.get("MemTotal", 0), sizes.get("MemAvailable", 0)
    return round(100 * (total - available) / total, 1) if total else 0.0


def memory_gb() -> float:
    """0 if it is unknown, as on Windows."""
    if not hasattr(os, "sysconf"):
        return 0.0
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)


def gpu() -> GpuLoad | None:
    """Of the busiest NVIDIA card; None without one. It starts a program, so not on an event loop."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    query = ("--query-gpu=utilization.gpu,memory.used,memory.total", "--format=csv,noheader,nounits")
    try:
        said = subprocess.run(
            (program, *query), capture_output=True, text=True, check=True, timeout=_NVIDIA_WITHIN_S
        ).stdout
        cards = [tuple(float(figure) for figure in line.split(",")) for line in said.splitlines() if line.strip()]
        loads = [GpuLoad(busy, round(100 * used / total, 1)) for busy, used, total in cards if total]
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return max(loads, default=None)


def _ticks() -> tuple[int, int] | None:
    """Busy and total, since the machine started."""
    try:
        with _STAT.open() as file:
            counts = [int(count) for count in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return None
    if len(counts) < 5:
        return None
    # The fourth and fifth are idle, and idle while a disk works.
    return sum(counts) - counts[3] - counts[4], sum(counts)
