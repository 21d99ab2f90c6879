"""A run: start everything, let people talk, let things go wrong, wait until all is quiet, and judge what was seen."""

import asyncio
import signal
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from lingua_scheduler.store.servers.embedded import shipped_binary
from tools.chaos import journals, looking, world
from tools.chaos.checker import Verdict, judged
from tools.chaos.doing import Doer, Instance
from tools.chaos.events import Evidence, Happened
from tools.chaos.plan import Cast, Fault, drawn
from tools.chaos.servers import Servers
from tools.chaos.speakers import (
    OUTCOME_WITHIN_S,
    BrowserSpeaker,
    GatewaySpeaker,
    Pace,
    PhoneSpeaker,
    SdkSpeaker,
    Speaker,
)
from tools.chaos.world import Child

START_WITHIN_S = 60.0
TELL_EVERY_S = 5.0
NODE_PROCESSES = 5
OURS, EXISTING = 2, 1
NODES_A_PROCESS = OURS + EXISTING
SETTINGS = {
    # Forgotten soon, so that what is left at the end can be looked at.
    "job.keep_ms": "60000",
    "instances.forget_ms": "60000",
    "server.stop_timeout_ms": "3000",
    # Everybody honest comes from there, like a gateway; attackers from another address (`floods`) meet the limits.
    "server.unmetered_addresses": "127.0.0.1/32",
}


class Order(NamedTuple):
    minutes: float
    seed: int
    sessions: int
    instances: int = 3
    node_processes: int = NODE_PROCESSES
    is_cluster: bool = False
    redis_binary: str = ""
    max_mb: float = 400.0
    pace: float = 1.0
    only: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()


class Report(NamedTuple):
    order: Order
    plan: list[Fault]
    happened: list[Happened]
    verdict: Verdict
    began_s: float
    took_s: float
    busy_share: float
    looks: int
    can_jump: bool
    largest_mb: dict[str, float]


