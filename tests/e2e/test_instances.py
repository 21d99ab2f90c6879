"""Two instances on one Redis are one scheduler: sessions here, nodes there, and nobody can tell."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.services.cluster.presence import IdTaken
from lingua_scheduler.store.pools.pools import Pools
from lingua_scheduler.store.store import Store
from tests.support.peers import (
    FakeNode,
    Field,
    Frame,
    Work,
    answer,
    field,
    heartbeat,
    registration,
    result_of,
    stay_silent,
)
from tests.support.schedulers import scheduler_on, serve_process
from tests.support.servers import RedisProcess
from tests.support.speech import PACKET
from tests.support.waiting import until

OPUS = PACKET * 20
# An instance that is held up for a second on a busy machine is not dead yet.
QUICK = {"instances__beat_ms": 100, "instances__dead_ms": 1_500}


class Pair(NamedTuple):
    a: Field
    b: Field
    store: Store
    schedulers: tuple[Scheduler, Scheduler]

    async def node_at_b(self, work: Work = answer, **registration: Any) -> FakeNode:
        """A node over there, of which both have heard."""
        node = await self.b.node(work, **registration)
        for scheduler in self.schedulers:
            await until(partial(knows, scheduler))
        return node


def knows(scheduler: Scheduler) -> bool:
    return "en:zh:speech" in scheduler._pool_map.map


@asynccontextmanager
async def two(server: RedisProcess, **changes: Any) -> AsyncIterator[Pair]:
    async with scheduler_on(server.url, **changes) as (a, store), scheduler_on(server.url, **changes) as (b, _):
        async with field(a.port) as at_a, field(b.port) as at_b:
            yield Pair(at_a, at_b, store, (a, b))


@pytest.fixture
async def pair(server: RedisProcess) -> AsyncIterator[Pair]:
    async with two(server) as both:
        yield both


async def ledger_is_empty(store: Store) -> bool:
    keys = store.keys.shard(0)
    leases, held = await asyncio.gather(
        store.line.call("ZCARD", keys.leases), store.line.call("ZRANGE", keys.held, 0, -1)
    )
    return bool(leases == 0 and held == [])


async def test_a_session_here_is_served_by_a_node_there(pair: Pair) -> None:
    node = await pair.node_at_b()
    client = await pair.a.client()
    await client.chunk(OPUS, is_final=True)
    outcome = await client.outcome()
    assert (outcome["type"], outcome["job_id"]) == ("translation_result", node.jobs[0]["job_id"])
    assert outcome["text_asr"] == f"heard {client.known_as(node.node_id)} 0"
    await until(lambda: ledger_is_empty(pair.store))


async def test_everybody_is_served_by_everybody_in_order(pair: Pair) -> None:
    nodes = [await pair.node_at_b(max_concurrent_jobs=5) for _ in range(2)]
    nodes.append(await pair.a.node(max_concurrent_jobs=5))
    clients = [await peers.client() for peers in (pair.a, pair.b) for _ in range(5)]
    for index in range(10):
        for client in clients:
            await client.utterance(index)
    for client in clients:
        results = [await client.outcome() for _ in range(10)]
        assert [(result["type"], result["utterance_index"]) for result in results] == [
            ("translation_result", index) for index in range(10)
        ]
        names = {client.known_as(node.node_id) for node in nodes}
        heard = [result["text_asr"].split() for result in results]
        assert [(name in names, index) for _, name, index in heard] == [(True, str(n)) for n in range(10)]
    assert all(node.jobs for node in nodes)
    assert all(node.most_at_once <= 5 for node in nodes)
    await until(lambda: ledger_is_empty(pair.store))


async def test_acknowledgement_and_partials_of_a_node_there_reach_the_speaker_here(pair: Pair) -> None:
    node = await pair.node_at_b(stay_silent, advanced_features=["job_ack"])
    client = await pair.a.client()
    await client.utterance(0)
    job = await until(lambda: next(iter(node.jobs), None))
    about = {name: job[name] for name in ("job_id", "session_id", "trace_id")}
    await node.socket.send({"type": "job_ack", "attempt_id": 1, "node_id": node.node_id} | about)
    granted = await until(lambda: node.socket.of_type("job_grant"))
    assert granted[0]["verdict"] == "granted"
    await until(lambda: "NODE_ACCEPTED" in [event["event"] for event in client.socket.of_type("ui_event")])
    said = {"type": "asr_partial", "node_id": node.node_id, "utterance_index": 0, "text": "he", "is_final": False}
    await node.socket.send(said | about)
    heard = await client.socket.next("asr_partial")
    assert (heard["text"], heard["session_id"]) == ("he", client.session_id)
    await answer(node, job)
    assert (await client.outcome())["type"] == "translation_result"
    acked = await until(lambda: node.socket.of_type("result_ack"))
    assert acked[0]["job_id"] == job["job_id"]


async def test_a_node_there_that_dies_is_replaced_by_one_here_at_once(pair: Pair) -> None:
    dying = await pair.node_at_b(stay_silent)
    client = await pair.a.client()
    await client.utterance(0)
    await until(lambda: dying.jobs)
    other = await pair.a.node()
    dying.socket.cut()
    outcome = await client.outcome(within_s=3)
    assert (outcome["type"], len(other.jobs)) == ("translation_result", 1)
    assert other.jobs[0]["attempt_id"] == 2


async def test_a_node_there_that_refuses_is_not_asked_again(pair: Pair) -> None:
    async def refuse(node: FakeNode, job: Frame) -> None:
        error = {"code": "NODE_OVERLOADED", "message": "no"}
        await node.socket.send(result_of(job, node.node_id, success=False, error=error))

    refusing = await pair.node_at_b(refuse)
    client = await pair.a.client()
    other = await pair.a.node(max_concurrent_jobs=1)
    for index in range(6):
        await client.utterance(index)
    assert [(await client.outcome())["type"] for _ in range(6)] == ["translation_result"] * 6
    assert len(other.jobs) == 6
    assert len({job["job_id"] for job in refusing.jobs}) == len(refusing.jobs)


async def test_a_job_here_on_a_node_there_is_cancelled_from_anywhere(pair: Pair) -> None:
    node = await pair.node_at_b(stay_silent)
    client = await pair.a.client()
    await client.utterance(0)
    job = await until(lambda: next(iter(node.jobs), None))
    assert (await pair.b.post(f"/v1/jobs/{job['job_id']}/cancel"))[0] == 200
    assert (await client.outcome())["type"] == "missing_result"
    told = await until(lambda: node.socket.of_type("job_cancel"))
    assert told[0]["job_id"] == job["job_id"]
    await answer(node, job)  # too late
    await until(lambda: ledger_is_empty(pair.store))


async def test_a_node_that_hangs_there_loses_the_job_at_its_deadline(server: RedisProcess) -> None:
    async with two(server, job__timeout_base_ms=300, job__timeout_factor=0.0) as pair:
        hanging = await pair.node_at_b(stay_silent)
        client = await pair.a.client()
        await client.utterance(0)
        await until(lambda: hanging.jobs)
        await pair.a.node()
        assert (await client.outcome())["type"] == "translation_result"
        await until(lambda: hanging.socket.of_type("job_cancel"))


@pytest.mark.parametrize("is_here", [True, False])
async def test_a_node_that_asks_for_more_time_keeps_its_job_and_others_do_not(
    server: RedisProcess, is_here: bool
) -> None:
    async with two(server, job__timeout_base_ms=3_000, job__timeout_factor=0.0, job__max_retries=0) as pair:
        node = await (pair.a.node if is_here else pair.node_at_b)(stay_silent)
        patient, plain = await pair.a.client(), await pair.a.client()
        await patient.utterance(0)
        job = await until(lambda: next(iter(node.jobs), None))
        about = {name: job[name] for name in ("job_id", "attempt_id", "session_id", "trace_id")}
        await node.socket.send({"type": "job_started", "node_id": node.node_id, "extend_ms": 60_000} | about)
        # A job that comes later, without more time, ends first.
        await plain.utterance(0)
        assert (await plain.outcome())["type"] == "missing_result"
        given_up = [told["job_id"] for told in await until(lambda: node.socket.of_type("job_cancel"))]
        assert given_up == [node.jobs[1]["job_id"]]
        await answer(node, job)
        outcome = await patient.outcome()
        assert (outcome["type"], outcome["job_id"]) == ("translation_result", job["job_id"])
        await until(lambda: ledger_is_empty(pair.store))


async def test_a_slot_that_becomes_free_there_wakes_who_waits_here(pair: Pair) -> None:
    node = await pair.node_at_b(stay_silent, max_concurrent_jobs=1)
    at_b, at_a = await pair.b.client(), await pair.a.client()
    await at_b.utterance(0)
    await until(lambda: node.jobs)
    await at_a.utterance(0)
    await answer(node, node.jobs[0])
    await until(lambda: len(node.jobs) == 2)
    assert node.jobs[1]["session_id"] == at_a.known_as(node.node_id)


async def test_a_draining_node_is_drained_for_all(pair: Pair) -> None:
    node = await pair.node_at_b()
    assert (await pair.a.post(f"/v1/nodes/{node.node_id}/drain"))[0] == 200
    client = await pair.a.client()
    await client.utterance(0)
    assert (await client.outcome())["type"] == "missing_result"
    assert not node.jobs
    await pair.a.post(f"/v1/nodes/{node.node_id}/resume")
    await client.utterance(1)
    assert (await client.outcome())["type"] == "translation_result"


async def test_a_node_that_comes_back_to_another_instance_keeps_its_job(pair: Pair) -> None:
    """The same process, with what it runs: nothing is lost, and its result counts."""
    habits = {"advanced_features": ["job_ack"], "boot_id": "b1", "node_id": "mover", "max_concurrent_jobs": 2}
    node = await pair.node_at_b(stay_silent, running_job_ids=[], **habits)
    client = await pair.a.client()
    await client.utterance(0)
    job = await until(lambda: next(iter(node.jobs), None))
    moved = await pair.a.node(stay_silent, running_job_ids=[job["job_id"]], **habits)
    await moved.socket.send(heartbeat("mover", running_job_ids=[job["job_id"]]))
    await moved.socket.send(result_of(job, "mover"))
    assert (await client.outcome())["type"] == "translation_result"
    await moved.socket.send(heartbeat("mover", running_job_ids=[]))
    await until(lambda: ledger_is_empty(pair.store))


async def test_when_the_instance_of_a_node_dies_its_job_goes_elsewhere(tmp_path: Path, server: RedisProcess) -> None:
    quick = [f"--set={name.replace('__', '.')}={value}" for name, value in QUICK.items()]
    async with serve_process(tmp_path, "--redis-url", server.url, *quick) as dying:
        async with scheduler_on(server.url, **QUICK) as (a, store), field(a.port) as at_a:
            port = await until(lambda: dying.port, 60)
            async with field(port) as at_b:
                lost = await at_b.node(stay_silent)
                await until(partial(knows, a))
                client = await at_a.client()
                await client.utterance(0)
                await until(lambda: lost.jobs)
                other = await at_a.node()
                dying.process.kill()
                outcome = await client.outcome()
                assert (outcome["type"], other.jobs[0]["attempt_id"]) == ("translation_result", 2)
                # And nobody is sent to a node that hung on the dead.
                await client.utterance(1)
                assert (await client.outcome())["type"] == "translation_result"
                await until(lambda: ledger_is_empty(store))


async def test_one_of_the_instances_leads_and_the_other_takes_over(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (b, _), field(b.port) as at_b:
        async with scheduler_on(server.url) as (a, _), field(a.port) as at_a:
            _, seen = await at_a.get("/v1/pools")
            assert seen["leader"] == b.instance
            node = await at_a.node()  # a follower's node
            await until(partial(knows, b))
            client = await at_b.client()
            await client.utterance(0)
            assert (await client.outcome())["type"] == "translation_result"
            await node.stop()
        await at_b.node()
    async with scheduler_on(server.url) as (c, _), field(c.port) as at_c:

        async def leads() -> bool:
            _, seen = await at_c.get("/v1/pools")
            return bool(seen["leader"] == c.instance)

        await until(leads)


async def test_a_second_process_with_a_used_id_is_refused_before_it_touches_the_lease(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scheduler_on(server.url, server__instance_id="one", **QUICK) as (_, store):
        claimed: list[str] = []
        claim = Pools.claim

        async def noting(self: Pools, instance: str, lease_ms: int) -> Any:
            if self is not store.pools:
                claimed.append(instance)
            return await claim(self, instance, lease_ms)

        monkeypatch.setattr(Pools, "claim", noting)
        with pytest.raises(IdTaken):
            await scheduler_on(server.url, server__instance_id="one", **QUICK).__aenter__()
        assert claimed == []


async def test_another_process_with_a_node_id_that_answers_elsewhere_is_refused(pair: Pair) -> None:
    """The same id at two instances took the node from one another for ever, and its jobs with it."""
    first = await pair.node_at_b(node_id="node-TEST0001", boot_id="first")
    client = await pair.a.client()
    for index, boot_id in enumerate(("second", None)):
        second = await pair.a.socket("/ws/node")
        await second.send(registration(node_id="node-TEST0001", boot_id=boot_id))
        assert (await second.next("error"))["code"] == "NODE_ID_CONFLICT"
        assert await second.closed() == 1013
        await client.utterance(index)
        assert (await client.outcome())["type"] == "translation_result"
    assert (len(first.jobs), first.socket.socket.closed) == (2, False)


async def test_the_same_process_takes_its_node_to_another_instance_at_once(pair: Pair) -> None:
    first = await pair.node_at_b(node_id="node-TEST0001", boot_id="b")
    second = await pair.a.node(node_id="node-TEST0001", boot_id="b")
    assert await first.socket.closed() == 4001
    client = await pair.b.client()
    await client.utterance(0)
    assert (await client.outcome())["type"] == "translation_result"
    assert len(second.jobs) == 1


async def test_an_existing_node_cut_off_there_is_let_in_here_while_its_old_socket_hangs(pair: Pair) -> None:
    old = await pair.node_at_b(node_id="node-TEST0001")
    old.socket.fall_silent()
    began = monotonic()
    await pair.a.node(node_id="node-TEST0001")
    print(f"let in after {monotonic() - began:.1f} s")
    client = await pair.b.client()
    await client.utterance(0)
    assert (await client.outcome())["type"] == "translation_result"
    old.socket.drop()


async def test_an_existing_node_of_an_instance_that_was_killed_is_let_in_elsewhere(
    tmp_path: Path, server: RedisProcess
) -> None:
    beats = ("--set", "instances.beat_ms=200", "--set", "instances.dead_ms=60000")
    async with scheduler_on(server.url, instances__beat_ms=200, instances__dead_ms=60_000) as (here, _):
        async with field(here.port) as peers, serve_process(tmp_path, "--redis-url", server.url, *beats) as there:
            await until(lambda: there.port)
            async with field(there.port) as peers_there:
                await peers_there.node(node_id="node-TEST0001")
                there.process.kill()
                await there.process.wait()
                # Long before that instance counts as dead.
                await peers.node(node_id="node-TEST0001")


async def test_an_eviction_through_another_instance_closes_the_socket(pair: Pair) -> None:
    node = await pair.node_at_b(node_id="node-TEST0001")
    status, _ = await pair.a.post("/v1/nodes/node-TEST0001/evict")
    assert status == 200
    assert await node.socket.closed() == 1012
    await until(lambda: no_nodes(pair.store))


async def no_nodes(store: Store) -> bool:
    return await store.node_views.all() == []
