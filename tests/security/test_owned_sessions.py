"""Attacks D56, D58 and D60: a session belongs to who opened it."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any

import aiohttp
import pytest

from lingua_sdk.protocol import binary
from tests.support.peers import FakeClient, Field, Frame, answer, field, stay_silent
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

PCM16 = b"\x00\x20" * 1_600


@asynccontextmanager
async def field_from(address: str, port: int) -> AsyncIterator[Field]:
    """Peers that come from another address of this machine."""
    connector = aiohttp.TCPConnector(limit=0, local_addr=(address, 0))
    async with aiohttp.ClientSession(connector=connector) as http:
        peers = Field(http, port)
        try:
            yield peers
        finally:
            await peers.close()


def frames_naming(session_id: str) -> list[Frame | bytes]:
    utterance = {"utterance_index": 77, "manual_cut": True, "src_lang": "en", "tgt_lang": "zh", "audio": "AAAA"}
    playing = {"trace_id": "t", "group_id": "g"}
    frames: list[dict[str, Any]] = [
        {"type": "client_heartbeat", "timestamp": 1},
        {"type": "audio_chunk", "seq": 77, "is_final": True, "payload": "AAAA"},
        {"type": "utterance", "audio_format": "pcm16", "sample_rate": 16_000} | utterance,
        {"type": "tts_started", "ts_start_ms": 1} | playing,
        {"type": "tts_play_ended", "ts_end_ms": 1} | playing,
        {"type": "session_close", "reason": "mine now"},
    ]
    named: list[Frame | bytes] = [frame | {"session_id": session_id} for frame in frames]
    chunk = binary.encode_audio_chunk(session_id, 77, 0, PCM16, is_final=True)
    return [*named, chunk, binary.encode_final(session_id, 78, 0)]


async def refusals(client: FakeClient, frames: list[Frame | bytes]) -> list[str]:
    """What a socket that has a session of its own hears of another's."""
    heard = []
    for frame in frames:
        await (client.socket.socket.send_bytes(frame) if isinstance(frame, bytes) else client.socket.send(frame))
        error = await client.socket.next("error")
        heard.append(f"{error['code']} {error['message']}")
    return heard


async def time_of(client: FakeClient, index: int) -> float:
    began = perf_counter()
    await client.utterance(index)
    assert (await client.socket.next("translation_result", "missing_result"))["utterance_index"] == index
    return perf_counter() - began


async def test_d56_a_stranger_who_names_a_live_session_gets_nothing_and_its_client_notices_nothing(
    server: RedisProcess,
) -> None:
    async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as peers:
        await peers.node()
        victim, stranger = await peers.client(), await peers.client()
        before = [await time_of(victim, index) for index in range(5)]
        during = []
        told = set()
        for index in range(5, 10):
            attack = asyncio.create_task(refusals(stranger, frames_naming(victim.session_id)))
            during.append(await time_of(victim, index))
            told |= set(await attack)
        print(f"before {min(before) * 1e3:.1f} ms, during {min(during) * 1e3:.1f} ms: x{min(during) / min(before):.1f}")
        # One answer for all, the same as for an id that nobody has.
        assert told == set(await refusals(stranger, frames_naming("s-0123456789ABCDEF")[:1]))
        assert "INVALID_SESSION" in told.pop()
        foreign = [frame for frame in stranger.socket.heard if victim.session_id in str(frame)]
        assert foreign == []
        assert not victim.socket.of_type("error")


async def test_d56_from_elsewhere_a_session_whose_socket_is_gone_is_resumed_with_its_token_alone(
    server: RedisProcess,
) -> None:
    async with (
        scheduler_on(server.url) as (scheduler, _),
        field(scheduler.port) as peers,
        field_from("127.0.0.2", scheduler.port) as elsewhere,
    ):
        node = await peers.node(stay_silent)
        victim, stranger = await peers.client(), await elsewhere.client()
        await victim.utterance(0)
        await until(lambda: node.jobs)
        victim.socket.cut()
        session = scheduler._intake._sessions.find(victim.session_id)
        await until(lambda: session is not None and session.peer is None)
        await answer(node, node.jobs[0])
        assert len(set(await refusals(stranger, frames_naming(victim.session_id)))) == 1
        again = FakeClient(await elsewhere.socket("/ws/session"))
        await again.init(resume_token=victim.ack["resume_token"])
        assert again.session_id == victim.session_id
        assert (await again.outcome())["utterance_index"] == 0


