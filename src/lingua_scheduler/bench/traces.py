"""Scenario traces: what a job costs that is traced, beside one that is not."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from aiohttp import web

from lingua_scheduler.bench import children
from lingua_scheduler.bench.children import LoadChild, SchedulerChild
from lingua_scheduler.bench.figures import Samples
from lingua_scheduler.bench.life import MAX_SLOTS, ROOM_FACTOR, SMALL_BYTES, WARM_UP_SHARE
from lingua_scheduler.bench.measure import CpuMeter, Yardstick
from lingua_scheduler.bench.orders import Cast, Order, Tally
from lingua_scheduler.bench.plan import Plan

OFF, AGAIN, SOME, ALL = "off", "off again", "every tenth", "every one"
SAMPLED = {OFF: "", AGAIN: "", SOME: "0.1", ALL: "1"}
MAX_EXPORT_BYTES = 2**26


def steps(plan: Plan) -> int:
    return plan.repeats * len(SAMPLED)


async def measure(plan: Plan, samples: Samples, folder: Path, tell: Callable[[str], None]) -> None:
    """They take turns, so that a slow moment of the machine hits all of them."""
    try:
        version("opentelemetry-sdk")
    except PackageNotFoundError:
        samples.note('Traces were not measured: pip install "lingua-scheduler[traces]" first.')
        return
    yardstick = Yardstick()
    slots = min(MAX_SLOTS, max(1, ROOM_FACTOR * plan.concurrency // plan.nodes))
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(_collector())
        await stack.enter_async_context(yardstick.ticking())
        stages: dict[str, tuple[SchedulerChild, LoadChild[Tally]]] = {}
        for variant, ratio in SAMPLED.items():
            own = folder / variant.replace(" ", "-")
            own.mkdir()
            scheduler = await stack.enter_async_context(children.scheduler(own, 1, **_variables(ratio, port)))
            cast = Cast(port=scheduler.port, talkers=plan.sessions, nodes=plan.nodes, slots=slots)
            load = await stack.enter_async_context(children.load(cast))
            await load.carry_out(_order(plan, WARM_UP_SHARE))
            stages[variant] = scheduler, load
        for _ in range(plan.repeats):
            cpu_us = {}
            for variant, (scheduler, load) in stages.items():
                cpu_us[variant] = await _sample(variant, plan, samples, scheduler, load, yardstick)
                tell(f"traces: {variant}")
            for variant in (AGAIN, SOME, ALL):
                samples.add(f"traces/{variant} ÷ {OFF}/scheduler CPU", "×", cpu_us[variant] / cpu_us[OFF])


async def _sample(
    variant: str, plan: Plan, samples: Samples, scheduler: SchedulerChild, load: LoadChild[Tally], yardstick: Yardstick
) -> float:
    """CPU of the scheduler per job, scaled."""
    yardstick.slowdown()
    meter = CpuMeter({"scheduler": scheduler.pids[0]})
    tally = await load.carry_out(_order(plan, 1))
    cpu_us = meter.spent_s()["scheduler"] / tally.jobs * 1e6
    slowdown = yardstick.slowdown()
    samples.add_cpu(f"traces/{variant}/scheduler CPU", "µs/job", cpu_us, slowdown)
    samples.add(f"traces/{variant}/jobs", "1/s", tally.jobs / tally.took_s)
    samples.add(f"traces/{variant}/p50", "ms", tally.p50_ms)
    samples.add(f"traces/{variant}/p99", "ms", tally.p99_ms)
    return cpu_us / slowdown


def _variables(ratio: str, port: int) -> dict[str, str]:
    if not ratio:
        return {}
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
        "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
        "OTEL_TRACES_SAMPLER_ARG": ratio,
    }


@asynccontextmanager
async def _collector() -> AsyncIterator[int]:
    async def take(request: web.Request) -> web.Response:
        await request.read()
        return web.Response()

    app = web.Application(client_max_size=MAX_EXPORT_BYTES)
    app.router.add_post("/v1/traces", take)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def _order(plan: Plan, share: float) -> Order:
    jobs = max(plan.concurrency, int(plan.jobs * share))
    return Order(jobs=jobs, in_flight=plan.in_flight, audio_bytes=SMALL_BYTES, rate=plan.rate)
