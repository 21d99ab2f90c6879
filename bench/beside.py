"""Two releases measured in short turns of the same load, so that a slow moment of the machine hits both.

python -m bench.beside OTHER_PYTHON [--scenario speakers] …: OTHER_PYTHON is the interpreter of the other release's
virtual environment. Given its own interpreter it shows how far two equal releases differ; with --auth, what it costs
that everybody needs a key: only this release asks for one.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

from bench import children, guarding, life, speakers
from bench.children import BenchFailed, LoadChild, SchedulerChild
from bench.measure import CpuMeter, keep_apart
from bench.orders import Cast, Order
from lingua_scheduler.settings import Settings

TALKERS, NODES, SLOTS = 64, 8, 16
# A final flag is a manual cut; both releases wait for as long.
HANGOVER_MS = Settings().sessions.hangover_manual_ms

Figures = dict[str, float]


class Release(NamedTuple):
    scheduler: SchedulerChild
    load: LoadChild[Any]

    def meter(self) -> CpuMeter:
        return CpuMeter({"scheduler": self.scheduler.pids[0], "redis": self.scheduler.redis_pid})


async def live(release: Release, variant: life.Variant, jobs: int) -> Figures:
    """Jobs as fast as results come back: CPU of a job."""
    meter = release.meter()
    tally = await release.load.carry_out(
        Order(
            jobs=max(TALKERS, jobs if variant.audio_bytes == life.SMALL_BYTES else jobs // 2),
            in_flight=1,
            audio_bytes=variant.audio_bytes,
            audio_format=variant.audio_format,
            acknowledges=variant.acknowledges,
        )
    )
    return {f"{who}, µs/job": spent_s / tally.jobs * 1e6 for who, spent_s in meter.spent_s().items()}


async def speak(release: Release, variant: speakers.Variant, seconds: float) -> Figures:
    """People who speak at real pace: CPU of a chunk, and how soon a node has what they said."""
    await release.load.carry_out(speakers.speech_of(variant, speakers.LEAD_IN_S))
    meter = release.meter()
    spoken = await release.load.carry_out(speakers.speech_of(variant, seconds))
    spent_s = meter.spent_s()
    await release.load.carry_out(speakers.END_ALL)
    figures = {f"{who}, µs/chunk": spent_s[who] / spoken.chunks * 1e6 for who in spent_s}
    if spoken.assigned_ms is not None:
        p50_ms, p99_ms = spoken.assigned_ms
        figures |= {"to job_assign p50, ms": p50_ms - HANGOVER_MS, "to job_assign p99, ms": p99_ms - HANGOVER_MS}
    return figures


async def measure(other: str, arguments: argparse.Namespace) -> None:
    is_life = arguments.scenario == "life"
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lingua-beside-")))
        releases = []
        for name, python in (("other", other), ("this", sys.executable)):
            (folder / name).mkdir()
            is_guarded = arguments.auth and name == "this"
            guard = guarding.guard(folder / name) if is_guarded else guarding.UNGUARDED
            scheduler = await stack.enter_async_context(
                children.scheduler(
                    folder / name,
                    1,
                    python=python,
                    LINGUA_SESSIONS_HANGOVER_MANUAL_MS=str(HANGOVER_MS),
                    LINGUA_SESSIONS_USE_BINARY_FRAME="false" if is_life else "true",
                    **guard.variables,
                )
            )
            talkers = TALKERS if is_life else arguments.speakers
            cast = Cast(
                port=scheduler.port,
                talkers=talkers,
                nodes=NODES,
                slots=SLOTS if is_life else life.MAX_SLOTS,
                node_key=guard.node_key,
                talker_key=guard.talker_key,
            )
            load = children.load(cast) if is_life else children.speakers(cast)
            release = Release(scheduler, await stack.enter_async_context(load))
            keep_apart(scheduler.pids, (scheduler.redis_pid, release.load.pid))
            releases.append(release)
        for variant in life.VARIANTS if is_life else speakers.VARIANTS:

            def turn(release: Release, variant: Any = variant) -> Awaitable[Figures]:
                if is_life:
                    return live(release, variant, arguments.jobs)
                return speak(release, variant, arguments.seconds)

            _tell(variant.name, *await take_turns(turn, releases, arguments.rounds), shows_rounds=arguments.pairs)


async def take_turns(
    turn: Callable[[Release], Awaitable[Figures]], releases: Sequence[Release], rounds: int
) -> tuple[list[Figures], list[Figures]]:
    """The figures of both releases, round by round; each begins every second round."""
    found: tuple[list[Figures], list[Figures]] = [], []
    for number in range(-1, rounds):
        for which in (0, 1) if number % 2 else (1, 0):
            figures = await turn(releases[which])
            if number >= 0:  # the first round only warms up
                found[which].append(figures)
    return found


def _tell(name: str, others: Sequence[Figures], ours: Sequence[Figures], *, shows_rounds: bool) -> None:
    for metric in ours[0]:
        # A short turn may have no utterance that ends, hence no latency.
        pairs = [
            (then[metric], now[metric])
            for then, now in zip(others, ours, strict=True)
            if metric in then.keys() & now.keys()
        ]
        before, after = zip(*pairs, strict=True)
        ratio = statistics.median(now / then for then, now in pairs)
        print(
            f"{name:22}{metric:24}{statistics.median(before):8.1f} → {statistics.median(after):8.1f}   × {ratio:.3f}",
            flush=True,
        )
        if shows_rounds:
            print(
                "".join(f"    {then:8.1f} → {now:8.1f}   × {now / then:.3f}\n" for then, now in pairs),
                end="",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", metavar="OTHER_PYTHON", help="the interpreter of the other release")
    parser.add_argument("--scenario", choices=("life", "speakers"), default="life", help="what is measured; life")
    parser.add_argument("--rounds", type=int, default=24, help="turns of each release; 24")
    parser.add_argument("--jobs", type=int, default=1500, help="small jobs of one turn, and half as many large; 1500")
    parser.add_argument("--speakers", type=int, default=400, help="people who speak; 400")
    parser.add_argument("--seconds", type=float, default=4.0, help="how long they speak in one turn; 4")
    parser.add_argument("--auth", action="store_true", help="this release lets nobody in without a key")
    parser.add_argument("--pairs", action="store_true", help="print the figures of every round too")
    arguments = parser.parse_args()
    try:
        asyncio.run(measure(arguments.other, arguments))
    except (BenchFailed, OSError) as error:
        sys.exit(f"the measurement stopped: {error}")


if __name__ == "__main__":
    main()
