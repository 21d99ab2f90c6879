"""A client whose instance is gone goes on elsewhere: nothing is lost, nothing is heard twice."""

import asyncio
import base64
import json
from functools import partial
from pathlib import Path

import pytest

from lingua_scheduler.store.store import Store
from tests.support.peers import FakeClient, Field, answer, field, stay_silent
from tests.support.schedulers import scheduler_on, serve_process
from tests.support.servers import RedisProcess
from tests.support.speech import PACKET, packet_of
from tests.support.waiting import until

OPUS = PACKET * 20


def letter(text: str) -> bytes:
    """A packet of audio that can be recognised."""
    return packet_of(text)


async def moved(peers: Field, client: FakeClient, last: int | None) -> FakeClient:
    """The same client, come to another instance with its token."""
    return await peers.client(resume_token=client.ack["resume_token"], last_utterance_index=last)


async def test_a_session_goes_on_at_another_instance_with_its_id_languages_and_numbers(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (a, _), scheduler_on(server.url) as (b, _):
        async with field(a.port) as at_a, field(b.port) as at_b:
            node_a = await at_a.node()
            client = await at_a.client(src_lang="en", tgt_lang="zh", trace_id="tr-1")
            await client.chunk(OPUS, is_final=True)
            await client.outcome()
            await node_a.stop()
            node_b = await at_b.node()
            client.socket.cut()
            again = await moved(at_b, client, 0)
            assert again.ack["resumed"]
            assert (again.session_id, again.ack["trace_id"]) == (client.session_id, "tr-1")
            assert (again.ack["next_seq"], again.ack["next_utterance_index"]) == (1, 1)
            again._seq = 1
            await again.chunk(OPUS, is_final=True)
            outcome = await again.outcome()
            assert (outcome["type"], outcome["utterance_index"]) == ("translation_result", 1)
            # The nodes know it under another name: one may have seen these numbers already.
            assert node_b.jobs[0]["session_id"] == f"{client.known_as(node_b.node_id)}-2"


async def test_speech_that_was_not_cut_yet_is_asked_for_again(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (a, _), scheduler_on(server.url) as (b, _):
        async with field(a.port) as at_a, field(b.port) as at_b:
            node = await at_b.node()
            client = await at_a.client()
            for word in "ab":
                await client.chunk(letter(word))
            await client.socket.send({"type": "client_heartbeat", "session_id": client.session_id, "timestamp": 1})
            await client.socket.next("server_heartbeat")
            client.socket.cut()
            again = await moved(at_b, client, None)
            assert again.ack["next_seq"] == 0
            for word in "abc":
                await again.chunk(letter(word))
            await again.chunk(is_final=True)
            await again.outcome()
            assert base64.b64decode(node.jobs[0]["audio"]) == letter("a") + letter("b") + letter("c")


async def test_a_first_utterance_without_an_outcome_is_asked_for_again(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (a, _), scheduler_on(server.url) as (b, store):
        async with field(a.port) as at_a, field(b.port) as at_b:
            silent = await at_a.node(stay_silent)
            client = await at_a.client()
            await client.chunk(OPUS, is_final=True)
            await until(lambda: silent.jobs)
            await until(lambda: store.line.call("HGET", store.keys.session(client.session_id), "cuts"))
            client.socket.cut()
            # It has heard nothing, so there is no last outcome it could name.
            again = await moved(at_b, client, None)
            assert (again.ack["next_seq"], again.ack["next_utterance_index"]) == (0, 0)
            # Not before: the first instance would have an outcome, and park it.
            await silent.stop()
            await at_b.node()
            await again.chunk(OPUS, is_final=True)
            outcome = await again.outcome()
            assert (outcome["type"], outcome["utterance_index"]) == ("translation_result", 0)


async def test_outcomes_that_came_while_the_client_was_away_wait_for_it_everywhere(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (a, store), scheduler_on(server.url) as (b, _):
        async with field(a.port) as at_a, field(b.port) as at_b:
            node = await at_a.node(stay_silent)
            client = await at_a.client()
            await client.chunk(OPUS, is_final=True)
            await until(lambda: node.jobs)
            await client.socket.close()
            await answer(node, node.jobs[0])
            parked = store.keys.parked(client.session_id)
            await until(lambda: store.line.call("EXISTS", parked))
            again = await moved(at_b, client, None)
            outcome = await again.outcome()
            assert (outcome["type"], outcome["utterance_index"]) == ("translation_result", 0)
            assert again.ack["next_utterance_index"] == 1
            assert len(node.jobs) == 1  # nothing is translated twice


async def test_the_instance_the_client_left_lets_go_of_it(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (a, _), scheduler_on(server.url) as (b, _):
        async with field(a.port) as at_a, field(b.port) as at_b:
            node = await at_a.node(stay_silent)
            client = await at_a.client()
            await client.chunk(OPUS, is_final=True)
            await until(lambda: node.jobs)
            again = await moved(at_b, client, None)  # its old socket still looks alive
            assert again.ack["resumed"]
            await client.chunk(OPUS, is_final=True)  # and somebody speaks on it
            assert await client.socket.closed() == 4001


async def test_a_token_with_a_wrong_secret_opens_a_session_of_its_own(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (a, _), scheduler_on(server.url) as (b, _):
        async with field(a.port) as at_a, field(b.port) as at_b:
            client = await at_a.client()
            thief = await at_b.client(resume_token=f"{client.session_id}.guessed")
            assert "resumed" not in thief.ack
            assert thief.session_id != client.session_id


# To another instance and back, while the first still has what it knew


async def has_noted(store: Store, client: FakeClient, index: int) -> bool:
    """Whether the utterance of this number is written down as the last one."""
    cuts = json.loads(await store.line.call("HGET", store.keys.session(client.session_id), "cuts") or "[]")
    return bool(cuts) and cuts[-1][0] == index


async def test_a_client_that_comes_back_goes_on_where_it_was_elsewhere(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (a, store), scheduler_on(server.url) as (b, _):
        async with field(a.port) as at_a, field(b.port) as at_b:
            await at_a.node()
            client = await at_a.client()
            for index, peers in enumerate((at_a, at_b, at_a)):
                if index:
                    client.socket.cut()
                    client = await moved(peers, client, index - 1)
                    assert client.ack["resumed"]
                    assert (client.ack["next_seq"], client.ack["next_utterance_index"]) == (index, index)
                client._seq = index
                await client.chunk(OPUS, is_final=True)
                outcome = await client.outcome()
                assert (outcome["type"], outcome["utterance_index"]) == ("translation_result", index)
                await until(partial(has_noted, store, client, index))


async def ask(peers: Field, session_id: str, index: int) -> FakeClient:
    """As the API gateway does it: an utterance on a socket of its own, for a session that is known by its id."""
    client = FakeClient(await peers.socket("/ws/session"))
    client.session_id = session_id
    await client.utterance(index)
    return client


async def leave(store: Store, client: FakeClient) -> None:
    """Drop the socket, and wait until every instance can know."""
    client.socket.cut()
    record = store.keys.session(client.session_id)

    async def is_away() -> bool:
        return bool(await store.line.call("HGET", record, "away") == "1")

    await until(is_away)


async def test_the_gateway_may_go_from_one_instance_to_the_other_and_back(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (a, store), scheduler_on(server.url) as (b, _):
        async with field(a.port) as at_a, field(b.port) as at_b:
            await at_a.node()
            opened = await at_a.client(platform="api-gateway")
            await leave(store, opened)
            for index, peers in enumerate((at_a, at_b, at_a, at_b, at_b, at_a)):
                client = await ask(peers, opened.session_id, index)
                outcome = await client.outcome()
                assert (outcome["type"], outcome["utterance_index"]) == ("translation_result", index)
                await leave(store, client)


async def test_while_the_gateway_waits_elsewhere_nobody_speaks_for_its_session_here(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (a, store), scheduler_on(server.url) as (b, _):
        async with field(a.port) as at_a, field(b.port) as at_b:
            node = await at_a.node(stay_silent)
            opened = await at_a.client(platform="api-gateway")
            await leave(store, opened)
            waiting = await ask(at_b, opened.session_id, 0)
            await until(lambda: node.jobs)
            refused = await ask(at_a, opened.session_id, 1)
            assert (await refused.outcome())["code"] == "INVALID_SESSION"
            assert await refused.socket.closed() == 1013
            await answer(node, node.jobs[0])
            assert (await waiting.outcome())["type"] == "translation_result"
            assert len(node.jobs) == 1


@pytest.mark.parametrize("signal", ["kill", "terminate"])
async def test_when_an_instance_dies_its_client_says_again_what_was_not_heard(
    tmp_path: Path, server: RedisProcess, signal: str
) -> None:
    arguments = ("--redis-url", server.url, "--set", "server.stop_timeout_ms=200")
    async with serve_process(tmp_path, *arguments) as dying, scheduler_on(server.url) as (b, _):
        await until(lambda: dying.port, 60)
        async with field(dying.port) as at_a, field(b.port) as at_b:
            node = await at_a.node(stay_silent)
            client = await at_a.client()
            await client.chunk(letter("a"), is_final=True)  # seq 0
            await until(lambda: node.jobs)
            await answer(node, node.jobs[0])
            await client.outcome()
            await client.chunk(letter("b"), is_final=True)  # seq 1: never answered
            await until(lambda: len(node.jobs) == 2)
            await client.chunk(letter("c"))  # seq 2: never cut
            await asyncio.sleep(0)
            getattr(dying.process, signal)()
            await client.socket.closed()
            other = await at_b.node()
            again = await moved(at_b, client, 0)
            assert again.ack["next_seq"] == 1
            again._seq = 1
            await again.chunk(letter("b"), is_final=True)
            assert (await again.outcome())["utterance_index"] == 1
            await again.chunk(letter("c"), is_final=True)
            assert (await again.outcome())["utterance_index"] == 2
            assert [base64.b64decode(job["audio"]) for job in other.jobs] == [letter("b"), letter("c")]
