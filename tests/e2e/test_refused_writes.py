"""A Redis that answers and takes no writes is away: everybody is told at once, nobody is judged, nothing runs twice."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.clusters import Cluster
from tests.support.peers import FakeNode, Field, Frame, answer, field, result_of
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess, binaries
from tests.support.waiting import until

REFUSALS = {
    "OOM": ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
    "NOREPLICAS": ("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"),
    "NOPERM": ("ACL SETUSER default -evalsha -eval", "ACL SETUSER default +@all"),
}


@asynccontextmanager
async def refusing(server: RedisProcess, why: str) -> AsyncIterator[None]:
    on, off = REFUSALS[why]
    server.command(*on.split())
    try:
        yield
    finally:
        server.command(*off.split())


async def readiness(peers: Field) -> tuple[int, list[str]]:
    status, body = await peers.get("/health/ready")
    return status, body["reasons"]


@pytest.mark.parametrize("why", REFUSALS)
async def test_a_redis_that_refuses_writes_is_away_until_it_takes_them(why: str, server: RedisProcess) -> None:
    may_finish = asyncio.Event()

    async def work(node: FakeNode, job: Frame) -> None:
        await may_finish.wait()
        await node.socket.send(result_of(job, node.node_id))

    settings = {"nodes__heartbeat_interval_ms": 1_000, "nodes__missed_heartbeats": 1}
    async with scheduler_on(server.url, **settings) as (scheduler, store), field(scheduler.port) as peers:
        node = await peers.node(work)
        early, late = await peers.client(), await peers.client()
        await early.utterance(0)
        await until(lambda: len(node.jobs) == 1)
        async with refusing(server, why):
            await until(lambda: not store.is_ready, 5, "noticed by a write of its own")
            assert await readiness(peers) == (503, ["Redis accepts no writes"])
            began_s = time.monotonic()
            await late.utterance(0)
            told = await late.failure()
            print(f"{why}: told after {time.monotonic() - began_s:.2f} s: {told['error_code']}")
            assert told["error_code"] == "SCHEDULER_DEPENDENCY_DOWN"
            for path in ("/v1/jobs", "/api/v1/cluster"):
                status, body = await peers.get(path)
                assert (status, body["error"]) == (503, "SCHEDULER_DEPENDENCY_DOWN")
                assert "redis.sock" not in str(body)
                assert "/" not in body["detail"].replace("/v1/picture", "")
            # Longer than a node may be silent, and its result cannot be written down meanwhile.
            may_finish.set()
            await asyncio.sleep(1.5)
        await until(lambda: store.is_ready, 5, "back by itself")
        assert (await early.outcome())["type"] == "translation_result"
        await late.utterance(1)
        assert (await late.socket.next("translation_result"))["utterance_index"] == 1
        assert await readiness(peers) == (200, [])
        # The job ran once, on a node that nobody declared dead.
        assert [job["utterance_index"] for job in node.jobs] == [0, 1]
        assert not node.socket.socket.closed


async def test_the_record_of_a_session_that_closes_meanwhile_goes_when_writes_are_taken_again(
    server: RedisProcess,
) -> None:
    async with scheduler_on(server.url) as (scheduler, store), field(scheduler.port) as peers:
        client = await peers.client()
        record = store.keys.session(client.session_id)
        assert await store.line.call("EXISTS", record)
        async with refusing(server, "NOREPLICAS"):
            await until(lambda: not store.is_ready, 5)
            await client.socket.send({"type": "session_close", "session_id": client.session_id, "reason": "done"})
            await client.socket.next("session_close_ack")

        async def is_gone() -> bool:
            return store.is_ready and not await store.line.call("EXISTS", record)

        await until(is_gone, 10)


async def test_a_master_that_refuses_writes_takes_only_its_own_shards_along() -> None:
    cluster = Cluster(str(binaries()["valkey"]), masters=3)
    try:
        async with (
            scheduler_on(cluster.url, pools__shard_size=1) as (scheduler, store),
            field(scheduler.port) as peers,
        ):
            nodes = [await peers.node(answer) for _ in range(3)]
            client = await peers.client()
            # The shard whose server has nothing else that is needed on the way.
            needed = (store.keys.session(client.session_id), store.keys.load, store.keys.instances_alive)
            shards = {shard: cluster.owner_of(store.keys.shard(shard).free) for shard in range(3)}
            others = [cluster.owner_of(key) for key in needed]
            away = next((server for server in shards.values() if server not in others), None)
            away = away or shards[0]
            away.command("CONFIG", "SET", "maxmemory", "1")
            await until(lambda: not store.is_ready, 5, "noticed by a write of its own")
            assert (await readiness(peers))[0] == 503
            served = {shard for shard, server in shards.items() if server is not away}
            if served and away not in others:
                before = sum(len(node.jobs) for node in nodes)
                for index in range(6):
                    await client.utterance(index)
                    assert (await client.outcome())["type"] == "translation_result"
                print(f"{sum(len(node.jobs) for node in nodes) - before} jobs on {len(served)} of 3 shards")
            away.command("CONFIG", "SET", "maxmemory", "0")
            await until(lambda: store.is_ready, 5, "back by itself")
    finally:
        cluster.stop()
