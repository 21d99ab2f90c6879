"""Many people at once: nothing lost, nothing twice, nobody oversold."""

import asyncio
from collections import Counter
from itertools import cycle

from lingua_scheduler.telemetry import metrics
from tests.support.peers import FakeClient, FakeNode, Field, Frame, answer, field
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
            views = await store.node_views.all()
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
    names = {client.known_as(node.node_id) for node in peers.nodes}
    said = [(outcome["utterance_index"], *outcome["text_translated"].split()[1:]) for outcome in outcomes]
    assert all(name in names and number == str(index) for index, name, number in said)
    return [(outcome["session_id"], outcome["utterance_index"]) for outcome in outcomes]


async def test_of_too_much_work_some_is_refused_at_once_and_the_rest_is_done_in_time(server: RedisProcess) -> None:
    async with (
        # Longer than a job may wait in line, so that none is overtaken.
        scheduler_on(server.url, dispatch__queue_wait_ms=5_000, delivery__hold_ms=60_000) as (scheduler, _),
        field(scheduler.port) as peers,
    ):
        clients = [await peers.client() for _ in range(20)]
        talkers = cycle(clients)
        said: Counter[FakeClient] = Counter()

        async def talk() -> None:
            client = next(talkers)
            said[client] += 1
            await client.utterance(said[client] - 1)

        def refused() -> int:
            return sum(len(complaints_of(client)) for client in clients)

        async def twice_as_much_comes(node: FakeNode, job: Frame) -> None:
            await a_moment_later(node, job)
            if refused() < 50:
                await talk()
                await talk()

        waits_over_before = waits_over()
        node = await peers.node(twice_as_much_comes, max_concurrent_jobs=SLOTS)
        for _ in range(SLOTS):
            await talk()
        await until(lambda: refused() >= 50, within_s=40)
        await until(lambda: sum(len(outcomes_of(client)) for client in clients) == said.total(), within_s=40)

        for client in clients:
            assert set(complaints_of(client)) <= {"ALL_CANDIDATES_FULL_OR_FAILED"}
            assert [outcome["utterance_index"] for outcome in outcomes_of(client)] == list(range(said[client]))
        # Nobody was let in and waited for nothing.
        assert waits_over() == waits_over_before
        assert len(node.jobs) == said.total() - refused()


def outcomes_of(client: FakeClient) -> list[Frame]:
    return [frame for frame in client.socket.heard if frame["type"] in ("translation_result", "missing_result")]


def complaints_of(client: FakeClient) -> list[str]:
    return [event["error_code"] for event in client.socket.of_type("ui_event") if event["event"] == "ERROR"]


def waits_over() -> float:
    return metrics.REGISTRY.get_sample_value("lingua_job_dispatches_total", {"outcome": "wait_over"}) or 0.0
