"""A few sockets must not take every place: limits of sessions, and of those who take a place and do nothing with it."""

import asyncio
from time import perf_counter
from typing import Any

import pytest

from lingua_scheduler.telemetry import metrics
from tests.support.peers import FakeClient, Field, Socket, field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

STRANGER, OTHER = "203.0.113.7", "203.0.113.8"


def closed(what: str) -> float:
    return float(metrics.IDLE_CLOSED.labels(what)._value.get())


async def from_address(peers: Field, address: str, **init: Any) -> FakeClient:
    """A client as the proxy in front of us names it."""
    url = f"ws://127.0.0.1:{peers.port}/ws/session"
    socket = Socket(await peers._http.ws_connect(url, headers={"X-Forwarded-For": address}))
    peers.sockets.append(socket)
    client = FakeClient(socket)
    await client.init(**init)
    return client


async def honest(peers: Field) -> None:
    client = await peers.client()
    await client.utterance(0)
    assert (await client.outcome())["type"] == "translation_result"


async def test_one_socket_opens_a_few_sessions_and_keeps_them(server: RedisProcess) -> None:
    async with scheduler_on(server.url, sessions__max_per_socket=3) as (scheduler, _), field(scheduler.port) as peers:
        await peers.node()
        greedy = await peers.client()
        first = greedy.session_id
        for _ in range(2):
            await greedy.init()
            assert greedy.ack["type"] == "session_init_ack"
        for _ in range(5):
            await greedy.init()
            assert (greedy.ack["type"], greedy.ack["code"]) == ("error", "INVALID_MESSAGE")
            assert "sessions.max_per_socket" in greedy.ack["message"]
        greedy.session_id = first
        await greedy.utterance(0)
        assert (await greedy.outcome())["type"] == "translation_result", "those that are open stay so"
        # One ends, one may begin; however often.
        for _ in range(10):
            await greedy.socket.send({"type": "session_close", "session_id": greedy.session_id, "reason": "done"})
            await greedy.socket.next("session_close_ack")
            await greedy.init()
            assert greedy.ack["type"] == "session_init_ack"
        await honest(peers)


async def test_sessions_that_are_opened_and_closed_in_turn_take_no_place_of_others(server: RedisProcess) -> None:
    async with scheduler_on(server.url, server__max_sessions=3) as (scheduler, _), field(scheduler.port) as peers:
        await peers.node()
        churning = await peers.client()
        for _ in range(8):
            assert churning.ack["type"] == "session_init_ack"
            await churning.socket.send({"type": "session_close", "session_id": churning.session_id, "reason": "done"})
            await churning.socket.next("session_close_ack")
            await churning.init()
        await honest(peers)


async def test_one_socket_opens_sessions_only_so_fast_and_nobody_waits_with_it(server: RedisProcess) -> None:
    few = {"sessions__max_opens_per_s": 3, "sessions__max_per_socket": 100}
    async with scheduler_on(server.url, **few) as (scheduler, _), field(scheduler.port) as peers:
        await peers.node()
        hasty, began_s = await peers.client(), perf_counter()
        init = {"type": "session_init", "client_version": "1", "platform": "web", "src_lang": "en", "tgt_lang": "zh"}
        for _ in range(14):
            await hasty.socket.send(init)
        await honest(peers)
        honest_s = perf_counter() - began_s
        for _ in range(14):
            await hasty.socket.next("session_init_ack")
        took_s = perf_counter() - began_s
        print(f"15 sessions of one socket took {took_s:.2f} s, an honest one beside it {honest_s:.2f} s")
        assert took_s > 0.7, "twelve at once, then three a second"


