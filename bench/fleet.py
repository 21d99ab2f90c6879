"""Scenario fleet: what choosing a node, a heartbeat and a node's memory cost, as the fleet grows."""

import time
from collections.abc import Callable
from pathlib import Path

from bench.bare import NOT_SERVED, PIPELINE, SERVED, BareStore, bare_store
from bench.children import BenchFailed
from bench.figures import Samples
from bench.limits import Stopwatch
from bench.measure import Yardstick, percentile, tail
from bench.plan import Plan
from lingua_scheduler.domain.jobs.attempts import DispatchOutcome

SLOTS = 16
# Calls of one sample, as shares of a sample's jobs.
CALLS_SHARE = 0.3
ALONE_SHARE = 0.05
MAP_READS = 5
# The same choice with a wider look, to see what the narrow one saves.
WIDE_SAMPLE = 20
WIDE = f"dispatch with {WIDE_SAMPLE} looked at"
# In smaller fleets what every shard needs outweighs its nodes.
MANY = 1_000


async def measure(plan: Plan, samples: Samples, folder: Path, tell: Callable[[str], None]) -> None:
    yardstick = Yardstick()
    for size in plan.fleets:
        fleet = f"{size:,} nodes".replace(",", " ")
        async with bare_store(folder / str(size)) as bare:
            empty_bytes = await bare.used_bytes()
            await bare.populate(size, SLOTS)
            per_node = (await bare.used_bytes() - empty_bytes) / size
            tell(f"fleet of {fleet}: registered")
            await _pipelined(bare, int(plan.jobs * CALLS_SHARE / 4), yardstick)
            for _ in range(plan.repeats):
                yardstick.slowdown()
                watches = await _pipelined(bare, int(plan.jobs * CALLS_SHARE), yardstick)
                slowdown = yardstick.slowdown()
                for what, watch in watches.items():
                    watch.report(samples, f"fleet/{what}, {fleet}", slowdown)
                await _alone(bare, int(plan.jobs * ALONE_SHARE), samples, fleet)
                tell(f"fleet of {fleet}")
            if size >= MANY:
                samples.add(f"fleet/registered, {fleet}/memory per node", "bytes", per_node)


async def _pipelined(bare: BareStore, calls: int, yardstick: Yardstick) -> dict[str, Stopwatch]:
    """Hits, their ends, misses and heartbeats, taking turns."""
    kinds = ("dispatch", WIDE, "end", "miss", "heartbeat", "map read")
    watches = {what: Stopwatch(bare, yardstick) for what in kinds}
    while watches["dispatch"].calls < calls:
        attempts = await watches["dispatch"].time(PIPELINE, bare.dispatch(SERVED, PIPELINE))
        if await watches["end"].time(len(attempts), bare.end(attempts)) != PIPELINE:
            raise BenchFailed("a fleet with free slots did not take every job")
        wide = await watches[WIDE].time(PIPELINE, bare.dispatch(SERVED, PIPELINE, WIDE_SAMPLE))
        await bare.end(wide)
        if await watches["miss"].time(PIPELINE, bare.dispatch(NOT_SERVED, PIPELINE)):
            raise BenchFailed("a job was placed in a pool that nobody serves")
        await watches["heartbeat"].time(PIPELINE, bare.beat(PIPELINE))
    for _ in range(MAP_READS):
        # What a miss costs before the scheduler believes it.
        await watches["map read"].time(1, bare.read_map())
    return watches


async def _alone(bare: BareStore, calls: int, samples: Samples, fleet: str) -> None:
    """One dispatch at a time: how long its caller waits."""
    for what, pool, expected in (
        ("dispatch", SERVED, DispatchOutcome.DISPATCHED),
        ("miss", NOT_SERVED, DispatchOutcome.NOBODY),
    ):
        took_us = []
        for _ in range(max(calls, 20)):
            began_s = time.perf_counter()
            attempt, placed = await bare.dispatch_one(pool)
            took_us.append((time.perf_counter() - began_s) * 1e6)
            if placed.outcome is not expected:
                raise BenchFailed(f"a dispatch to {pool} was {placed.outcome.value}")
            if placed.node_id:
                await bare.end([attempt])
        took_us.sort()
        samples.add(f"fleet/{what}, {fleet}/alone p50", "µs", percentile(took_us, 0.5))
        if (p99_us := tail(took_us, 0.99)) is not None:
            samples.add(f"fleet/{what}, {fleet}/alone p99", "µs", p99_us)
