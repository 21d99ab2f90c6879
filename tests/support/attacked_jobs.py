"""Nodes that attack the jobs they get, with an honest pair of client and node beside them, at one scheduler."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from time import perf_counter
from typing import Any

from lingua_scheduler.app import Scheduler
from lingua_scheduler.store.maintenance.checkup import Checkup
from lingua_scheduler.store.store import Store
from tests.support.peers import FakeNode, Field, Frame, acknowledgement, answer, field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

FRENCH: dict[str, Any] = {"src_lang": "fr", "tgt_lang": "de"}
# No node is lost for its silence, however slow the machine is.
BRISK = {"redis__timeout_ms": 1_000, "nodes__heartbeat_interval_ms": 300_000, "job__reservation_ttl_ms": 60_000}
Attack = Callable[["Scene", FakeNode, Frame], Awaitable[None]]


class Scene:
    """Two nodes that attack with the first attempt of a job and do the others well, and an honest pair beside them."""

    def __init__(self, server: RedisProcess, scheduler: Scheduler, store: Store, peers: Field) -> None:
        self.server = server
        self.scheduler = scheduler
        self.store = store
        self.peers = peers
        self.attack: Attack = do_well
        # Jobs that began without a task.
        self.direct = 0
        self._count_direct()
        # Those that go on.
        self.attacks = 0
        self.rogues: list[FakeNode] = []
        self.numbers = count()
        self.honest_numbers = count()

    def _count_direct(self) -> None:
        jobs = self.scheduler._intake.direct
        assert jobs is not None
        start = jobs.start

        def counted(*about: Any) -> bool:
            is_direct = start(*about)
            self.direct += is_direct
            return is_direct

        jobs.start = counted  # type: ignore[assignment, method-assign]

    async def open(self) -> None:
        await self.peers.node(node_id="honest", max_concurrent_jobs=2)
        self.honest = await self.peers.client()
        self.client = await self.peers.client(**FRENCH)
        for name in ("rogue-1", "rogue-2"):
            await self.rogue(name)

    async def rogue(self, name: str) -> FakeNode:
        node = await self.peers.node(
            self.work, node_id=name, languages=("fr", "de"), advanced_features=["job_ack"], boot_id=f"boot-{name}"
        )
        self.rogues.append(node)
        return node

    async def is_back(self, name: str) -> bool:
        """It is told to connect again while Redis is away."""
        try:
            return self.store.is_ready and bool(await self.rogue(name))
        except ConnectionError:
            return False

    async def work(self, node: FakeNode, job: Frame) -> None:
        if job["attempt_id"] > 1:
            await do_well(self, node, job)
            return
        self.attacks += 1
        try:
            with suppress(ConnectionError):
                await self.attack(self, node, job)
        finally:
            self.attacks -= 1

    async def speak(self) -> Frame:
        """An utterance for the rogues, and its outcome."""
        index = next(self.numbers)
        await self.client.utterance(index, **FRENCH)
        outcome = await self.client.outcome()
        assert outcome["utterance_index"] == index
        return outcome

    async def honestly(self, times: int = 1) -> list[float]:
        taken = []
        for _ in range(times):
            began = perf_counter()
            await self.honest.utterance(next(self.honest_numbers))
            assert (await self.honest.outcome())["type"] == "translation_result"
            taken.append((perf_counter() - began) * 1000)
        return taken

    def runs(self, outcome: Frame) -> int:
        """How often nodes got the job of this utterance."""
        index = outcome["utterance_index"]
        return sum(job["utterance_index"] == index for node in self.rogues for job in node.jobs)

    async def is_all_free(self) -> bool:
        views = await self.store.node_views.all()
        return not any(view.held for view in views) and not self.scheduler._intake.job_count

    async def settle(self) -> None:
        """Nothing is left of all that: neither here nor in Redis."""
        assert self.direct
        await until(self.is_all_free, what="every slot is free, and no job goes on")
        assert await Checkup(self.store).look(settle_s=0.5) == []
        told = [frame["utterance_index"] for frame in self.client.socket.of_type("translation_result")]
        told += [frame["utterance_index"] for frame in self.client.socket.of_type("missing_result")]
        assert sorted(told) == sorted(set(told)), "an outcome came twice"


@asynccontextmanager
async def scene(server: RedisProcess) -> AsyncIterator[Scene]:
    async with scheduler_on(server.url, **BRISK) as (scheduler, store), field(scheduler.port) as peers:
        there = Scene(server, scheduler, store, peers)
        await there.open()
        await there.honestly()
        yield there


async def do_well(_: Scene, node: FakeNode, job: Frame) -> None:
    await node.socket.send(acknowledgement(job, node.node_id))
    await answer(node, job)
