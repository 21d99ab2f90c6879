"""Scenario life: utterance in, job to a node, result back, translation out; real processes, real sockets."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bench import children
from bench.bare import commands_of, open_store
from bench.children import LoadChild, SchedulerChild
from bench.figures import Samples
from bench.measure import CpuMeter, Yardstick, resident_mb
from bench.orders import Cast, Order, Tally
from bench.plan import Plan
from lingua_scheduler.store.store import Store

SMALL_BYTES = 640
LARGE_BYTES = 32_768
WARM_UP_SHARE = 0.2
# Room for twice the work that is under way, so that nothing waits for a slot.
ROOM_FACTOR = 2
MAX_SLOTS = 256
# A process that uses this much of a core has no time left to wait.
SATURATED = 0.9


class Variant(NamedTuple):
    name: str
    audio_bytes: int
    audio_format: str = "pcm16"
    acknowledges: bool = False


VARIANTS = (
    Variant("small", SMALL_BYTES),
    Variant("small, ack", SMALL_BYTES, acknowledges=True),
    Variant("32 KB", LARGE_BYTES),
    Variant("32 KB, ack", LARGE_BYTES, acknowledges=True),
    Variant("32 KB opus", LARGE_BYTES, audio_format="opus"),
)


async def measure(plan: Plan, samples: Samples, folder: Path, tell: Callable[[str], None]) -> None:
    """Variants take turns, so that a slow moment of the machine hits all of them."""
    slots = min(MAX_SLOTS, max(1, ROOM_FACTOR * plan.concurrency // plan.nodes) if not plan.rate else MAX_SLOTS)
    yardstick = Yardstick()
    async with (
        children.scheduler(folder, plan.workers) as scheduler,
        open_store(scheduler.redis_url) as store,
        yardstick.ticking(),
    ):
        cast = Cast(port=scheduler.port, talkers=plan.sessions, nodes=plan.nodes, slots=slots)
        async with children.load(cast) as load:
            for variant in VARIANTS:
                await load.carry_out(_order(variant, plan, WARM_UP_SHARE))
            for _ in range(plan.repeats):
                for variant in VARIANTS:
                    await _sample(variant, plan, samples, (scheduler, store, load), yardstick)
                    tell(f"life of a job: {variant.name}")


async def _sample(
    variant: Variant,
    plan: Plan,
    samples: Samples,
    stage: tuple[SchedulerChild, Store, LoadChild[Tally]],
    yardstick: Yardstick,
) -> None:
    scheduler, store, load = stage
    before = await commands_of(store)
    yardstick.slowdown()
    meter = CpuMeter({str(pid): pid for pid in (*scheduler.pids, scheduler.redis_pid)})
    tally = await load.carry_out(_order(variant, plan, 1))
    of_each_s = meter.spent_s()
    workers_s = [of_each_s[str(pid)] for pid in scheduler.pids]
    spent_s = {"scheduler": sum(workers_s), "redis": of_each_s[str(scheduler.redis_pid)]}
    slowdown = yardstick.slowdown()
    after = await commands_of(store)
    name = f"life/{variant.name}/"
    for who, cpu_s in (*spent_s.items(), ("load", tally.cpu_s), ("all", sum(spent_s.values()) + tally.cpu_s)):
        samples.add_cpu(f"{name}{who} CPU", "µs/job", cpu_s / tally.jobs * 1e6, slowdown)
    scripts_us = (after.scripts_us - before.scripts_us) / tally.jobs
    samples.add_cpu(f"{name}in scripts", "µs/job", scripts_us, slowdown)
    samples.add(f"{name}scripts", "calls/job", (after.scripts - before.scripts) / tally.jobs)
    samples.add(f"{name}jobs", "1/s", tally.jobs / tally.took_s)
    samples.add(f"{name}p50", "ms", tally.p50_ms)
    samples.add(f"{name}p99", "ms", tally.p99_ms)
    if tally.p999_ms is not None:
        samples.add(f"{name}p99.9", "ms", tally.p999_ms)
    samples.add(f"{name}scheduler memory", "MB", sum(map(resident_mb, scheduler.pids)))
    samples.add(f"{name}redis memory", "MB", resident_mb(scheduler.redis_pid))
    _judge(variant.name, tally, max(workers_s), samples)


def _judge(name: str, tally: Tally, scheduler_cpu_s: float, samples: Samples) -> None:
    """CPU per job stands whoever was the limit; jobs/s and latency do not."""
    busy = tally.cpu_s / tally.took_s
    if busy > SATURATED and scheduler_cpu_s / tally.took_s < SATURATED:
        samples.note(f"The load process was the limit of “{name}”: jobs/s and latency there say little.")


def _order(variant: Variant, plan: Plan, share: float) -> Order:
    jobs = plan.jobs if variant.audio_bytes == SMALL_BYTES else plan.jobs // 2
    return Order(
        jobs=max(plan.concurrency, int(jobs * share)),
        in_flight=plan.in_flight,
        audio_bytes=variant.audio_bytes,
        audio_format=variant.audio_format,
        acknowledges=variant.acknowledges,
        rate=plan.rate,
    )
