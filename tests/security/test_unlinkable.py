"""Nodes that compare notes cannot tell that they serve the same conversation (91)."""

import os
import re
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest

from lingua_scheduler.protocol.sealing import Keyring
from tests.support.peers import FakeClient, FakeNode, Field, Frame, answer, field, result_of
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.speech import PACKET
from tests.support.waiting import until

FEATURES = ["lid", "context_text", "semantic", "turns", "quarantine"]
KEYRING = Keyring([b"1" * 32])
ROUNDS = 3
# Shorter values, such as numbers and languages, belong to too many sessions to tell them apart.
TELLING = 7


def values_of(frame: Any) -> Iterator[str]:
    """Every value of a frame, in the stretches of letters and digits that it is made of."""
    if isinstance(frame, dict | list):
        for value in frame.values() if isinstance(frame, dict) else frame:
            yield from values_of(value)
    else:
        yield from (word for word in re.split("[^0-9A-Za-z]+", str(frame)) if len(word) >= TELLING)


def words_in(frames: list[Frame]) -> set[str]:
    return {word for frame in frames for word in values_of(frame)}


class Person(NamedTuple):
    client: FakeClient
    told: dict[str, str]


class Nodes(NamedTuple):
    """Two nodes that are asked in turn, and work on as many jobs."""

    one: FakeNode
    two: FakeNode

    def heard(self, begin: tuple[int, int] = (0, 0)) -> tuple[list[Frame], list[Frame]]:
        return self.one.socket.heard[begin[0] :], self.two.socket.heard[begin[1] :]

    def now(self) -> tuple[int, int]:
        return len(self.one.socket.heard), len(self.two.socket.heard)


async def nodes_at(one: Field, two: Field) -> Nodes:
    """Each has one slot and answers when both have a job."""
    held: list[FakeNode] = []

    async def work(node: FakeNode, job: Frame) -> None:
        await until(lambda: len(held) == 2 and len(held[0].jobs) == len(held[1].jobs), 60)
        about = {name: job[name] for name in ("job_id", "session_id", "utterance_index", "trace_id")}
        partial = {"type": "asr_partial", "text": "hel", "is_final": True, "node_id": node.node_id}
        await node.socket.send(partial | about)
        await node.socket.send(result_of(job, node.node_id, group_id=job.get("group_id")))

    for peers in (one, two):
        held.append(await peers.node(work, max_concurrent_jobs=1, advanced_features=FEATURES))
    return Nodes(*held)


async def talk(peers: Field, nodes: Nodes, name: str) -> Person:
    """Speech that goes to both nodes, part of it in chunks; at the end both are told to stop."""
    told = {"tenant_id": f"tenant{name}corporation", "trace_id": f"trace{name}ofclient"}
    client = await peers.client(**told)
    for number in range(ROUNDS):
        for index in (2 * number, 2 * number + 1):
            await client.utterance(index, os.urandom(640), trace_id=f"utterance{name}trace")
        for _ in range(2):
            assert (await client.outcome(60))["type"] == "translation_result"
    return Person(client, told | {"utterance": f"utterance{name}trace"})


async def stop_both(peers: Field, nodes: Nodes, person: Person) -> None:
    """Jobs in progress are cancelled at both nodes."""
    have = len(nodes.one.jobs)
    for node in nodes:
        node.work = _silent
    for index in (100, 101):
        await person.client.utterance(index, os.urandom(640))
    await until(lambda: len(nodes.one.jobs) == len(nodes.two.jobs) == have + 1, 60)
    for node in nodes:
        assert (await peers.post(f"/v1/jobs/{node.jobs[-1]['job_id']}/cancel", {}))[0] == 200
        await until(partial(node.socket.of_type, "job_cancel"), 60)


async def _silent(node: FakeNode, job: Frame) -> None:
    pass


def shared_words(nodes: Nodes, constants: set[str]) -> set[str]:
    """What both nodes were sent and what is not the same for everybody."""
    one, two = nodes.heard()
    return (words_in(one) & words_in(two)) - constants


@pytest.mark.parametrize("keyring", [None, KEYRING], ids=["no cluster key", "cluster key"])
@pytest.mark.parametrize("count", [1, 2], ids=["one instance", "two instances"])
async def test_91_two_nodes_cannot_join_a_conversation(
    server: RedisProcess, keyring: Keyring | None, count: int
) -> None:
    async with scheduler_on(server.url, None, keyring) as (a, _), scheduler_on(server.url, None, keyring) as (b, _):
        async with field(a.port) as at_a, field(b.port) as at_b:
            nodes = await nodes_at(at_a, at_b if count == 2 else at_a)
            stranger = await talk(at_a, nodes, "stranger")
            # What another person's jobs have in common is common to all: types, formats, the name of the instance.
            constants = words_in([*nodes.heard()[0], *nodes.heard()[1]])
            begin = nodes.now()
            person = await talk(at_a, nodes, "person")
            await stop_both(at_a, nodes, person)
            mine = nodes.heard(begin)
            assert all(len(frames) > ROUNDS for frames in mine)
            assert (words_in(mine[0]) & words_in(mine[1])) - constants == {"cancelled"}
            check_nodes(nodes, (stranger, person))
            for someone in (stranger, person):
                check_client(someone)
            # The search would have found the session's own ids.
            planted = [{"session_id": person.client.session_id, "trace_id": person.told["trace_id"]}]
            found = words_in([*mine[0], *planted]) & words_in([*mine[1], *planted])
            assert {person.client.session_id[2:], person.told["trace_id"]} <= found


