"""Scenario languages: what nodes with 99 languages cost beside nodes with two."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import aiohttp

from bench import children
from bench.audio import speech
from bench.bare import Commands, commands_of, open_store, used_bytes_of
from bench.children import BenchFailed, SchedulerChild
from bench.connecting import connect
from bench.figures import Samples
from bench.measure import CpuMeter, Yardstick, percentile, resident_mb
from bench.peers import Client, Node, Talker
from bench.plan import Plan
from lingua_scheduler.store.store import Store

# A scheduler that collects its garbage when it is sent SIGUSR1.
TIDY = "bench.tidy"
# Those that Whisper knows.
_WORDS = (
    "zh en de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro da hu ta no th ur hr bg lt la mi ml"
    " cy sk te fa lv bn sr az sl kn et mk br eu is hy ne mn bs kk sq sw gl mr pa si km sn yo so af oc ka be tg sd gu am"
    " yi lo uz fo ht ps tk nn mt sa lb my bo tl mg as tt haw ln ha ba jw su"
)
CODES = _WORDS.split()
KINDS = {"2 languages": CODES[:2], "99 languages": CODES}
NODES = 50
SLOTS = 4
# Heartbeats of each node in a sample, and jobs as a share of a sample's.
BEATS = 20
JOBS_SHARE = 0.05
SETTLE_S = 1.5
AUDIO_BYTES = 640
_BEAT_ACK = b'{"type":"node_heartbeat_ack"'


class Stage:
    """A scheduler with its Redis, its nodes, and one client; the judge of how they fare."""

    def __init__(self, codes: Sequence[str], scheduler: SchedulerChild, store: Store) -> None:
        self.codes = list(codes)
        self.scheduler = scheduler
        self.store = store
        self.nodes: list[LanguageNode] = []
        self.client = Client(self)
        self.assigned_ns: list[int] = []
        self.beats_left = 0
        self.turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wait(self) -> asyncio.Future[None]:
        self.turn = asyncio.get_running_loop().create_future()
        return self.turn

    def done(self, talker: Talker, began_ns: int) -> None:  # noqa: ARG002
        self._end()

    def beaten(self) -> None:
        self.beats_left -= 1
        if not self.beats_left:
            self._end()

    def failed(self, reason: str) -> None:
        if not self.turn.done():
            self.turn.set_exception(BenchFailed(reason))

    def _end(self) -> None:
        if not self.turn.done():
            self.turn.set_result(None)


class LanguageNode(Node):
    """One that names its languages in every heartbeat, and hears that it was heard."""

    def __init__(self, number: int, stage: Stage) -> None:
        super().__init__(f"bench-{number:02}", SLOTS, True, stage)
        self.languages = stage.codes
        self.tells_languages = True
        self._stage = stage

    def on_text(self, payload: bytes) -> None:
        if payload.startswith(_BEAT_ACK):
            self._stage.beaten()
        else:
            super().on_text(payload)

    def take(self, about: bytes) -> None:
        self._stage.assigned_ns.append(time.perf_counter_ns())
        super().take(about)


async def measure(plan: Plan, samples: Samples, folder: Path, tell: Callable[[str], None]) -> None:
    """Both kinds are there at once and take turns, so that whatever else the machine does, it does to both."""
    yardstick = Yardstick()
    async with AsyncExitStack() as stack:
        stages = {}
        for kind, codes in KINDS.items():
            own = folder / kind.replace(" ", "-")
            own.mkdir()
            stages[kind] = await stack.enter_async_context(_stage(codes, own))
        await stack.enter_async_context(yardstick.ticking())
        for kind, stage in stages.items():
            await _register(f"languages/{kind}/", stage, samples, yardstick)
            tell(f"languages: {NODES} nodes with {kind}")
        await asyncio.sleep(SETTLE_S)
        for kind, stage in stages.items():
            await _dashboard(f"languages/{kind}/dashboard: ", stage, samples)
        for _ in range(plan.repeats):
            for kind, stage in stages.items():
                await _beat(f"languages/{kind}/heartbeat: ", stage, samples, yardstick)
                await _dispatch(f"languages/{kind}/dispatch: ", stage, int(plan.jobs * JOBS_SHARE), samples)
                tell(f"languages: {kind}")


@asynccontextmanager
async def _stage(codes: Sequence[str], folder: Path) -> AsyncIterator[Stage]:
    async with children.scheduler(folder, module=TIDY) as scheduler, open_store(scheduler.redis_url) as store:
        yield Stage(codes, scheduler, store)


async def _register(name: str, stage: Stage, samples: Samples, yardstick: Yardstick) -> None:
    scheduler_mb, redis_bytes = await _memory(stage)
    took_ms = []
    with _cpu(f"{name}registration: ", stage, NODES, samples, yardstick):
        before = await commands_of(stage.store)
        for number in range(NODES):
            node = LanguageNode(number, stage)
            await connect(node, stage.scheduler.port)
            began_s = time.perf_counter()
            node.register()
            await node.registered
            took_ms.append((time.perf_counter() - began_s) * 1000)
            node.answer_with(speech(AUDIO_BYTES, "pcm16"))
            stage.nodes.append(node)
        spent = _since(before, await commands_of(stage.store))
    took_ms.sort()
    samples.add(f"{name}registration: p50", "ms", percentile(took_ms, 0.5))
    samples.add(f"{name}registration: slowest", "ms", took_ms[-1])
    samples.add(f"{name}registration: in scripts", "µs", spent.scripts_us / NODES)
    after_mb, after_bytes = await _memory(stage)
    samples.add(f"{name}a node: redis memory", "KB", (after_bytes - redis_bytes) / NODES / 1024)
    samples.add(f"{name}a node: scheduler memory", "KB", (after_mb - scheduler_mb) / NODES * 1024)


async def _beat(name: str, stage: Stage, samples: Samples, yardstick: Yardstick) -> None:
    beats = NODES * BEATS
    before = await commands_of(stage.store)
    with _cpu(name, stage, beats, samples, yardstick):
        for _ in range(BEATS):
            stage.beats_left = NODES
            heard = stage.wait()
            for node in stage.nodes:
                node.beat()
            await heard
    samples.add(f"{name}in scripts", "µs", _since(before, await commands_of(stage.store)).scripts_us / beats)


async def _dispatch(name: str, stage: Stage, jobs: int, samples: Samples) -> None:
    """One job at a time: from the frame that ends an utterance to the `job_assign` at a node."""
    client = stage.client
    if not client.welcomed.done():
        await connect(client, stage.scheduler.port)
        client.introduce()
        await client.welcomed
        client.prepare(speech(AUDIO_BYTES, "pcm16"), "pcm16", ("zh", "en"))
    took_ms = []
    for _ in range(max(jobs, 20)):
        answered, began_ns = stage.wait(), time.perf_counter_ns()
        client.talk()
        await answered
        took_ms.append((stage.assigned_ns[-1] - began_ns) / 1e6)
    took_ms.sort()
    samples.add(f"{name}p50", "ms", percentile(took_ms, 0.5))
    samples.add(f"{name}p95", "ms", percentile(took_ms, 0.95))


async def _dashboard(name: str, stage: Stage, samples: Samples) -> None:
    """The first message of a dashboard, and the one after it."""
    url = f"http://127.0.0.1:{stage.scheduler.port}/v1/watch"
    async with aiohttp.ClientSession(read_bufsize=2**22) as http, http.get(url) as stream:
        for event in ("picture", "change"):
            size = 0
            while not size:
                line = await stream.content.readline()
                if line.strip() == f"event: {event}".encode():
                    await stream.content.readline()
                    size = len(await stream.content.readline())
            samples.add(f"{name}{event}", "KB", size / 1024)


@contextmanager
def _cpu(name: str, stage: Stage, calls: int, samples: Samples, yardstick: Yardstick) -> Iterator[None]:
    yardstick.slowdown()
    meter = CpuMeter({"scheduler": stage.scheduler.pids[0], "redis": stage.scheduler.redis_pid})
    yield
    spent_s, slowdown = meter.spent_s(), yardstick.slowdown()
    for who, cpu_s in spent_s.items():
        samples.add_cpu(f"{name}{who} CPU", "µs", cpu_s / calls * 1e6, slowdown)


async def _memory(stage: Stage) -> tuple[float, int]:
    """Of the scheduler in MB, its garbage collected, and of Redis in bytes."""
    os.kill(stage.scheduler.pids[0], signal.SIGUSR1)
    await asyncio.sleep(SETTLE_S)
    return resident_mb(stage.scheduler.pids[0]), await used_bytes_of(stage.store)


def _since(before: Commands, after: Commands) -> Commands:
    return Commands(after.scripts - before.scripts, after.scripts_us - before.scripts_us)