class Run:
    def __init__(self, order: Order, folder: Path, tell: Callable[[str], None]) -> None:
        self._order = order
        self._folder = folder
        self._say = tell
        self._seen = Evidence()
        self._pace = Pace(order.pace)
        self._began_s = time.monotonic()
        self._redis = Servers(order.redis_binary or str(shipped_binary()), folder, is_cluster=order.is_cluster)
        settings = SETTINGS | dict(change.split("=", 1) for change in order.settings)
        made = [world.instance(k, folder, self._redis.url, settings) for k in range(order.instances)]
        self._instances = [Instance(child, port) for child, port in made]
        addresses = [f"127.0.0.1:{port}" for _, port in made]
        self._nodes = [
            world.nodes(k, folder, addresses, OURS, EXISTING, order.seed) for k in range(order.node_processes)
        ]
        self._speakers = self._people([port for _, port in made], addresses)

    def _people(self, ports: list[int], addresses: list[str]) -> list[Speaker]:
        """Of twenty: thirteen of the SDK, five pages, two phones; and a gateway beside them."""
        people: list[Speaker] = []
        for k in range(self._order.sessions):
            seed = f"{self._order.seed} {k}"
            first = k % len(ports)
            at, turned = addresses[first:] + addresses[:first], ports[first:] + ports[:first]
            common = (f"p{k}", seed, self._seen, self._pace)
            match k % 20:
                case 3 | 7 | 11 | 15 | 19:
                    people.append(BrowserSpeaker(*common, turned))
                case 5 | 13:
                    people.append(PhoneSpeaker(*common, turned))
                case _:
                    people.append(SdkSpeaker(*common, at))
        for k in range(max(1, self._order.sessions // 30)):
            people.append(GatewaySpeaker(f"g{k}", f"{self._order.seed} g{k}", self._seen, self._pace, ports))
        return people

    async def __call__(self) -> Report:
        try:
            return await self._run()
        finally:
            await self._end_processes()
            self._redis.stop()

    async def _run(self) -> Report:
        order, redis = self._order, self._redis
        cast = Cast(order.instances, order.node_processes, len(redis))
        plan = drawn(order.seed, order.minutes * 60, cast, can_jump=redis.clock.can_jump, only=order.only)
        await self._start()
        children = [instance.child for instance in self._instances]
        watch = looking.Watch(redis, children, self._seen)
        doer = Doer(self._folder, redis, self._instances, self._nodes, self._speakers, order.seed, self._tell)
        self._began_s, before = time.monotonic(), looking.processor_ticks()
        talking = [asyncio.create_task(speaker.run()) for speaker in self._speakers]
        besides = [asyncio.create_task(chore) for chore in (watch.run(), doer.keep_alive(), self._progress())]
        try:
            await doer.carry_out(plan, self._began_s)
            await asyncio.sleep(max(0.0, self._began_s + order.minutes * 60 - time.monotonic()))
            await doer.undo()
            busy = looking.busy_share(before, looking.processor_ticks())
            self._pace.enough.set()
            self._tell("everybody has said enough; waiting for the last outcomes")
            await asyncio.wait(talking, timeout=OUTCOME_WITHIN_S + 60)
        finally:
            for task in (*talking, *besides):
                task.cancel()
            ended = await asyncio.gather(*talking, return_exceptions=True)
        for speaker, result in zip(self._speakers, ended, strict=True):
            if isinstance(result, Exception):
                self._seen.failures.append(f"{speaker.name} ({speaker.kind}): {type(result).__name__}: {result}")
        self._seen.leftovers += await looking.quiet(redis, [child.full_name for child in children], self._tell)
        self._tell("lingua redis check")
        self._seen.leftovers += await looking.findings(redis.url)
        await self._end_processes()
        self._seen.leftovers += await looking.lasting(redis)
        self._seen.worked, self._seen.refused = journals.read(self._folder / "journals")
        self._seen.faults, self._seen.crashes = doer.happened, doer.crashes
        self._seen.failures += doer.failures
        largest: dict[str, float] = {}
        for one in self._seen.memory:
            largest[one.process] = max(largest.get(one.process, 0.0), one.mb)
        return Report(
            order,
            plan,
            doer.happened,
            judged(self._seen, order.max_mb),
            self._began_s,
            time.monotonic() - self._began_s,
            busy,
            watch.looks,
            redis.clock.can_jump,
            largest,
        )

    async def _start(self) -> None:
        """Instances first: an existing node that finds nobody takes longer and longer to come back."""
        self._say(f"starting {len(self._instances)} instances and {len(self._nodes)} processes of nodes")
        for instance in self._instances:
            await instance.child.start()
        await self._until(self._are_up)
        for child in self._nodes:
            await child.start()
        await self._until(self._are_registered)

    async def _until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        give_up_at_s = time.monotonic() + START_WITHIN_S
        while not await condition():
            if time.monotonic() > give_up_at_s:
                raise RuntimeError(f"not started within {START_WITHIN_S:g} s; --keep a folder and see its logs")
            await asyncio.sleep(0.2)

    async def _are_up(self) -> bool:
        return all(_listens(instance.port) for instance in self._instances)

    async def _are_registered(self) -> bool:
        slots = [(await looking.leased_jobs(self._redis, shard))[1] for shard in range(looking.SHARDS)]
        return sum(map(len, slots)) >= NODES_A_PROCESS * len(self._nodes)

    async def _end_processes(self) -> None:
        everybody: list[Child] = [*self._nodes, *(instance.child for instance in self._instances)]
        for child in everybody:
            child.signal(signal.SIGCONT)
        for some in (self._nodes, [instance.child for instance in self._instances]):
            await asyncio.gather(*(child.stop() for child in some))

    def _tell(self, words: str) -> None:
        self._say(f"[{time.monotonic() - self._began_s:7.1f} s] {words}")

    async def _progress(self) -> None:
        seen, said = self._seen, 0
        while True:
            await asyncio.sleep(TELL_EVERY_S)
            missing = sum(bool(outcome.reason) for outcome in seen.outcomes)
            now, said = len(seen.spoken), len(seen.spoken) - said
            largest = max((one.mb for one in seen.memory[-len(self._instances) :]), default=0.0)
            talking = sum(not speaker.is_done for speaker in self._speakers)
            self._tell(
                f"{now} sentences (+{said}), {len(seen.outcomes) - missing} translated, {missing} missing, "
                f"{talking} talking, {len(seen.incidents)} reopened by hand, largest instance {largest:.0f} MB"
            )
            said = now


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(("127.0.0.1", port)) == 0
