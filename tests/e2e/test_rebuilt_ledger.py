"""What nodes run is in the ledger again before they are given more: after lost data, and after a sweep that erred."""

import asyncio
from typing import Any

import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.services.dispatch.routes import Elsewhere, Here
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from tests.support.peers import FakeNode, Field, Frame, field, heartbeat, result_of
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

TELLS = {"running_job_ids": [], "heartbeat_interval_ms": 1_000}
KINDS = {"ours": TELLS, "existing": {}}


class Slow:
    """A node that works on until it may finish; each job is answered once."""

    def __init__(self) -> None:
        self.may_finish = asyncio.Event()

    async def __call__(self, node: FakeNode, job: Frame) -> None:
        await self.may_finish.wait()
        await node.socket.send(result_of(job, node.node_id))


async def show_life(node: FakeNode, kind: str) -> None:
    running = {"running_job_ids": [job["job_id"] for job in node.jobs]} if kind == "ours" else {}
    await node.socket.send(heartbeat(node.node_id, **running))


async def leases(store: Store) -> int:
    return int(await store.line.call("ZCARD", store.keys.shard(0).leases))


@pytest.mark.parametrize("kind", KINDS)
async def test_a_job_that_runs_when_redis_loses_its_data_keeps_its_slot(
    kind: str, server: RedisProcess, peers: Field, store: Store
) -> None:
    work = Slow()
    node = await peers.node(work, max_concurrent_jobs=1, **KINDS[kind])
    first, second = await peers.client(), await peers.client()
    await first.utterance(0)
    await until(lambda: node.running == 1)
    server.flush()
    await second.utterance(0)

    async def is_known_again() -> bool:
        return await leases(store) == 1

    await until(is_known_again)
    await show_life(node, kind)
    await asyncio.sleep(0.5)
    # It waits for the slot: it neither fails at once nor runs beside the other.
    assert (len(node.jobs), second.socket.of_type("missing_result")) == (1, [])
    work.may_finish.set()
    assert (await first.outcome())["type"] == "translation_result"
    assert (await second.outcome())["type"] == "translation_result"
    assert node.most_at_once == 1
    await until(lambda: leases_are(store, 0))


async def leases_are(store: Store, count: int) -> bool:
    return await leases(store) == count


@pytest.mark.parametrize("kind", KINDS)
async def test_a_node_that_was_swept_and_beats_again_gets_nothing_it_has_no_room_for(
    kind: str, server: RedisProcess, store: Store
) -> None:
    work = Slow()
    async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as peers:
        node = await peers.node(work, max_concurrent_jobs=1, **KINDS[kind])
        first, second = await peers.client(), await peers.client()
        await first.utterance(0)
        await until(lambda: node.running == 1)
        await sweep_away(scheduler, store, node)
        await show_life(node, kind)
        await until(lambda: leases_are(store, 1))
        await second.utterance(0)
        await asyncio.sleep(0.5)
        assert len(node.jobs) == 1
        work.may_finish.set()
        assert (await second.outcome())["type"] == "translation_result"
        assert node.most_at_once == 1


async def sweep_away(scheduler: Scheduler, store: Store, node: FakeNode) -> None:
    """As if nothing had been heard of it for long."""
    await store.line.call("ZADD", store.keys.shard(0).seen, 1, node.node_id)
    await scheduler.sweeper.sweep()
    assert await store.owners.known(0) == set()


async def test_what_was_adopted_holds_its_slot_as_long_as_the_node_reports_it(
    server: RedisProcess, store: Store
) -> None:
    work = Slow()
    async with scheduler_on(server.url, job__linger_ms=0) as (scheduler, _), field(scheduler.port) as peers:
        node = await peers.node(work, max_concurrent_jobs=1, **TELLS)
        client = await peers.client()
        await client.utterance(0)
        await until(lambda: node.running == 1)
        server.flush()
        await show_life(node, "ours")
        await until(lambda: leases_are(store, 1))
        before_ms = await deadline_ms(store)
        await show_life(node, "ours")

        async def is_renewed() -> bool:
            return await deadline_ms(store) > before_ms

        await until(is_renewed)
        work.may_finish.set()
        assert (await client.outcome())["type"] == "translation_result"
        await until(lambda: leases_are(store, 0))


async def test_a_slot_that_was_leased_when_the_connection_broke_is_free_when_redis_is_back(
    server: RedisProcess, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"dispatch__queue_wait_ms": 200}
    async with scheduler_on(server.url, **settings) as (scheduler, its_store), field(scheduler.port) as peers:
        node = await peers.node(max_concurrent_jobs=1)
        client = await peers.client()
        ask, is_away = its_store.jobs.dispatch, True

        async def dispatch(*question: Any) -> Any:
            reply = await ask(*question)
            if is_away:
                raise RedisAway("the connection broke")
            return reply

        monkeypatch.setattr(its_store.jobs, "dispatch", lambda *question: asyncio.ensure_future(dispatch(*question)))
        await client.utterance(0)
        assert (await client.failure())["error_code"] == "SCHEDULER_DEPENDENCY_DOWN"
        is_away = False
        # Long before its deadline.
        await until(lambda: leases_are(store, 0), 5)
        await client.utterance(1)
        assert (await client.socket.next("translation_result"))["utterance_index"] == 1
        assert len(node.jobs) == 1


async def deadline_ms(store: Store) -> float:
    (_, deadline) = await store.line.call("ZRANGE", store.keys.shard(0).leases, 0, -1, "WITHSCORES")
    return float(deadline)


@pytest.mark.parametrize("route", [Here, Elsewhere])
async def test_an_order_from_before_the_loss_of_data_does_not_reach_a_node_that_was_written_again_since(
    route: type[Here] | type[Elsewhere], server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its slot was leased, and Redis has forgotten that: the node would have more jobs than slots."""
    held, go_on, has_sent, send = asyncio.Event(), asyncio.Event(), asyncio.Event(), route.send

    async def slow_send(self: Any, *order: Any) -> bool:
        if held.is_set():
            return await send(self, *order)
        held.set()
        await go_on.wait()
        is_sent = await send(self, *order)
        has_sent.set()
        return is_sent

    monkeypatch.setattr(route, "send", slow_send)
    # What cannot be sent at once is sent by a task.
    monkeypatch.setattr(Here, "post", lambda *_: False)
    async with scheduler_on(server.url) as (here, store), scheduler_on(server.url) as (there, _):
        await here.presence.look()
        async with field(here.port) as peers, field(there.port) as others:
            work = Slow()
            node = await (peers if route is Here else others).node(work, max_concurrent_jobs=1)
            first, second = await peers.client(), await peers.client()
            await first.utterance(0)
            await held.wait()
            server.flush()
            # It is written again, and given another job.
            await second.utterance(0)
            await until(lambda: node.running == 1, within_s=30)
            go_on.set()
            await has_sent.wait()
            await until(lambda: has_read_all(store, there.instance))
            # Time to reach the node, if it was sent.
            await asyncio.sleep(0.1)
            work.may_finish.set()
            for client in (first, second):
                assert (await client.outcome(within_s=30))["type"] == "translation_result"
            assert node.most_at_once == 1


async def has_read_all(store: Store, instance: str) -> bool:
    return (await store.inboxes.depth(instance)).letters == 0
