"""A session outlives its socket: nothing lost, nothing twice."""

import asyncio

from tests.support.peers import FakeClient, FakeNode, Field, Frame, answer, stay_silent
from tests.support.speech import PACKET
from tests.support.waiting import until

OPUS = PACKET * 10


async def back_again(peers: Field, client: FakeClient, **more: object) -> FakeClient:
    again = FakeClient(await peers.socket("/ws/session"))
    await again.init(resume_token=client.ack["resume_token"], **more)
    return again


async def test_a_client_that_comes_back_with_its_token_goes_on_where_it_was(peers: Field) -> None:
    node = await peers.node()
    client = await peers.client()
    await client.chunk(OPUS)
    await client.chunk(OPUS)
    await client.socket.send({"type": "client_heartbeat", "session_id": client.session_id, "timestamp": 1})
    await client.socket.next("server_heartbeat")
    await client.socket.close()
    again = await back_again(peers, client)
    assert again.session_id == client.session_id
    assert (again.ack["resumed"], again.ack["next_seq"], again.ack["next_utterance_index"]) == (True, 2, 0)
    await again.chunk(OPUS, is_final=True)
    assert (await again.outcome())["type"] == "translation_result"
    assert len(node.jobs) == 1  # one utterance, spoken on two sockets


async def test_what_came_while_the_client_was_away_is_waiting_for_it(peers: Field) -> None:
    go_on = asyncio.Event()

    async def later(node: FakeNode, job: Frame) -> None:
        await go_on.wait()
        await answer(node, job)

    node = await peers.node(later)
    client = await peers.client()
    await client.utterance(0)
    await client.utterance(1)
    await until(lambda: len(node.jobs) == 2)
    await client.socket.close()
    go_on.set()
    await until(lambda: _taken(peers, 0))
    again = await back_again(peers, client)
    assert [(await again.outcome())["utterance_index"] for _ in range(2)] == [0, 1]


async def _taken(peers: Field, count: int) -> bool:
    _, status = await peers.get("/v1/status")
    return bool(status["slots"]["taken"] == count)


async def test_what_was_sent_into_a_broken_socket_is_sent_again_and_nothing_else(peers: Field) -> None:
    await peers.node()
    client = await peers.client()
    for index in range(3):
        await client.utterance(index)
        await client.outcome()
    # It says that it has got only the first: the socket swallowed the others.
    again = await back_again(peers, client, last_utterance_index=0)
    assert [(await again.outcome())["utterance_index"] for _ in range(2)] == [1, 2]
    await again.utterance(3)
    assert (await again.outcome())["utterance_index"] == 3
    assert await client.socket.closed() == 4001  # the old socket is told that it is over


async def test_a_token_nobody_knows_opens_a_new_session(peers: Field) -> None:
    client = await peers.client()
    stranger = FakeClient(await peers.socket("/ws/session"))
    await stranger.init(resume_token="x" * 22)
    assert stranger.session_id != client.session_id
    assert "resumed" not in stranger.ack


async def test_a_session_that_ended_says_goodbye_again_with_what_was_swallowed(peers: Field) -> None:
    await peers.node()
    client = await peers.client()
    await client.utterance(0)
    await client.socket.send({"type": "session_close", "session_id": client.session_id, "reason": "bye"})
    await client.socket.next("session_close_ack")
    again = FakeClient(await peers.socket("/ws/session"))
    await again.init(resume_token=client.ack["resume_token"], last_utterance_index=None)
    assert again.ack["resumed"] is True
    assert (await again.socket.next("session_close_ack"))["session_id"] == client.session_id


async def test_a_job_goes_on_while_its_client_changes_sockets(peers: Field) -> None:
    node = await peers.node(stay_silent)
    client = await peers.client()
    await client.utterance(0)
    await until(lambda: node.jobs)
    again = await back_again(peers, client)
    await answer(node, node.jobs[0])
    assert (await again.outcome())["type"] == "translation_result"


async def test_a_heartbeat_right_after_an_outcome_does_not_forget_it(peers: Field) -> None:
    await peers.node()
    client = await peers.client()
    await client.utterance(0)
    await client.outcome()
    await client.socket.send({"type": "client_heartbeat", "session_id": client.session_id, "timestamp": 1})
    await client.socket.next("server_heartbeat")
    # The client says that it has nothing: the heartbeat was on its way before the outcome got lost.
    again = await back_again(peers, client)
    assert (await again.outcome())["utterance_index"] == 0
