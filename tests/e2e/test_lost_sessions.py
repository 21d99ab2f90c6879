"""A session whose record Redis has lost goes on, and is written again; a quiet one keeps its record."""

import asyncio
from functools import partial
from itertools import count

import pytest

from lingua_scheduler.services.sessions import session_records
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import metrics
from tests.support.peers import FakeClient, FakeNode, Frame, answer, field, heartbeat
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.speech import PACKET
from tests.support.waiting import until

OPUS = PACKET * 10


class Streamer:
    """Sends chunk after chunk, and cuts an utterance now and then, until told to stop."""

    def __init__(self, client: FakeClient) -> None:
        self.client = client
        self.said = 0
        self.enough = asyncio.Event()
        self.task = asyncio.create_task(self._talk())

    async def _talk(self) -> None:
        for number in count(1):
            await self.client.chunk(OPUS, is_final=number % 3 == 0)
            self.said += number % 3 == 0
            if number % 3 == 0 and self.enough.is_set():
                return
            await asyncio.sleep(0.02)

    async def hear_out(self) -> list[Frame]:
        self.enough.set()
        await self.task
        await until(lambda: len(self.outcomes) >= self.said, 15)
        return self.outcomes

    @property
    def outcomes(self) -> list[Frame]:
        return [*self.client.socket.of_type("translation_result"), *self.client.socket.of_type("missing_result")]


async def has_record(store: Store, client: FakeClient) -> bool:
    return bool(await store.line.call("EXISTS", store.keys.session(client.session_id)))


async def test_streaming_sessions_outlive_the_loss_of_all_data_and_can_be_resumed_elsewhere(
    server: RedisProcess,
) -> None:
    async with (
        scheduler_on(server.url, instances__beat_ms=200, sessions__hangover_manual_ms=0) as (scheduler, store),
        scheduler_on(server.url, instances__beat_ms=200, sessions__hangover_manual_ms=0) as (other, _),
        field(scheduler.port) as peers,
        field(other.port) as elsewhere,
    ):
        node = await peers.node()
        streams = [Streamer(await peers.client()) for _ in range(5)]
        await until(lambda: all(len(stream.outcomes) >= 2 for stream in streams))
        before = [len(stream.outcomes) for stream in streams]
        server.flush()
        await node.socket.send(heartbeat(node.node_id))
        await until(lambda: all(len(s.outcomes) >= b + 3 for s, b in zip(streams, before, strict=True)), 15)
        for stream in streams:
            outcomes = await stream.hear_out()
            indices = [outcome["utterance_index"] for outcome in outcomes]
            assert sorted(indices) == list(range(stream.said))
            assert not stream.client.socket.socket.closed
            # Its record is there again: it is claimed at the other instance with its token.
            await until(partial(has_record, store, stream.client))
            again = FakeClient(await elsewhere.socket("/ws/session"))
            await again.init(
                resume_token=stream.client.ack["resume_token"], last_utterance_index=max(indices, default=None)
            )
            assert again.ack.get("resumed") is True, again.ack
            assert again.session_id == stream.client.session_id


async def test_a_session_that_is_quiet_for_longer_than_its_record_is_kept_keeps_its_next_utterance(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_records, "KEEP_MS", 1_500)
    async with scheduler_on(server.url) as (scheduler, store), field(scheduler.port) as peers:
        await peers.node()
        client = await peers.client()
        await asyncio.sleep(2.5)  # there is no other way to let it pass
        assert await has_record(store, client)
        await client.chunk(OPUS, is_final=True)
        assert (await client.outcome())["type"] == "translation_result"


async def test_an_utterance_under_way_gets_its_outcome_though_the_record_vanishes(
    server: RedisProcess,
) -> None:
    go_on = asyncio.Event()

    async def later(node: FakeNode, job: Frame) -> None:
        await go_on.wait()
        await answer(node, job)

    async with (
        scheduler_on(server.url, sessions__hangover_manual_ms=0) as (scheduler, store),
        field(scheduler.port) as peers,
    ):
        node = await peers.node(later)
        client = await peers.client()
        await client.chunk(OPUS, is_final=True)
        await until(lambda: node.jobs)
        restored = metrics.SESSIONS_RESTORED._value.get()
        await store.line.call("DEL", store.keys.session(client.session_id))
        # The next cut is what is written down, and finds nothing there.
        await client.chunk(OPUS, is_final=True)
        await until(lambda: has_record(store, client))
        go_on.set()
        assert [(await client.outcome())["utterance_index"] for _ in range(2)] == [0, 1]
        assert metrics.SESSIONS_RESTORED._value.get() > restored


async def test_what_is_parked_for_a_client_that_is_away_survives_the_loss_of_its_record(server: RedisProcess) -> None:
    go_on = asyncio.Event()

    async def later(node: FakeNode, job: Frame) -> None:
        await go_on.wait()
        await answer(node, job)

    async with (
        scheduler_on(server.url) as (scheduler, store),
        scheduler_on(server.url) as (other, _),
        field(scheduler.port) as peers,
        field(other.port) as elsewhere,
    ):
        node = await peers.node(later)
        client = await peers.client()
        await client.chunk(OPUS, is_final=True)
        await until(lambda: node.jobs)
        await client.socket.close()
        await store.line.call("DEL", store.keys.session(client.session_id))
        go_on.set()
        await until(lambda: store.line.call("EXISTS", store.keys.parked(client.session_id)))
        again = FakeClient(await elsewhere.socket("/ws/session"))
        await again.init(resume_token=client.ack["resume_token"])
        assert again.ack["resumed"] is True
        assert (await again.outcome())["utterance_index"] == 0


async def test_lost_records_of_sessions_that_say_nothing_are_written_again_soon(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, store), field(scheduler.port) as peers:
        clients = [await peers.client() for _ in range(12)]
        await store.line.call("DEL", *(store.keys.session(client.session_id) for client in clients))
        for client in clients:
            await until(partial(has_record, store, client), 15)
