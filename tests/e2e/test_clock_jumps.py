"""Redis's clock is put forward or back while people talk: nobody is swept for it, and nobody kept."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.store.store import Store
from tests.support.peers import FakeNode, Frame, field, result_of
from tests.support.schedulers import settings_with
from tests.support.servers import RedisProcess
from tests.support.waiting import until

HOUR_MS = 3_600_000


class Clock:
    """That of life, and what a test puts it forward."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def __call__(self) -> int:
        return int(time.time() * 1000) + self.ahead_ms


@asynccontextmanager
async def scheduler_with(clock: Clock, url: str) -> AsyncIterator[tuple[Scheduler, Store]]:
    settings = settings_with()
    store = Store(url, key_prefix=settings.redis.key_prefix, clock=clock)
    await store.open()
    scheduler = Scheduler(settings, store)
    try:
        await scheduler.start()
        yield scheduler, store
    finally:
        await scheduler.stop()
        await store.close()


@pytest.mark.parametrize("jump_ms", [HOUR_MS, -HOUR_MS])
async def test_a_jump_of_the_clock_loses_no_node_and_no_job(jump_ms: int, server: RedisProcess) -> None:
    clock, may_finish = Clock(), asyncio.Event()

    async def work(node: FakeNode, job: Frame) -> None:
        await may_finish.wait()
        await node.socket.send(result_of(job, node.node_id))

    async with scheduler_with(clock, server.url) as (scheduler, store), field(scheduler.port) as peers:
        node = await peers.node(work, max_concurrent_jobs=1)
        client = await peers.client()
        await client.utterance(0)
        await until(lambda: len(node.jobs) == 1)
        await scheduler.sweeper.sweep()
        clock.ahead_ms = jump_ms
        await scheduler.sweeper.sweep()
        assert await scheduler.presence.dead() == []

        async def is_alive_by_the_new_time() -> bool:
            seen = float(await store.line.call("ZSCORE", store.keys.shard(0).seen, node.node_id) or 0)
            return 0 < seen - clock() <= 45_000

        await until(is_alive_by_the_new_time, what="written again by the new time")
        for _ in range(3):
            await scheduler.sweeper.sweep()
        may_finish.set()
        assert (await client.outcome())["type"] == "translation_result"
        await client.utterance(1)
        assert (await client.outcome())["type"] == "translation_result"
        assert [job["utterance_index"] for job in node.jobs] == [0, 1]
        assert not node.socket.socket.closed


async def test_without_a_jump_a_silent_node_is_swept(server: RedisProcess) -> None:
    clock = Clock()
    async with scheduler_with(clock, server.url) as (scheduler, store), field(scheduler.port) as peers:
        node = await peers.node()
        await scheduler.sweeper.sweep()
        await store.line.call("ZADD", store.keys.shard(0).seen, 1, node.node_id)
        await scheduler.sweeper.sweep()
        assert node.node_id not in await store.owners.known(0)
