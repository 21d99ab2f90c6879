"""Scenario instances: what a job costs whose node is connected to another instance, beside one whose node is not."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from lingua_scheduler.bench import children
from lingua_scheduler.bench.bare import commands_of, open_store, traffic_of
from lingua_scheduler.bench.children import LoadChild
from lingua_scheduler.bench.figures import Samples
from lingua_scheduler.bench.life import LARGE_BYTES, MAX_SLOTS, ROOM_FACTOR, SMALL_BYTES, WARM_UP_SHARE
from lingua_scheduler.bench.measure import CpuMeter, Yardstick
from lingua_scheduler.bench.orders import Cast, Order, Tally
from lingua_scheduler.bench.plan import Plan
from lingua_scheduler.store.store import Store

SIZES = {"small": SMALL_BYTES, "32 KB": LARGE_BYTES}
# The first instance remembers for a moment that nobody served a pair, and the nodes have just come to the other.
SETTLE_S = 0.5
SAME, OTHER = "same instance", "other instance"


class Cost(NamedTuple):
    """CPU per job as measured, of the schedulers together and of Redis, and how slow the machine was meanwhile."""

    of_each_us: dict[str, float]
    slowdown: float


class Stage(NamedTuple):
    pids: dict[str, int]
    store: Store
    yardstick: Yardstick


def steps(plan: Plan) -> int:
    return plan.repeats * len(SIZES) * 2


async def measure(plan: Plan, samples: Samples, folder: Path, tell: Callable[[str], None]) -> None:
    """All clients are at the first instance; the nodes are there too, then at the second, and again."""
    slots = min(MAX_SLOTS, max(1, ROOM_FACTOR * plan.concurrency // plan.nodes))
    folders = folder / "first", folder / "second"
    for own in folders:
        own.mkdir()
    yardstick = Yardstick()
    async with (
        children.scheduler(folders[0]) as first,
        children.another_instance(folders[1], first.redis_url, children.data_dir_of(folders[0])) as second,
        open_store(first.redis_url) as store,
        yardstick.ticking(),
    ):
        pids = {"first": first.pids[0], "second": second.pid, "redis": first.redis_pid}
        stage = Stage(pids, store, yardstick)
        cast = Cast(port=first.port, talkers=plan.sessions, nodes=plan.nodes, slots=slots)
        for _ in range(plan.repeats):
            costs: dict[tuple[str, str], Cost] = {}
            for place, node_port in ((SAME, first.port), (OTHER, second.port)):
                async with children.load(msgspec.structs.replace(cast, node_port=node_port)) as load:
                    await asyncio.sleep(SETTLE_S)
                    for size in SIZES:
                        await load.carry_out(_order(size, plan, WARM_UP_SHARE))
                        costs[size, place] = await _sample(f"{size}, {place}", size, plan, samples, stage, load)
                        tell(f"instances: {size}, {place}")
            for size in SIZES:
                here, there = costs[size, SAME], costs[size, OTHER]
                for who, here_us in here.of_each_us.items():
                    raw = there.of_each_us[who] / here_us
                    scaled = raw * here.slowdown / there.slowdown
                    samples.add(f"instances/{size}, other ÷ same/{who} CPU", "×", scaled, raw)


async def _sample(variant: str, size: str, plan: Plan, samples: Samples, stage: Stage, load: LoadChild[Tally]) -> Cost:
    before, read_before = await commands_of(stage.store), await traffic_of(stage.store)
    stage.yardstick.slowdown()
    meter = CpuMeter(stage.pids)
    tally = await load.carry_out(_order(size, plan, 1))
    of_each_s = meter.spent_s()
    slowdown = stage.yardstick.slowdown()
    after, read_after = await commands_of(stage.store), await traffic_of(stage.store)
    name = f"instances/{variant}/"
    spent_us = {
        "scheduler": (of_each_s["first"] + of_each_s["second"]) / tally.jobs * 1e6,
        "redis": of_each_s["redis"] / tally.jobs * 1e6,
    }
    for who, cpu_us in spent_us.items():
        samples.add_cpu(f"{name}{who} CPU", "µs/job", cpu_us, slowdown)
    samples.add(f"{name}scripts", "calls/job", (after.scripts - before.scripts) / tally.jobs)
    samples.add(f"{name}into redis", "KB/job", (read_after - read_before) / tally.jobs / 1024)
    samples.add(f"{name}jobs", "1/s", tally.jobs / tally.took_s)
    samples.add(f"{name}p50", "ms", tally.p50_ms)
    samples.add(f"{name}p99", "ms", tally.p99_ms)
    return Cost(spent_us, slowdown)


def _order(size: str, plan: Plan, share: float) -> Order:
    jobs = plan.jobs if size == "small" else plan.jobs // 2
    return Order(
        jobs=max(plan.concurrency, int(jobs * share)), in_flight=plan.in_flight, audio_bytes=SIZES[size], rate=plan.rate
    )