async def test_one_address_has_a_limit_of_sessions_also_of_those_without_a_socket(server: RedisProcess) -> None:
    few = {"auth__mode": "off", "server__trusted_proxies": ["127.0.0.1"], "sessions__max_per_address": 5}
    async with scheduler_on(server.url, **few) as (scheduler, _), field(scheduler.port) as peers:
        await peers.node()
        clients = [await from_address(peers, STRANGER) for _ in range(5)]
        for client in clients[:3]:
            client.socket.drop()
        refused = await from_address(peers, STRANGER)
        assert refused.ack["code"] == "NODE_OVERLOADED"
        assert "sessions.max_per_address" in refused.ack["message"]
        assert await refused.socket.closed() == 1013
        # Who comes back takes no place more, and whoever is elsewhere is not concerned.
        again = await from_address(peers, STRANGER, resume_token=clients[0].ack["resume_token"])
        assert again.ack["resumed"]
        assert (await from_address(peers, OTHER)).ack["type"] == "session_init_ack"
        await honest(peers)
        await again.socket.send({"type": "session_close", "session_id": again.session_id, "reason": "done"})
        await again.socket.next("session_close_ack")
        assert (await from_address(peers, STRANGER)).ack["type"] == "session_init_ack"


async def test_many_at_once_get_no_more_than_the_limit(server: RedisProcess) -> None:
    few = {"auth__mode": "off", "server__trusted_proxies": ["127.0.0.1"], "sessions__max_per_address": 5}
    async with scheduler_on(server.url, **few) as (scheduler, _), field(scheduler.port) as peers:
        clients = await asyncio.gather(*(from_address(peers, STRANGER) for _ in range(20)))
        assert sum(client.ack["type"] == "session_init_ack" for client in clients) == 5


@pytest.mark.parametrize("way", ["never a session", "its session is over"])
async def test_a_socket_without_a_session_is_closed(server: RedisProcess, way: str) -> None:
    before = closed("socket")
    async with scheduler_on(server.url, sessions__idle_socket_ms=400) as (scheduler, _), field(scheduler.port) as peers:
        talking = await peers.client()
        if way == "never a session":
            idle = await peers.socket("/ws/session")
        else:
            client = await peers.client()
            idle = client.socket
            await asyncio.sleep(0.3)
            await idle.send({"type": "session_close", "session_id": client.session_id, "reason": "done"})
            await idle.next("session_close_ack")
        assert await idle.closed() == 1013
        assert closed("socket") == before + 1
        await asyncio.sleep(0.7)
        assert not talking.socket.socket.closed


async def test_a_session_in_which_nothing_is_said_gives_its_place_back(server: RedisProcess) -> None:
    before = closed("session")
    async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as peers:
        await peers.node()
        silent, talking = await peers.client(), await peers.client()
        for session in scheduler._intake._sessions.all:
            session.spoke_at_s -= 5 * 3_600
        # Signs of life and silence are no speech.
        await silent.chunk(bytes(640))
        await silent.socket.send({"type": "client_heartbeat", "session_id": silent.session_id, "timestamp": 1})
        await silent.socket.next("server_heartbeat")
        await talking.utterance(0)
        assert (await talking.outcome())["type"] == "translation_result"
        await scheduler._intake.openings.close_idle()
        assert await silent.socket.closed() == 1013
        assert closed("session") == before + 1
        again = await peers.client(resume_token=silent.ack["resume_token"])
        assert again.session_id not in ("", silent.session_id), "its client begins anew"
        await talking.utterance(1)
        assert (await talking.outcome())["type"] == "translation_result"


async def test_places_are_given_back_whatever_becomes_of_a_session(server: RedisProcess) -> None:
    few = {
        "auth__mode": "off",
        "server__trusted_proxies": ["127.0.0.1"],
        "sessions__max_per_address": 3,
        "sessions__grace_ms": 50,
    }
    async with scheduler_on(server.url, **few) as (scheduler, _), field(scheduler.port) as peers:
        for round_ in range(4):
            clients = [await from_address(peers, STRANGER) for _ in range(3)]
            assert {client.ack["type"] for client in clients} == {"session_init_ack"}, round_
            refused = await from_address(peers, STRANGER, src_lang="x" * 99)
            assert refused.ack["type"] == "error"
            for client in clients:
                client.socket.drop()
            await until(lambda: not len(scheduler._intake._sessions))
        assert not scheduler._intake._sessions._of_address
