"""Scenario watched: jobs at a steady pace, alone and while a thousand questions a second ask how things are."""

from collections.abc import Callable
from pathlib import Path

from lingua_scheduler.bench import children
from lingua_scheduler.bench.bare import all_commands_of, open_store
from lingua_scheduler.bench.children import LoadChild
from lingua_scheduler.bench.figures import Samples
from lingua_scheduler.bench.life import MAX_SLOTS, SMALL_BYTES, WARM_UP_SHARE
from lingua_scheduler.bench.orders import Asked, Asking, Cast, Order, Tally
from lingua_scheduler.bench.plan import Plan
from lingua_scheduler.store.store import Store

PATH = "/api/v1/stats"
QUESTIONS_PER_S = 1_000.0
# Far from what one scheduler can do, so that latency is not that of a queue.
JOBS_PER_S = 300.0
ALONE, ASKED = "alone", "asked 1 000 times a second"


def steps(plan: Plan) -> int:
    return plan.repeats * 2


async def measure(plan: Plan, samples: Samples, folder: Path, tell: Callable[[str], None]) -> None:
    """The two take turns, so that a slow moment of the machine hits both."""
    rate = plan.rate or JOBS_PER_S
    order = Order(jobs=max(100, plan.jobs // 5), in_flight=1, audio_bytes=SMALL_BYTES, rate=rate)
    async with children.scheduler(folder) as scheduler, open_store(scheduler.redis_url) as store:
        cast = Cast(port=scheduler.port, talkers=plan.sessions, nodes=plan.nodes, slots=MAX_SLOTS)
        async with children.load(cast) as load:
            await load.carry_out(Order(jobs=int(order.jobs * WARM_UP_SHARE), in_flight=1, audio_bytes=SMALL_BYTES))
            for _ in range(plan.repeats):
                alone = await _sample(ALONE, samples, store, load, order)
                tell(f"watched: {ALONE}")
                async with children.asker(Asking(port=scheduler.port, path=PATH, rate=QUESTIONS_PER_S)) as asker:
                    asked = await _sample(ASKED, samples, store, load, order)
                    questions = await asker.enough()
                tell(f"watched: {ASKED}")
                _compare(samples, alone, asked, questions)


async def _sample(
    variant: str, samples: Samples, store: Store, load: LoadChild[Tally], order: Order
) -> tuple[Tally, float]:
    before = await all_commands_of(store)
    tally = await load.carry_out(order)
    commands_per_s = (await all_commands_of(store) - before) / tally.took_s
    samples.add(f"watched/{variant}/p50", "ms", tally.p50_ms)
    samples.add(f"watched/{variant}/p99", "ms", tally.p99_ms)
    samples.add(f"watched/{variant}/redis commands", "calls/s", commands_per_s)
    return tally, commands_per_s


def _compare(samples: Samples, alone: tuple[Tally, float], asked: tuple[Tally, float], questions: Asked) -> None:
    for metric, before, after in (
        ("p50", alone[0].p50_ms, asked[0].p50_ms),
        ("p99", alone[0].p99_ms, asked[0].p99_ms),
        ("redis commands", alone[1], asked[1]),
    ):
        samples.add(f"watched/asked ÷ alone/{metric}", "×", after / before)
    samples.add(f"watched/{ASKED}/answers", "1/s", questions.answers / questions.took_s)
    samples.add(f"watched/{ASKED}/answer p99", "ms", questions.p99_ms)
    if questions.failures:
        samples.note(f"{questions.failures} questions were not answered with 200.")
