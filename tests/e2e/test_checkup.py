"""Repairing while people talk: nobody notices, and what was wrong is right afterwards."""

import asyncio
import random

from lingua_scheduler.store.maintenance.checkup import Checkup
from lingua_scheduler.store.store import Store
from tests.support.peers import FakeNode, Frame, answer, field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess

NODES, CLIENTS, UTTERANCES, ROUNDS = 6, 12, 30, 5
SLOTS = 2


async def answer_soon(node: FakeNode, job: Frame) -> None:
    await asyncio.sleep(random.uniform(0.002, 0.03))
    await answer(node, job)


async def plant(store: Store, round_number: int) -> None:
    """Faults of every kind that a dead process might leave, beside the nodes at work."""
    keys, call, ghost = store.keys.shard(0), store.line.call, f"ghost-{round_number}"
    await call("SADD", keys.pool("en:zh:speech"), ghost)
    await call("ZADD", keys.free, 5, ghost)
    await call("ZADD", keys.seen, 1, ghost)
    await call("HSET", keys.limits, ghost, 5)
    await call("ZADD", keys.leases, 9e15, f"job-0-x{round_number}#1#{ghost}")
    await call("HSET", keys.summary, "xx:yy:text", 4)
    await call("ZINCRBY", store.keys.load, 3, 0)
    await store.placements.assign(ghost, 100, 1000)


async def test_a_repair_under_load_costs_no_utterance_and_no_slot(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, store), field(scheduler.port) as peers:
        nodes = [await peers.node(answer_soon, max_concurrent_jobs=SLOTS) for _ in range(NODES)]
        clients = [await peers.client() for _ in range(CLIENTS)]
        outcomes: list[str] = []

        rounds = said = 0

        async def talk(index: int) -> None:
            nonlocal said
            number = 0
            while not repairing.done() and (number < UTTERANCES or rounds <= ROUNDS):
                await clients[index].utterance(number)
                said, number = said + 1, number + 1
                outcomes.append((await clients[index].outcome())["type"])

        async def repair_all_the_time() -> None:
            nonlocal rounds
            while True:
                await plant(store, rounds)
                checkup = Checkup(store)
                findings = await checkup.look(settle_s=0.05)
                accused = {finding.subject for finding in findings} & {node.node_id for node in nodes}
                assert not accused, findings
                await checkup.repair(findings)
                rounds += 1

        repairing = asyncio.create_task(repair_all_the_time())
        await asyncio.gather(*map(talk, range(CLIENTS)))
        assert not repairing.done(), repairing
        repairing.cancel()
        await asyncio.gather(repairing, return_exceptions=True)
        assert said >= CLIENTS * UTTERANCES
        assert outcomes == ["translation_result"] * said
        assert max(node.most_at_once for node in nodes) <= SLOTS

        checkup = Checkup(store)
        await checkup.repair(await checkup.look(settle_s=0.05))
        assert await checkup.look(settle_s=0.05) == []
        views = await store.node_views.all()
        assert {view.node_id for view in views} == {node.node_id for node in nodes}
        assert {view.held for view in views} == {0}
