"""The limits beside the scheduler: bare Redis with the same scripts pipelined, a bare echo server."""

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from bench import children
from bench.bare import PIPELINE, SERVED, BareStore, bare_store, commands_of
from bench.children import BenchFailed
from bench.figures import Samples
from bench.life import LARGE_BYTES, ROOM_FACTOR, SMALL_BYTES, WARM_UP_SHARE
from bench.measure import CpuMeter, Yardstick, cpu_s
from bench.orders import Cast, Order
from bench.plan import Plan

T = TypeVar("T")

# A frame with base64 in it is a third longer than the audio, and has a few fields besides.
ECHOES = (("small", SMALL_BYTES * 4 // 3 + 300), ("32 KB", LARGE_BYTES * 4 // 3 + 300))


class Stopwatch:
    """Adds up what Redis and this process spend on one kind of call, and what Redis says of its scripts."""

    def __init__(self, bare: BareStore, yardstick: Yardstick) -> None:
        self._bare = bare
        self._yardstick = yardstick
        self.redis_s = self.client_s = self.took_s = 0.0
        self.calls = self.scripts_us = 0

    async def time(self, calls: int, work: Awaitable[T]) -> T:
        before = await commands_of(self._bare.store)
        redis_s, client_s, began_s = cpu_s(self._bare.redis_pid), time.process_time(), time.perf_counter()
        result = await work
        self.took_s += time.perf_counter() - began_s
        self.client_s += time.process_time() - client_s
        self.redis_s += cpu_s(self._bare.redis_pid) - redis_s
        self.scripts_us += (await commands_of(self._bare.store)).scripts_us - before.scripts_us
        self.calls += calls
        self._yardstick.tick()
        return result

    def include(self, other: "Stopwatch") -> None:
        """Count the other's costs too, as part of the same calls."""
        self.redis_s += other.redis_s
        self.client_s += other.client_s
        self.took_s += other.took_s
        self.scripts_us += other.scripts_us

    def report(self, samples: Samples, name: str, slowdown: float) -> None:
        samples.add_cpu(f"{name}/redis CPU", "µs/call", self.redis_s / self.calls * 1e6, slowdown)
        if self.scripts_us:
            samples.add_cpu(f"{name}/in scripts", "µs/call", self.scripts_us / self.calls, slowdown)
        samples.add_cpu(f"{name}/client CPU", "µs/call", self.client_s / self.calls * 1e6, slowdown)


async def measure_redis(plan: Plan, samples: Samples, folder: Path, tell: Callable[[str], None]) -> None:
    """The two scripts of a job's life, in pipelines, on the fleet that scenario life has."""
    yardstick = Yardstick()
    async with bare_store(folder) as bare:
        await bare.populate(plan.nodes, ROOM_FACTOR * PIPELINE)
        await _dispatch_and_end(bare, int(plan.jobs * WARM_UP_SHARE), yardstick)
        for _ in range(plan.repeats):
            yardstick.slowdown()
            dispatching, ending = await _dispatch_and_end(bare, plan.jobs, yardstick)
            slowdown = yardstick.slowdown()
            dispatching.report(samples, "redis/dispatch", slowdown)
            ending.report(samples, "redis/end", slowdown)
            dispatching.include(ending)
            dispatching.report(samples, "redis/both: a job", slowdown)
            samples.add("redis/both: a job/calls", "1/s", dispatching.calls / dispatching.took_s)
            tell("bare Redis")


async def _dispatch_and_end(bare: BareStore, jobs: int, yardstick: Yardstick) -> tuple[Stopwatch, Stopwatch]:
    dispatching, ending = Stopwatch(bare, yardstick), Stopwatch(bare, yardstick)
    while dispatching.calls < jobs:
        attempts = await dispatching.time(PIPELINE, bare.dispatch(SERVED, PIPELINE))
        if await ending.time(len(attempts), bare.end(attempts)) != PIPELINE:
            raise BenchFailed("bare Redis did not place and end every job")
    return dispatching, ending


async def measure_echo(plan: Plan, samples: Samples, _: Path, tell: Callable[[str], None]) -> None:
    yardstick = Yardstick()
    async with (
        children.echo_server() as (pid, port),
        children.load(Cast(port=port, talkers=plan.sessions)) as load,
        yardstick.ticking(),
    ):
        for repeat in range(plan.repeats + 1):
            for name, size_bytes in ECHOES:
                meter = CpuMeter({"server": pid})
                yardstick.slowdown()
                tally = await load.carry_out(
                    Order(jobs=max(plan.concurrency, plan.jobs), in_flight=plan.in_flight, audio_bytes=size_bytes)
                )
                slowdown = yardstick.slowdown()
                spent_s = meter.spent_s()["server"]
                if repeat == 0:
                    continue  # the first round warms up
                samples.add_cpu(f"echo/{name}/server CPU", "µs/message", spent_s / tally.jobs * 1e6, slowdown)
                samples.add_cpu(f"echo/{name}/load CPU", "µs/message", tally.cpu_s / tally.jobs * 1e6, slowdown)
                samples.add(f"echo/{name}/messages", "1/s", tally.jobs / tally.took_s)
                tell(f"bare echo: {name}")