@pytest.mark.parametrize("count", [1, 2], ids=["one instance", "two instances"])
async def test_d58_the_gateway_finds_its_session_by_id_from_its_own_address_alone(
    server: RedisProcess, count: int
) -> None:
    async with scheduler_on(server.url) as (first, _), scheduler_on(server.url) as (second, _):
        there = second if count == 2 else first
        async with (
            field(first.port) as peers,
            field(there.port) as near,
            field_from("127.0.0.2", there.port) as strangers,
        ):
            node = await near.node()
            opened = await peers.client(platform="api-gateway")
            opened.socket.cut()
            stranger = FakeClient(await strangers.socket("/ws/session"))
            stranger.session_id = opened.session_id
            await stranger.utterance(0)
            assert (await stranger.socket.next("error"))["code"] == "INVALID_SESSION"
            assert await stranger.socket.closed() == 1013
            assert node.jobs == []
            for index in range(3):
                asks = FakeClient(await near.socket("/ws/session"))
                asks.session_id = opened.session_id
                await asks.utterance(index)
                assert (await asks.outcome())["utterance_index"] == index
                asks.socket.cut()


@pytest.mark.parametrize("count", [1, 2], ids=["one instance", "two instances"])
async def test_d56_a_gateway_session_with_a_live_socket_is_not_found_by_id(server: RedisProcess, count: int) -> None:
    async with scheduler_on(server.url) as (first, _), scheduler_on(server.url) as (second, _):
        there = second if count == 2 else first
        async with field(first.port) as peers, field(there.port) as near:
            node = await peers.node(stay_silent)
            owner = await peers.client(platform="api-gateway")
            await owner.utterance(0)
            await until(lambda: node.jobs)
            other = FakeClient(await near.socket("/ws/session"))
            other.session_id = owner.session_id
            await other.utterance(1)
            assert (await other.socket.next("error"))["code"] == "INVALID_SESSION"
            assert await other.socket.closed() == 1013
            await answer(node, node.jobs[0])
            assert (await owner.outcome())["utterance_index"] == 0


async def test_a_gateway_goes_on_by_id_after_the_instance_of_its_socket_died(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, store), field(scheduler.port) as peers:
        await peers.node()
        opened = await peers.client(platform="api-gateway")
        record = store.keys.session(opened.session_id)
        session = scheduler._intake._sessions.find(opened.session_id)
        assert session is not None
        # As if another instance had held it, and had not lived to tell that its socket is gone.
        scheduler._records._held.pop(opened.session_id)
        scheduler._intake._sessions.drop(session)
        await store.line.call("HSET", record, "owner", "i-dead 1")
        asks = FakeClient(await peers.socket("/ws/session"))
        asks.session_id = opened.session_id
        await asks.utterance(0)
        assert (await asks.outcome())["type"] == "translation_result"


async def test_d60_ten_ids_that_are_not_its_own_close_a_socket(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as peers:
        await peers.node()
        honest, guesser = await peers.client(), await peers.client()

        async def guess(number: int) -> None:
            named = {"session_id": f"s-{number:016X}", "timestamp": 1}
            await guesser.socket.send({"type": "client_heartbeat"} | named)

        # A client that has lost its session may say so often.
        for _ in range(30):
            await guess(0)
        for number in range(1, 9):
            await guess(number)
        await time_of(guesser, 0)
        assert len(guesser.socket.of_type("error")) == 38
        await guess(9)
        assert await guesser.socket.closed() == 4007
        await time_of(honest, 0)
        again = FakeClient(await peers.socket("/ws/session"))
        await again.init(resume_token=guesser.ack["resume_token"])
        assert again.session_id == guesser.session_id


async def test_session_ids_are_not_to_be_guessed_nor_listed(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as peers:
        await peers.node()
        clients = [await peers.client() for _ in range(3)]
        for client in clients:
            assert re.fullmatch(r"s-[0-9A-F]{16}", client.session_id)
            await time_of(client, 0)
        listed = await peers.ask("GET", "/v1/jobs")
        told = [
            listed,
            *[
                await peers.get(f"/v1/jobs/{job['job_id']}{more}")
                for job in listed[1]["jobs"]
                for more in ("", "/explain")
            ],
        ]
        told += [await peers.get(path) for path in ("/v1/nodes", "/v1/status", "/api/v1/stats", "/api/v1/cluster")]
        assert not [client.session_id for client in clients if client.session_id in str(told)]
        # By its id, or by as much of it as is shown, the jobs of a session are still found.
        mine = clients[1].session_id
        for wanted in (mine, f"{mine[:10]}…"):
            (job,) = (await peers.ask("GET", "/v1/jobs", params={"session_id": wanted}))[1]["jobs"]
            assert job["session_id"] == f"{mine[:10]}…"
