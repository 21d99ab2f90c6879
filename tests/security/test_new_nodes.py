"""Attacks of nodes nobody knows yet: what a stranger claims must not decide how much speech it gets."""

import asyncio

from lingua_scheduler.store.store import Store
from tests.support.peers import FakeNode, Field, Frame, answer, field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

CLAIMED, BELIEVED, HONEST_SLOTS = 200, 8, 4


async def test_f87_a_new_node_that_claims_200_slots_gets_at_most_its_probation_share(peers: Field) -> None:
    release = asyncio.Event()

    async def hold(node: FakeNode, job: Frame) -> None:
        await release.wait()
        await answer(node, job)

    honest = [await peers.node(hold, max_concurrent_jobs=HONEST_SLOTS) for _ in range(3)]
    rogue = await peers.node(hold, max_concurrent_jobs=CLAIMED)
    clients = [await peers.client() for _ in range(BELIEVED + 3 * HONEST_SLOTS)]
    for client in clients:
        await client.utterance(0)
    await until(lambda: sum(len(node.jobs) for node in (rogue, *honest)) == len(clients))
    got = len(rogue.jobs)
    print(f"the rogue got {got} of {len(clients)} utterances; its probation share is {BELIEVED}")
    assert got <= BELIEVED
    release.set()
    for client in clients:
        assert (await client.outcome())["type"] == "translation_result"


async def test_f87_its_share_grows_only_with_good_results(server: RedisProcess) -> None:
    async with scheduler_on(server.url, nodes__believed_slots=2, nodes__believed_after=4) as (scheduler, store):
        async with field(scheduler.port) as peers:
            node = await peers.node(answer, max_concurrent_jobs=CLAIMED, node_id="node-NEW00001")
            client = await peers.client()

            async def slots() -> int:
                (view,) = await store.node_views.all()
                return view.max_jobs

            assert await slots() == 2
            for index in range(8):
                await client.utterance(index)
                assert (await client.outcome())["type"] == "translation_result"
            assert await slots() == 8
            # A reconnect keeps what was earned, another id does not.
            await node.stop()
            await until(lambda: is_empty(store))
            await peers.node(answer, max_concurrent_jobs=CLAIMED, node_id="node-NEW00001")
            assert await slots() == 8


async def is_empty(store: Store) -> bool:
    return await store.node_views.all() == []
