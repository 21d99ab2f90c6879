"""Scenario metrics: what a job costs that is counted, beside one that is not."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

from lingua_scheduler.bench import children
from lingua_scheduler.bench.children import LoadChild, SchedulerChild
from lingua_scheduler.bench.figures import Samples
from lingua_scheduler.bench.life import MAX_SLOTS, ROOM_FACTOR, SMALL_BYTES, WARM_UP_SHARE
from lingua_scheduler.bench.measure import CpuMeter, Yardstick
from lingua_scheduler.bench.orders import Cast, Order, Tally
from lingua_scheduler.bench.plan import Plan

UNMETERED = "lingua_scheduler.bench.unmetered"
OFF, AGAIN, ON = "not counted", "not counted again", "counted"
MODULES = {OFF: UNMETERED, AGAIN: UNMETERED, ON: "lingua_scheduler"}


class Stage(NamedTuple):
    scheduler: SchedulerChild
    load: LoadChild[Tally]


def steps(plan: Plan) -> int:
    return plan.repeats * len(MODULES)


async def measure(plan: Plan, samples: Samples, folder: Path, tell: Callable[[str], None]) -> None:
    """They take turns, so that a slow moment of the machine hits all of them; two alike show the noise."""
    yardstick = Yardstick()
    slots = min(MAX_SLOTS, max(1, ROOM_FACTOR * plan.concurrency // plan.nodes))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(yardstick.ticking())
        stages: dict[str, Stage] = {}
        for variant, module in MODULES.items():
            own = folder / variant.replace(" ", "-")
            own.mkdir()
            scheduler = await stack.enter_async_context(children.scheduler(own, module=module))
            cast = Cast(port=scheduler.port, talkers=plan.sessions, nodes=plan.nodes, slots=slots)
            load = await stack.enter_async_context(children.load(cast))
            await load.carry_out(_order(plan, WARM_UP_SHARE))
            stages[variant] = Stage(scheduler, load)
        for _ in range(plan.repeats):
            cpu_us = {}
            for variant, stage in stages.items():
                cpu_us[variant] = await _sample(variant, plan, samples, stage, yardstick)
                tell(f"metrics: {variant}")
            for variant in (AGAIN, ON):
                samples.add(f"metrics/{variant} ÷ {OFF}/scheduler CPU", "×", cpu_us[variant] / cpu_us[OFF])


async def _sample(variant: str, plan: Plan, samples: Samples, stage: Stage, yardstick: Yardstick) -> float:
    """CPU of the scheduler per job, scaled."""
    yardstick.slowdown()
    meter = CpuMeter({"scheduler": stage.scheduler.pids[0]})
    tally = await stage.load.carry_out(_order(plan, 1))
    cpu_us = meter.spent_s()["scheduler"] / tally.jobs * 1e6
    slowdown = yardstick.slowdown()
    samples.add_cpu(f"metrics/{variant}/scheduler CPU", "µs/job", cpu_us, slowdown)
    samples.add(f"metrics/{variant}/p50", "ms", tally.p50_ms)
    return cpu_us / slowdown


def _order(plan: Plan, share: float) -> Order:
    jobs = max(plan.concurrency, int(plan.jobs * share))
    return Order(jobs=jobs, in_flight=plan.in_flight, audio_bytes=SMALL_BYTES, rate=plan.rate)