def check_nodes(nodes: Nodes, people: tuple[Person, Person]) -> None:
    said = str(nodes.heard())
    for client, told in people:
        private = [client.session_id[2:], client.ack["resume_token"], client.ack["trace_id"], *told.values()]
        assert [text for text in private if text in said] == []
    for node in nodes:
        # One name for each session, so that what a node keeps by it stays together; and every utterance once.
        assert len({job["session_id"] for job in node.jobs}) == len(people)
        assert len({(job["session_id"], job["utterance_index"]) for job in node.jobs}) == len(node.jobs)
        assert all(job["turn_id"].startswith(f"turn-{job['session_id']}-") for job in node.jobs)


def check_client(person: Person) -> None:
    client, told = person
    heard = [*client.socket.of_type("translation_result"), *client.socket.of_type("asr_partial")]
    results = client.socket.of_type("translation_result")
    assert len(results) == 2 * ROUNDS
    assert {frame["session_id"] for frame in heard} == {client.session_id}
    assert {frame["trace_id"] for frame in heard} == {told["utterance"]}
    assert all(result["group_id"].startswith(f"group_{client.session_id}_") for result in results)
    assert client.ack["trace_id"] == told["trace_id"]


async def test_the_words_before_are_shared_where_the_operator_says_so(server: RedisProcess) -> None:
    """Which joins the conversation, and is how the search for common words finds one."""
    async with scheduler_on(server.url, privacy__share_context=True) as (a, _), field(a.port) as peers:
        nodes = await nodes_at(peers, peers)
        await talk(peers, nodes, "person")
        names = {job["session_id"] for node in nodes for job in node.jobs}
        assert len(names) == 2
        given = [job.get("context_text", "") for node in nodes for job in node.jobs]
        assert all(any(name in text for text in given) for name in names)
        assert shared_words(nodes, set()) & {name[2:] for name in names}


async def test_a_node_knows_a_session_by_the_same_name_when_it_moves(server: RedisProcess) -> None:
    async with scheduler_on(server.url, None, KEYRING) as (a, _), scheduler_on(server.url, None, KEYRING) as (b, _):
        async with field(a.port) as at_a, field(b.port) as at_b:
            node = await at_a.node(advanced_features=["turns"])
            client = await at_b.client()
            await client.chunk(PACKET * 20, is_final=True)
            await client.outcome()
            client.socket.cut()
            again = await at_a.client(resume_token=client.ack["resume_token"], last_utterance_index=0)
            assert (again.ack["resumed"], again.session_id) == (True, client.session_id)
            again._seq = 1
            await again.chunk(PACKET * 20, is_final=True)
            assert (await again.outcome())["session_id"] == client.session_id
            first, second = (job["session_id"] for job in node.jobs)
            # As before names were given: utterances are counted anew, which existing nodes would refuse otherwise.
            assert second == f"{first}-2"
            assert node.jobs[1]["trace_id"] == node.jobs[0]["trace_id"]


async def test_instances_with_other_keys_lose_no_utterance_of_a_turn(server: RedisProcess) -> None:
    """A name that changes in the middle of a turn: the key was rotated, or an instance has another one."""
    other, short = Keyring([b"2" * 32]), {"sessions__max_duration_ms": 1_000}
    async with (
        scheduler_on(server.url, None, KEYRING, **short) as (a, _),
        scheduler_on(server.url, None, other, **short) as (b, _),
        field(a.port) as at_a,
        field(b.port) as at_b,
    ):
        node = await at_b.node(answer)
        client = await at_a.client()
        for _ in range(6):
            await client.chunk(PACKET * 10)
        assert (await client.outcome())["type"] == "translation_result"
        client.socket.cut()
        again = await at_b.client(resume_token=client.ack["resume_token"], last_utterance_index=0)
        assert again.ack["resumed"]
        again._seq = again.ack["next_seq"]
        await again.chunk(PACKET * 10, is_final=True)
        outcome = await again.outcome()
        assert (outcome["type"], outcome["utterance_index"]) == ("translation_result", 1)
        first, second = (job["session_id"] for job in node.jobs)
        assert not second.startswith(first)
