"""What a job costs two releases, measured in short turns of the same load: a slow moment of the machine hits both.

python -m tools.beside OTHER_PYTHON [--rounds 24] [--jobs 1500]. OTHER_PYTHON is the interpreter of the other release's
virtual environment; this one measures itself beside it. Given its own interpreter it shows how far equal ones differ.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from lingua_scheduler.bench import children
from lingua_scheduler.bench.children import LoadChild
from lingua_scheduler.bench.life import SMALL_BYTES, VARIANTS, Variant
from lingua_scheduler.bench.measure import CpuMeter
from lingua_scheduler.bench.orders import Cast, Order, Tally
from lingua_scheduler.processes import stop

TALKERS, NODES, SLOTS = 64, 8, 16
# As in `lingua bench`; an older release may not know all of them.
SETTINGS = (
    "server.stop_timeout_ms=0",
    "logs.format=json",
    "sessions.max_frames_per_s=1000000",
    "sessions.max_bytes_per_s=1073741824",
    "nodes.max_frames_per_s=1000000",
    "nodes.max_bytes_per_s=1073741824",
    "nodes.believed_slots=0",
    "server.max_connection_cpu_percent=100",
)
_KNOWS = """
import json, sys
from lingua_scheduler.settings import Settings
known = lambda name: hasattr(getattr(Settings(), name.split(".")[0]), name.split(".")[1])
print(json.dumps([setting for setting in sys.argv[1:] if known(setting.partition("=")[0])]))
"""


class Release(NamedTuple):
    """A scheduler that runs, and its load."""

    scheduler_pid: int
    redis_pid: int
    load: LoadChild[Tally]


class Cost(NamedTuple):
    """CPU of a job, in µs."""

    scheduler: float
    redis: float


def settings_of(python: str) -> list[str]:
    """Those of our settings that this release knows."""
    answer = subprocess.run([python, "-c", _KNOWS, *SETTINGS], capture_output=True, check=True)
    known: list[str] = json.loads(answer.stdout)
    return known


@asynccontextmanager
async def running(python: str, folder: Path) -> AsyncIterator[Release]:
    folder.mkdir()
    told = [word for setting in await asyncio.to_thread(settings_of, python) for word in ("--set", setting)]
    log_path = folder / "scheduler.log"
    with log_path.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            python, "-m", "lingua_scheduler", "serve", "--host", "127.0.0.1", "--port", "0",
            "--data-dir", str(folder / "redis"), *told, stdin=DEVNULL, stdout=log, stderr=log, cwd=folder,
        )  # fmt: skip
    try:
        said = {event["event"]: event for event in await children.wait_ready(process, log_path)}
        cast = Cast(port=said["scheduler.started"]["port"], talkers=TALKERS, nodes=NODES, slots=SLOTS)
        async with children.load(cast) as load:
            yield Release(process.pid, said["embedded.started"]["pid"], load)
    finally:
        await stop(process, children.STOP_GRACE_S)


async def cost(release: Release, variant: Variant, jobs: int) -> Cost:
    meter = CpuMeter({"scheduler": release.scheduler_pid, "redis": release.redis_pid})
    tally = await release.load.carry_out(
        Order(
            jobs=max(TALKERS, jobs if variant.audio_bytes == SMALL_BYTES else jobs // 2),
            in_flight=1,
            audio_bytes=variant.audio_bytes,
            audio_format=variant.audio_format,
            acknowledges=variant.acknowledges,
            rate=0,
        )
    )
    spent_s = meter.spent_s()
    return Cost(*(spent_s[who] / tally.jobs * 1e6 for who in Cost._fields))


async def measure(other: str, rounds: int, jobs: int) -> None:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lingua-beside-")))
        releases = [
            await stack.enter_async_context(running(python, folder / name))
            for name, python in (("other", other), ("this", sys.executable))
        ]
        costs: dict[str, list[list[Cost]]] = {variant.name: [[], []] for variant in VARIANTS}
        for turn in range(-1, rounds):
            for variant in VARIANTS:
                for which in (0, 1) if turn % 2 else (1, 0):
                    found = await cost(releases[which], variant, jobs)
                    if turn >= 0:  # the first only warms up
                        costs[variant.name][which].append(found)
    for name, (others, ours) in costs.items():
        print(f"{name:12} {told_of(others, ours, 0)} | Redis {told_of(others, ours, 1)}", flush=True)


def told_of(others: Sequence[Cost], ours: Sequence[Cost], field: int) -> str:
    before, now = [found[field] for found in others], [found[field] for found in ours]
    ratio = statistics.median(mine / theirs for theirs, mine in zip(before, now, strict=True))
    return f"{statistics.median(before):6.1f} → {statistics.median(now):6.1f} µs, × {ratio:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", metavar="OTHER_PYTHON", help="the interpreter of the other release")
    parser.add_argument("--rounds", type=int, default=24, help="turns of each release; default 24")
    parser.add_argument("--jobs", type=int, default=1500, help="small jobs of one turn, and half as many large; 1500")
    arguments = parser.parse_args()
    asyncio.run(measure(arguments.other, arguments.rounds, arguments.jobs))


if __name__ == "__main__":
    main()
