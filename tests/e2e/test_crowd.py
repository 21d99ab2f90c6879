"""Many people at once: nothing lost, nothing twice, nobody oversold."""

import asyncio
from collections import Counter

from tests.support.peers import FakeNode, Field, Frame, answer, field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

SESSIONS, UTTERANCES, NODES, SLOTS = 200, 10, 20, 4
# Everybody says everything at once: how long the last one waits for a slot is the machine's affair.
PATIENT = {"dispatch__queue_wait_ms": 60_000, "delivery__hold_ms": 60_000}


async def a_moment_later(node: FakeNode, job: Frame) -> None:
    await asyncio.sleep(0.01)
    node.running -= 1
    await answer(node, job)
    node.running += 1


async def test_every_utterance_of_a_crowd_is_translated_once(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url, **PATIENT) as (scheduler, store),
        field(scheduler.port) as peers,
    ):
        nodes = [await peers.node(a_moment_later, max_concurrent_jobs=SLOTS) for _ in range(NODES)]
        clients = await asyncio.gather(*(peers.client() for _ in range(SESSIONS)))
        results = await asyncio.gather(*(_talk(peers, client) for client in clients))

        heard = Counter(result for session in results for result in session)
        assert len(heard) == SESSIONS * UTTERANCES
        assert set(heard.values()) == {1}
        assert all(session == sorted(session, key=lambda item: item[1]) for session in results)
        assert max(node.most_at_once for node in nodes) <= SLOTS
        assert sum(len(node.jobs) for node in nodes) == SESSIONS * UTTERANCES

        async def slots() -> bool:
            views = await store.nodes.view()
            return [(view.held, view.free) for view in views] == [(0, SLOTS)] * NODES

        await until(slots, what="every slot free")
        keys = store.keys.shard(0)
        assert await store.line.call("ZCARD", keys.leases) == 0
        assert await store.line.call("ZCARD", keys.held) == 0


async def _talk(peers: Field, client) -> list[tuple[str, int]]:  # type: ignore[no-untyped-def]
    for index in range(UTTERANCES):
        await client.utterance(index)
    outcomes = [await client.outcome(within_s=90) for _ in range(UTTERANCES)]
    assert {outcome["type"] for outcome in outcomes} == {"translation_result"}
    assert all(o["text_translated"] == f"said {client.session_id} {o['utterance_index']}" for o in outcomes)
    return [(outcome["session_id"], outcome["utterance_index"]) for outcome in outcomes]
