"""Attacks D56–D61, E66–E71, F78, F86 and F88–F90 with credentials: what belongs to one principal is no other's."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.access.scopes import Role
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.telemetry import metrics
from lingua_sdk.protocol import binary
from tests.support.callers import SPEECH
from tests.support.http_nodes import LANGUAGES
from tests.support.peers import (
    FakeClient,
    FakeNode,
    Field,
    answer,
    field,
    heartbeat,
    registration,
    result_of,
    stay_silent,
)
from tests.support.principals import bearer, let_in, node_key, operator, service, user
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

CALLERS = {
    "ada": user("ada"),
    "bob": user("bob"),
    "eve": user("ada", "beta"),
    "narrow": user("nora", pairs=("zh:en",)),
    "single": user("sina", max_sessions=1),
    "gateway": service("k-gateway", act_for=("beta",)),
    "admin": operator(Role.ADMIN),
    "viewer": operator(Role.VIEWER),
    "one": node_key("k-one", node_id="node-1", max_slots=4),
    "two": node_key("k-two", node_id="node-2"),
    "any": node_key("k-any"),
    "other": node_key("k-other"),
}
STRANGERS = ["bob", "eve", "gateway"]


@asynccontextmanager
async def guarded(server: RedisProcess, **changes: Any) -> AsyncIterator[tuple[Scheduler, Field]]:
    async with scheduler_on(server.url, **changes) as (scheduler, _), field(scheduler.port) as peers:
        let_in(scheduler, **CALLERS)
        yield scheduler, peers


async def client_of(peers: Field, name: str, **init: Any) -> FakeClient:
    client = FakeClient(await peers.socket(f"/ws/session?access_token={name}"))
    await client.init(**init)
    return client


async def node_of(peers: Field, name: str, work: Any = answer, **said: Any) -> FakeNode:
    socket = await peers.socket(f"/ws/node?access_token={name}")
    await socket.send(registration(**said))
    node = FakeNode(socket, (await socket.next("node_register_ack"))["node_id"], work)
    await socket.send(heartbeat(node.node_id))
    peers.nodes.append(node)
    return node


async def turned_away(peers: Field, name: str, **said: Any) -> tuple[str, int | None]:
    socket = await peers.socket(f"/ws/node?access_token={name}")
    await socket.send(registration(**said))
    return (await socket.next("error"))["code"], await socket.closed()


async def dispatched(peers: Field, name: str, **more: Any) -> tuple[int, Any]:
    body = {"session_id": "s", "src_lang": "en", "tgt_lang": "zh", "audio": "AAEAAQABAAE="}
    return await peers.ask("POST", "/v1/dispatch/f2f", json=body | more, headers=bearer(name))


async def asked(peers: Field, name: str, path: str, method: str = "GET") -> tuple[int, Any]:
    return await peers.ask(method, path, headers=bearer(name))


@pytest.mark.parametrize("name", STRANGERS)
async def test_d56_d57_d61_a_session_of_another_principal_is_as_unknown_as_none(
    server: RedisProcess, name: str
) -> None:
    async with guarded(server) as (scheduler, peers):
        await peers.node()
        victim, stranger = await client_of(peers, "ada"), await client_of(peers, name)
        victim.socket.cut()
        session = scheduler._intake._sessions.find(victim.session_id)
        assert session is not None
        await until(lambda: session.peer is None)
        told = []
        for session_id in (victim.session_id, "s-0123456789ABCDEF"):
            await stranger.socket.send({"type": "client_heartbeat", "session_id": session_id, "timestamp": 1})
            told.append(await stranger.socket.next("error"))
            await stranger.socket.socket.send_bytes(binary.encode_audio_chunk(session_id, 0, 0, SPEECH, is_final=True))
            told.append(await stranger.socket.next("error"))
        assert {(error["code"], error["message"]) for error in told} == {
            ("INVALID_SESSION", "unknown session; send session_init first")
        }
        # The control: from the same address its own principal may name it.
        again = FakeClient(await peers.socket("/ws/session?access_token=ada"))
        await again.socket.send({"type": "client_heartbeat", "session_id": victim.session_id, "timestamp": 1})
        assert (await again.socket.next())["type"] == "server_heartbeat"


async def test_d58_the_same_key_goes_on_by_id_on_a_second_socket(server: RedisProcess) -> None:
    async with guarded(server) as (_, peers):
        node = await peers.node()
        opened = await client_of(peers, "gateway", platform="api-gateway")
        opened.socket.cut()
        for name, expected in (("ada", "error"), ("gateway", "translation_result")):
            asks = FakeClient(await peers.socket(f"/ws/session?access_token={name}"))
            asks.session_id = opened.session_id
            await asks.utterance(0)
            assert (await asks.outcome())["type"] == expected
        assert len(node.jobs) == 1


@pytest.mark.parametrize("name", STRANGERS)
@pytest.mark.parametrize("count", [1, 2], ids=["one instance", "two instances"])
async def test_d59_a_token_of_another_principal_opens_a_new_session_and_replays_nothing(
    server: RedisProcess, count: int, name: str
) -> None:
    async with guarded(server) as (_, peers), guarded(server) as (_, others):
        there = others if count == 2 else peers
        node = await peers.node(stay_silent)
        victim = await client_of(peers, "ada")
        await victim.utterance(0)
        await until(lambda: node.jobs)
        victim.socket.cut()
        await answer(node, node.jobs[0])
        thief = await client_of(there, name, resume_token=victim.ack["resume_token"], last_utterance_index=-1)
        assert thief.session_id != victim.session_id
        assert not thief.ack.get("resumed")
        back = await client_of(there, "ada", resume_token=victim.ack["resume_token"])
        assert back.session_id == victim.session_id
        if count == 1:
            assert (await back.outcome())["utterance_index"] == 0
        assert thief.socket.of_type("translation_result") == []


async def test_d60_ten_ids_of_another_principal_close_a_socket(server: RedisProcess) -> None:
    async with guarded(server) as (_, peers):
        victims = [await client_of(peers, "ada") for _ in range(10)]
        guesser = await client_of(peers, "bob")
        for victim in victims:
            named = {"session_id": victim.session_id, "timestamp": 1}
            await guesser.socket.send({"type": "client_heartbeat"} | named)
        assert await guesser.socket.closed() == 4007


async def test_b36_languages_beyond_the_pairs_of_a_token_are_refused_once_and_in_every_utterance(
    server: RedisProcess,
) -> None:
    async with guarded(server) as (_, peers):
        node = await peers.node()
        client = await client_of(peers, "narrow")
        assert (client.ack["type"], client.ack["code"]) == ("error", "PERMISSION_DENIED")
        assert "en→zh" in client.ack["message"]
        # The socket stays open: a client that came back would get the same answer, with an alert each time.
        await client.init(src_lang="zh", tgt_lang="en")
        assert client.session_id
        await client.utterance(0)
        assert (await client.socket.next("error"))["code"] == "PERMISSION_DENIED"
        await client.utterance(1, src_lang="zh", tgt_lang="en")
        assert (await client.outcome())["utterance_index"] == 1
        assert [job["src_lang"] for job in node.jobs] == ["zh"]
        assert (await dispatched(peers, "narrow"))[1]["error"] == "PERMISSION_DENIED"


async def test_b37_a_second_session_of_a_token_for_one_is_refused(server: RedisProcess) -> None:
    async with guarded(server) as (_, peers):
        first = await client_of(peers, "single")
        second = await client_of(peers, "single")
        assert second.ack["code"] == "QUOTA_EXCEEDED"
        assert await second.socket.closed() == 1013
        first.socket.cut()
        await until(lambda: first.socket.socket.closed)

        async def is_free() -> bool:
            return bool((await client_of(peers, "single")).session_id)

        await until(is_free)


@pytest.mark.parametrize("count", [1, 2], ids=["one instance", "two instances"])
async def test_e66_a_result_is_for_its_caller_alone(server: RedisProcess, count: int) -> None:
    async with guarded(server) as (_, peers), guarded(server) as (_, others):
        there = others if count == 2 else peers
        await peers.node()
        status, placed = await dispatched(peers, "ada")
        assert status == 200
        path = f"/v1/jobs/{placed['job_id']}/result?wait_ms=5000"
        # With the whole handle, secret and all, as if it had leaked.
        refused = {name: (await asked(there, name, path))[0] for name in STRANGERS}
        assert refused == dict.fromkeys(STRANGERS, 404)
        assert (await asked(there, "admin", path))[0] in (403, 404)
        assert (await there.get(path))[0] == 404
        status, found = await asked(there, "ada", path)
        assert (status, found["state"]) == (200, "DONE")


async def test_e67_e68_foreign_jobs_are_not_listed_explained_or_cancelled(server: RedisProcess) -> None:
    async with guarded(server) as (_, peers):
        node = await peers.node(stay_silent)
        job_id = (await dispatched(peers, "ada"))[1]["job_id"]
        await dispatched(peers, "eve")
        await until(lambda: len(node.jobs) == 2)
        for name in STRANGERS:
            assert (await asked(peers, name, f"/v1/jobs/{job_id}"))[0] == 404
            assert (await asked(peers, name, f"/v1/jobs/{job_id}/explain"))[0] == 404
            assert (await asked(peers, name, f"/v1/jobs/{job_id}/cancel", "POST"))[0] == 404
        assert (await asked(peers, "viewer", f"/v1/jobs/{job_id}/cancel", "POST"))[0] == 403
        listed = {name: len((await asked(peers, name, "/v1/jobs"))[1]["jobs"]) for name in ("bob", "ada", "viewer")}
        assert listed == {"bob": 0, "ada": 1, "viewer": 2}
        assert "belongs_to" not in str(await asked(peers, "viewer", "/v1/jobs"))
        assert (await asked(peers, "ada", f"/v1/jobs/{job_id}/explain"))[0] == 200
        assert (await asked(peers, "ada", f"/v1/jobs/{job_id}/cancel", "POST"))[0] == 200


async def test_e68_a_job_that_waits_and_one_that_found_no_node_have_an_owner_too(server: RedisProcess) -> None:
    async with guarded(server) as (_, peers):
        assert (await dispatched(peers, "ada"))[0] == 422
        mine, others = [(await asked(peers, name, "/v1/jobs"))[1]["jobs"] for name in ("ada", "bob")]
        assert ([job["state"] for job in mine], others) == (["FAILED"], [])


async def test_e69_an_affinity_key_of_another_tenant_is_another_key(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, store), field(scheduler.port) as peers:
        let_in(scheduler, **CALLERS)
        await peers.node()
        for name in ("ada", "bob", "eve"):
            assert (await dispatched(peers, name, options={"affinity_key": "k"}))[0] == 200
        bound = [store.keys.affinity("k", tenant) for tenant in ("acme", "beta", "default", "")]
        assert [await store.line.call("EXISTS", key) for key in bound] == [1, 1, 0, 0]
        assert len(set(bound)) == 3


async def test_e70_a_request_id_of_another_caller_is_another_job(server: RedisProcess) -> None:
    async with guarded(server) as (_, peers):
        await peers.node()
        jobs = [(await dispatched(peers, name, request_id="r"))[1]["job_id"] for name in ("ada", "ada", "bob", "eve")]
        assert jobs[0] == jobs[1]
        assert len(set(jobs)) == 3


async def test_e71_a_tenant_is_named_only_by_who_may_act_for_it(server: RedisProcess) -> None:
    async with guarded(server) as (_, peers):
        await peers.node()
        named = {name: (await dispatched(peers, name, tenant_id="beta"))[0] for name in ("ada", "eve", "gateway")}
        assert named == {"ada": 403, "eve": 200, "gateway": 200}
        assert (await dispatched(peers, "gateway", tenant_id="gamma"))[1]["error"] == "PERMISSION_DENIED"
        # Over a socket it is ignored: the gateway makes one up at each of its starts.
        client = await client_of(peers, "ada", tenant_id="beta")
        assert client.session_id


@pytest.mark.parametrize("boot_id", [None, "b-1"], ids=["another process", "as if it were the same process"])
async def test_f78_a_node_key_registers_as_its_own_node_alone(server: RedisProcess, boot_id: str | None) -> None:
    async with guarded(server) as (_, peers):
        said = {} if boot_id is None else {"boot_id": boot_id}
        real = await node_of(peers, "one", node_id="node-1", **said)
        for name in ("two", "any"):
            assert await turned_away(peers, name, node_id="node-1", **said) == ("PERMISSION_DENIED", 4004)
        client = await client_of(peers, "ada")
        await client.utterance(0)
        assert (await client.outcome())["type"] == "translation_result"
        assert len(real.jobs) == 1


async def test_a_bound_key_gives_a_node_without_an_id_its_own(server: RedisProcess) -> None:
    async with guarded(server) as (_, peers):
        assert (await node_of(peers, "two")).node_id == "node-2"


async def test_f78_an_id_stays_with_the_key_that_used_it_first(server: RedisProcess) -> None:
    async with guarded(server) as (scheduler, peers), guarded(server) as (_, elsewhere):
        first = await node_of(peers, "any", node_id="node-9", boot_id="b")
        for there in (peers, elsewhere):
            assert await turned_away(there, "other", node_id="node-9", boot_id="b") == ("PERMISSION_DENIED", 4004)
        await first.stop()
        await until(lambda: scheduler._connected.links.find("node-9") is None)
        for there in (peers, elsewhere):
            assert (await turned_away(there, "other", node_id="node-9"))[0] == "PERMISSION_DENIED"
        assert (await node_of(elsewhere, "any", node_id="node-9")).node_id == "node-9"
        left_ms = await scheduler._store.line.call("PTTL", scheduler._store.keys.node_claim("node-9"))
        assert left_ms > 24 * 3_600_000


async def test_a_bound_key_takes_its_id_from_a_key_that_squats_on_it(server: RedisProcess) -> None:
    async with guarded(server) as (_, peers):
        squatter = await node_of(peers, "any", node_id="node-1")
        assert (await node_of(peers, "one")).node_id == "node-1"
        assert await squatter.socket.closed() == 4001
        assert (await turned_away(peers, "any", node_id="node-1"))[0] == "PERMISSION_DENIED"


async def test_f86_slots_beyond_those_of_the_key_are_not_believed(server: RedisProcess) -> None:
    async with guarded(server) as (scheduler, peers):
        node = await node_of(peers, "one", max_concurrent_jobs=256)
        link = scheduler._connected.links.find("node-1")
        assert link is not None
        assert link.profile.max_jobs == 4
        await node.socket.send(heartbeat("node-1", max_concurrent_jobs=200, heartbeat_interval_ms=9_000))
        await until(lambda: link.alive_ms == 27_000)
        assert link.profile.max_jobs == 4


async def test_f88_a_result_for_the_job_of_another_node_changes_nothing(server: RedisProcess) -> None:
    """Its key is valid, and it knows the job: once it names itself, once the other node."""
    async with guarded(server) as (_, peers):
        honest = await node_of(peers, "one", stay_silent)
        client = await client_of(peers, "ada")
        await client.utterance(0)
        await until(lambda: honest.jobs)
        thief = await node_of(peers, "two", stay_silent)
        job, stale = honest.jobs[0], metrics.STALE.labels("result")
        before = stale._value.get()
        forged = [
            result_of(job | {"attempt_id": attempt}, name, text_translated="forged")
            for attempt in (job["attempt_id"], job["attempt_id"] + 1, 99)
            for name in (thief.node_id, honest.node_id)
        ]
        for one in forged:
            await thief.socket.send(one)
        await until(lambda: stale._value.get() == before + len(forged))
        await honest.socket.send(result_of(job, honest.node_id, text_translated="true"))
        outcome = await client.outcome()
        assert (outcome["type"], outcome["text_translated"]) == ("translation_result", "true")
        assert thief.jobs == []


async def test_f89_jobs_of_a_node_whose_key_was_revoked_end_elsewhere_once(server: RedisProcess) -> None:
    async with guarded(server) as (scheduler, peers):
        revoked = await node_of(peers, "one", stay_silent)
        client = await client_of(peers, "ada")
        for index in range(3):
            await client.utterance(index)
        await until(lambda: len(revoked.jobs) == 3)
        await node_of(peers, "two")
        link = scheduler._connected.links.find("node-1")
        assert link is not None
        link.peer.close(CloseCode.REVOKED, "the credential was revoked")
        outcomes = [await client.outcome() for _ in range(3)]
        assert [one["utterance_index"] for one in outcomes] == [0, 1, 2]
        assert {one["type"] for one in outcomes} == {"translation_result"}
        assert await revoked.socket.closed() == 4004


@pytest.mark.parametrize("count", [1, 2], ids=["one instance", "two instances"])
async def test_f90_an_http_node_is_polled_with_its_own_key_alone(server: RedisProcess, count: int) -> None:
    async with guarded(server) as (_, peers), guarded(server) as (_, others):
        there = others if count == 2 else peers

        async def call(where: Field, name: str, path: str, **body: Any) -> int:
            return (await where.ask("POST", path, json=body, headers=bearer(name)))[0]

        says = {"node_id": "node-7", "boot_id": "b", "health": "ok"} | LANGUAGES
        assert await call(peers, "any", "/v1/node/register", **says) == 200
        assert await call(there, "other", "/v1/node/register", **says) == 403
        assert await call(peers, "one", "/v1/node/register", **says) == 403
        for name in ("other", "one"):
            for path in ("/v1/node/poll", "/v1/node/heartbeat"):
                assert await call(there, name, path, node_id="node-7", boot_id="b") == 403
            report = {"job_id": "job-0-1", "attempt_id": 1, "node_id": "node-7", "boot_id": "b"}
            assert await call(there, name, "/v1/job/ack", **report) == 403
        assert await call(there, "any", "/v1/node/poll", node_id="node-7", boot_id="b", wait_ms=0) == 200
