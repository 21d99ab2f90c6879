"""Scenario peers: a job that does nothing, through other job queues and through us, one after the other, again."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple
from urllib.parse import unquote

from bench import children
from bench.children import BenchFailed, LoadChild
from bench.figures import Samples
from bench.life import MAX_SLOTS, ROOM_FACTOR, SMALL_BYTES
from bench.measure import CpuMeter, Yardstick
from bench.orders import Cast, Order, Tally
from bench.plan import Plan
from bench.queues.catalog import QUEUES, Catalog, Found, JobQueue, NotFound
from lingua_scheduler.domain.sessions.conversation import MAX_UNDER_WAY
from lingua_scheduler.store.servers.embedded import EmbeddedServer

OURS = "Lingua Scheduler"
OURS_APART = "Lingua Scheduler, fewer under way"
BEST_PEER = "peers/ours ÷ best peer/all CPU"
BEST_PYTHON_PEER = "peers/ours ÷ best Python peer/all CPU"
# Jobs under way in all queues: many, because they then fetch, write and hear of several at once.
IN_FLIGHT = 512
# Some Python queues do a few hundred jobs a second, and there is nothing in them that gets faster with time.
PYTHON_SHARE = 0.25
LOG_TAIL_BYTES = 300


class Stage(NamedTuple):
    """Who is at work: a load process, whose own CPU its tally tells, and the others."""

    load_name: str
    load: LoadChild[Tally]
    pids: dict[str, int]
    in_flight: int
    jobs: int


class Spent(NamedTuple):
    """CPU of all for a job, µs: scaled, and as measured."""

    scaled: float
    raw: float


async def measure(plan: Plan, samples: Samples, folder: Path, tell: Callable[[str], None]) -> None:
    """Everybody starts anew for each sample, so that nobody who idles or polls is in the way of another."""
    as_many = min(MAX_UNDER_WAY, max(plan.in_flight, IN_FLIGHT // plan.sessions))
    ours = {OURS: as_many, OURS_APART: plan.in_flight}
    for name, each in ours.items():
        samples.note(f"{name}: {_our_settings(plan, each)}.")
    found = await _look_for_all(samples)
    cpu_us: dict[str, list[Spent]] = {}
    yardstick = Yardstick()
    async with yardstick.ticking():
        for number in range(plan.repeats):
            for name, each in ours.items():
                async with _ours(plan, each, _made(folder / f"ours-{each}-{number}")) as stage:
                    cpu_us.setdefault(name, []).append(await _sample(name, samples, stage, yardstick))
                tell(f"peers: {name}")
            for queue in QUEUES:
                if queue in found:
                    own = _made(folder / f"{queue.package}-{queue.outcome}-{number}")
                    try:
                        async with _theirs(found[queue], _jobs_of(queue, plan), own) as stage:
                            spent_us = await _sample(queue.name, samples, stage, yardstick)
                        cpu_us.setdefault(queue.name, []).append(spent_us)
                    except BenchFailed as error:
                        samples.note(f"{queue.name} was given up in round {number + 1}: {error}{_last_words(own)}")
                        del found[queue]
                tell(f"peers: {queue.name}")
    _compare(found, cpu_us, samples)


async def _look_for_all(samples: Samples) -> dict[JobQueue, Found]:
    catalog = Catalog()
    found = {}
    for queue in QUEUES:
        try:
            found[queue] = await catalog.find(queue)
        except NotFound as error:
            samples.note(f"{queue.name} was skipped: {error}.")
        else:
            samples.note(f"{queue.name} {found[queue].version}: {queue.settings}.")
    return found


@asynccontextmanager
async def _ours(plan: Plan, each: int, folder: Path) -> AsyncIterator[Stage]:
    under_way = plan.sessions * each
    slots = min(MAX_SLOTS, max(1, ROOM_FACTOR * under_way // plan.nodes))
    async with children.scheduler(folder) as scheduler:
        cast = Cast(port=scheduler.port, talkers=plan.sessions, nodes=plan.nodes, slots=slots)
        async with children.load(cast) as load:
            pids = {"scheduler": scheduler.pids[0], "redis": scheduler.redis_pid}
            yield Stage("load", load, pids, each, max(under_way, plan.jobs))


@asynccontextmanager
async def _theirs(found: Found, jobs: int, folder: Path) -> AsyncIterator[Stage]:
    async with EmbeddedServer(folder / "redis") as server:
        assert server.pid is not None
        socket = unquote(server.url.removeprefix("unix://"))
        log_path = folder / "queue.log"
        async with children.queue((*found.worker, socket), (*found.client, socket), log_path) as (worker_pid, client):
            yield Stage("client", client, {"worker": worker_pid, "redis": server.pid}, IN_FLIGHT, jobs)


async def _sample(name: str, samples: Samples, stage: Stage, yardstick: Yardstick) -> Spent:
    order = Order(jobs=stage.jobs, in_flight=stage.in_flight, audio_bytes=SMALL_BYTES)
    await stage.load.carry_out(order)  # as long a warm-up as the sample: V8 compiles what it has seen often
    yardstick.slowdown()
    meter = CpuMeter(stage.pids)
    tally = await stage.load.carry_out(order)
    spent_s = meter.spent_s()
    slowdown = yardstick.slowdown()
    spent_s[stage.load_name] = tally.cpu_s
    for who, cpu_s in (*spent_s.items(), ("all", sum(spent_s.values()))):
        samples.add_cpu(f"peers/{name}/{who} CPU", "µs/job", cpu_s / tally.jobs * 1e6, slowdown)
    samples.add(f"peers/{name}/jobs", "1/s", tally.jobs / tally.took_s)
    raw = sum(spent_s.values()) / tally.jobs * 1e6
    return Spent(raw / slowdown, raw)


def _compare(found: Iterable[JobQueue], cpu_us: dict[str, list[Spent]], samples: Samples) -> None:
    """Round by round with the one that was cheapest over all rounds."""
    for figure, who, rivals in (
        (BEST_PEER, "peer", list(found)),
        (BEST_PYTHON_PEER, "Python peer", [queue for queue in found if queue.is_python]),
    ):
        if rivals:
            best = min(rivals, key=lambda queue: median(spent.scaled for spent in cpu_us[queue.name])).name
            samples.note(f"The best {who} was {best}.")
            for name, shown in ((OURS, figure), (OURS_APART, figure.replace("ours", "ours, fewer under way"))):
                for ours, theirs in zip(cpu_us[name], cpu_us[best], strict=True):
                    samples.add(shown, "×", ours.scaled / theirs.scaled, ours.raw / theirs.raw)


def _jobs_of(queue: JobQueue, plan: Plan) -> int:
    return max(1, int(plan.jobs * PYTHON_SHARE)) if queue.is_python else plan.jobs


def _our_settings(plan: Plan, each: int) -> str:
    return (
        f"{plan.sessions} sessions with {each} under way each, {plan.nodes} nodes without job_ack; the others have"
        f" {IN_FLIGHT} under way, and the Python ones {PYTHON_SHARE:.0%} as many jobs in all"
    )


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _last_words(folder: Path) -> str:
    log = folder / "queue.log"
    said = log.read_text("utf-8", "replace")[-LOG_TAIL_BYTES:].strip() if log.exists() else ""
    return f" ({said.splitlines()[-1]})" if said else ""
