"""Scenario watched: jobs at a steady pace, alone and beside pages that are polled hard and dashboards that follow."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NamedTuple

from lingua_scheduler.bench import children
from lingua_scheduler.bench.bare import all_commands_of, open_store
from lingua_scheduler.bench.children import LoadChild, SchedulerChild
from lingua_scheduler.bench.figures import Samples
from lingua_scheduler.bench.life import MAX_SLOTS, SMALL_BYTES, WARM_UP_SHARE
from lingua_scheduler.bench.measure import CpuMeter, Yardstick
from lingua_scheduler.bench.orders import Asking, Cast, Following, Heard, Order, Recount, Tally
from lingua_scheduler.bench.plan import Plan
from lingua_scheduler.store.store import Store

# Far from what one scheduler can do, so that latency is not that of a queue.
JOBS_PER_S = 300.0
# While there are no jobs, what those who watch cost is not lost in what jobs cost.
LULL_S = 3.0
DASHBOARDS = 50
ALONE = "alone"

Watchers = LoadChild[Heard]


class Variant(NamedTuple):
    """Somebody who watches; `what` is what they get, and what CPU is counted by."""

    name: str
    pace: str
    what: str
    watch: Callable[[int], AbstractAsyncContextManager[Watchers]]


class Stage(NamedTuple):
    scheduler: SchedulerChild
    store: Store
    load: LoadChild[Tally]
    yardstick: Yardstick


class Lull(NamedTuple):
    """CPU of the scheduler a second, as measured, and by how much that was stretched."""

    cpu_share: float
    slowdown: float


class Seen(NamedTuple):
    """How it was with one kind of watchers, or with none."""

    lull: Lull
    tally: Tally
    commands_per_s: float


def _asking(path: str, rate: float) -> Callable[[int], AbstractAsyncContextManager[Watchers]]:
    return lambda port: children.asker(Asking(port=port, path=path, rate=rate))


VARIANTS = (
    Variant("stats", "1 000 a second", "answer", _asking("/api/v1/stats", 1_000)),
    Variant("metrics", "20 a second", "answer", _asking("/metrics", 20)),
    Variant(
        "dashboards",
        f"{DASHBOARDS} of them",
        "message",
        lambda port: children.dashboards(Following(port=port, dashboards=DASHBOARDS)),
    ),
)


def steps(plan: Plan) -> int:
    return plan.repeats * (1 + len(VARIANTS))


async def measure(plan: Plan, samples: Samples, folder: Path, tell: Callable[[str], None]) -> None:
    """All take turns, so that a slow moment of the machine hits each of them."""
    yardstick = Yardstick()
    async with (
        children.scheduler(folder) as scheduler,
        open_store(scheduler.redis_url) as store,
        yardstick.ticking(),
    ):
        cast = Cast(port=scheduler.port, talkers=plan.sessions, nodes=plan.nodes, slots=MAX_SLOTS)
        async with children.load(cast) as load:
            stage = Stage(scheduler, store, load, yardstick)
            jobs = int(_order(plan).jobs * WARM_UP_SHARE)
            await load.carry_out(Order(jobs=jobs, in_flight=1, audio_bytes=SMALL_BYTES))
            for _ in range(plan.repeats):
                lull = await _lull(plan, stage)
                alone = await _sample(ALONE, plan, samples, stage, lull)
                tell(f"watched: {ALONE}")
                for variant in VARIANTS:
                    async with variant.watch(scheduler.port) as watchers:
                        await _beside(variant, watchers, plan, samples, stage, alone)
                    tell(f"watched: {variant.name}")


async def _beside(
    variant: Variant, watchers: Watchers, plan: Plan, samples: Samples, stage: Stage, alone: Seen
) -> None:
    name = f"{variant.name}, {variant.pace}"
    begun = await watchers.carry_out(Recount())
    lull = await _lull(plan, stage)
    quiet = await watchers.carry_out(Recount())
    seen = await _sample(name, plan, samples, stage, lull)
    busy = await watchers.carry_out(Recount())
    for metric, before, after in (
        ("p50", alone.tally.p50_ms, seen.tally.p50_ms),
        ("p99", alone.tally.p99_ms, seen.tally.p99_ms),
        ("redis commands", alone.commands_per_s, seen.commands_per_s),
    ):
        samples.add(f"watched/{name}/{metric} ÷ {ALONE}", "×", after / before)
    if quiet.answers:
        # What the scheduler does anyway, had it been as slow then.
        anyway = alone.lull.cpu_share / alone.lull.slowdown * lull.slowdown
        cpu_us = (lull.cpu_share - anyway) * quiet.took_s / quiet.answers * 1e6
        samples.add_cpu(f"watched/{name}/scheduler CPU", f"µs/{variant.what}", cpu_us, lull.slowdown)
    per_s = (quiet.answers + busy.answers) / (quiet.took_s + busy.took_s)
    samples.add(f"watched/{name}/{variant.what}s", "1/s", per_s)
    if busy.p99_ms is not None:
        samples.add(f"watched/{name}/{variant.what} p99", "ms", busy.p99_ms)
    failures = begun.failures + quiet.failures + busy.failures
    samples.add(f"watched/{name}/failures", "a turn", failures)
    if failures:
        samples.note(f"Some who watched (“{name}”) got no answer, another than 200, or had to begin again.")


async def _lull(plan: Plan, stage: Stage) -> Lull:
    stage.yardstick.slowdown()
    meter = CpuMeter({"scheduler": stage.scheduler.pids[0]})
    began_s = time.perf_counter()
    await asyncio.sleep(min(LULL_S, plan.phase_s))
    cpu_share = meter.spent_s()["scheduler"] / (time.perf_counter() - began_s)
    return Lull(cpu_share, stage.yardstick.slowdown())


async def _sample(name: str, plan: Plan, samples: Samples, stage: Stage, lull: Lull) -> Seen:
    before = await all_commands_of(stage.store)
    tally = await stage.load.carry_out(_order(plan))
    commands_per_s = (await all_commands_of(stage.store) - before) / tally.took_s
    samples.add(f"watched/{name}/p50", "ms", tally.p50_ms)
    samples.add(f"watched/{name}/p99", "ms", tally.p99_ms)
    samples.add(f"watched/{name}/redis commands", "calls/s", commands_per_s)
    return Seen(lull, tally, commands_per_s)


def _order(plan: Plan) -> Order:
    rate = plan.rate or JOBS_PER_S
    return Order(jobs=max(100, plan.jobs // 5), in_flight=1, audio_bytes=SMALL_BYTES, rate=rate)
