"""Attacks E53, E68 and E74: operators of one tenant, while another tenant works."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

import aiohttp
import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.access.scopes import Role
from lingua_scheduler.domain.sessions.names import shown_session
from tests.support.peers import FakeClient, FakeNode, Field, Frame, answer, field, heartbeat, registration, stay_silent
from tests.support.principals import bearer, let_in, node_key, operator, user
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

ACME_NODE, BETA_NODE = "gpu-of-anna", "gpu-of-boris"
CALLERS = {
    "ada": user("ada"),
    "bea": user("bea", "beta"),
    "acme-node": node_key("k-an", tenant="acme", node_id=ACME_NODE),
    "beta-node": node_key("k-bn", tenant="beta", node_id=BETA_NODE),
    "viewer": operator(Role.VIEWER, "acme", "k-va"),
    "operator": operator(Role.OPERATOR, "acme", "k-oa"),
    "admin": operator(Role.ADMIN, "acme", "k-aa"),
    "all": operator(Role.OPERATOR, "*", "k-all"),
}
LISTS = [
    "/v1/picture",
    "/v1/events?limit=500",
    "/v1/history",
    "/v1/nodes",
    f"/v1/nodes/{ACME_NODE}",
    "/v1/pools",
    "/v1/pools/en/zh",
    "/v1/jobs?limit=500",
    "/v1/failures?limit=500",
    "/v1/alarms",
    "/v1/rooms",
    "/api/v1/stats",
    "/api/v1/metrics",
]
OF_THE_CLUSTER = ["/v1/status", "/v1/instances", "/v1/dead-letters", "/api/v1/cluster", "/metrics"]


@asynccontextmanager
async def guarded(server: RedisProcess) -> AsyncIterator[tuple[Scheduler, Field]]:
    watch = {"watch__interval_ms": 200, "watch__watched_interval_ms": 200, "watch__slow_ms": 1}
    async with scheduler_on(server.url, **watch) as (scheduler, _), field(scheduler.port) as peers:
        let_in(scheduler, **CALLERS)
        yield scheduler, peers


async def node_of(peers: Field, name: str, work: Any = answer, **said: Any) -> FakeNode:
    socket = await peers.socket(f"/ws/node?access_token={name}")
    await socket.send(registration(**said))
    node = FakeNode(socket, (await socket.next("node_register_ack"))["node_id"], work)
    await socket.send(heartbeat(node.node_id))
    peers.nodes.append(node)
    return node


async def client_of(peers: Field, name: str) -> FakeClient:
    client = FakeClient(await peers.socket(f"/ws/session?access_token={name}"))
    await client.init()
    return client


async def seen_by(peers: Field, name: str, path: str, method: str = "GET", **more: Any) -> tuple[int, str]:
    status, body = await peers.ask(method, path, headers=bearer(name), **more)
    return status, json.dumps(body, ensure_ascii=False)


class Reader:
    """Takes all bytes of a watch stream."""

    def __init__(self) -> None:
        self.raw = bytearray()

    async def read(self, port: int, name: str, query: str) -> None:
        timeout = aiohttp.ClientTimeout(total=None)
        async with (
            aiohttp.ClientSession(timeout=timeout) as http,
            http.get(f"http://127.0.0.1:{port}/v1/watch{query}", headers=bearer(name)) as response,
        ):
            assert response.status == 200
            async for some in response.content.iter_any():
                self.raw += some

    def __contains__(self, text: str) -> bool:
        return text.encode() in self.raw


@asynccontextmanager
async def watched(port: int, name: str, query: str = "") -> AsyncIterator[Reader]:
    reader = Reader()
    reading = asyncio.create_task(reader.read(port, name, query))
    try:
        await until(lambda: reader.raw or reading.done())
        yield reader
    finally:
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading


class Traces(NamedTuple):
    """What of a tenant an eye could catch."""

    session: str
    jobs: list[str]
    node: str
    tenant: str

    @property
    def texts(self) -> list[str]:
        return [*self.jobs, self.session, self.node, f'"{self.tenant}"', f"{self.tenant}/"]


async def worked(peers: Field, caller: str, node: FakeNode, tenant: str) -> Traces:
    """One job that is done, by whichever node gets it, and one for which there is no node."""

    async def failed() -> set[str]:
        _, listed = await peers.ask("GET", "/v1/failures", headers=bearer("all"))
        return {one["job_id"] for one in listed["failures"] if one["tenant"] == tenant and one["job_id"]}

    client, before = await client_of(peers, caller), await failed()
    await client.utterance(0)
    done = await client.outcome()
    assert done["type"] == "translation_result"
    body = {"session_id": f"call-of-{tenant}", "src_lang": "en", "tgt_lang": "xx", "audio": "AAEAAQABAAE="}
    status, _ = await seen_by(peers, caller, "/v1/dispatch/f2f", "POST", json=body)
    assert status >= 400

    async def failed_now() -> set[str]:
        return await failed() - before

    (lost,) = await until(failed_now)
    return Traces(shown_session(client.session_id).rstrip("…"), [done["job_id"], lost], node.node_id, tenant)


async def take_time(node: FakeNode, job: Frame) -> None:
    """A job may take less than a millisecond, and is not listed as slow then."""
    await asyncio.sleep(0.05)
    await answer(node, job)


async def test_e74_no_trace_of_beta_in_what_operators_of_acme_see(server: RedisProcess) -> None:
    async with guarded(server) as (scheduler, peers):
        port = scheduler.port
        async with (
            watched(port, "viewer") as acme,
            watched(port, "viewer", "?only=events") as acme_events,
            watched(port, "all") as everything,
        ):
            theirs = await node_of(peers, "beta-node", take_time)
            beta = await worked(peers, "bea", theirs, "beta")
            await until(lambda: all(job in everything for job in beta.jobs) and beta.node in everything)
            # It vanishes: an event, an alarm. Then only acme's node is left for acme's jobs.
            theirs.socket.cut()
            await until(lambda: "node.lost" in everything)
            ours = await node_of(peers, "acme-node", take_time)
            mine = await worked(peers, "ada", ours, "acme")
            await until(lambda: all(job in acme for job in mine.jobs) and ACME_NODE in acme_events)
            # And beta works again, beside acme: its job goes to either node.
            again = await node_of(peers, "beta-node", take_time)
            later = await worked(peers, "bea", again, "beta")
            await until(lambda: everything.raw.count(b"node.joined") >= 3)
            answers = {path: await seen_by(peers, "viewer", path) for path in LISTS}
            answers |= {
                f"/v1/jobs/{job}/explain": await seen_by(peers, "viewer", f"/v1/jobs/{job}/explain")
                for job in mine.jobs
            }
            answers |= {f"/v1/jobs/{job}": await seen_by(peers, "viewer", f"/v1/jobs/{job}") for job in mine.jobs}
            whole = "".join([(await seen_by(peers, "all", path))[1] for path in LISTS])
            seen_later = [bytes(acme.raw), bytes(acme_events.raw)]
    assert {status for status, _ in answers.values()} == {200}
    for trace in (*beta.texts, *later.texts, "call-of-beta"):
        for raw in seen_later:
            assert trace.encode() not in raw, trace
        for path, (_, told) in answers.items():
            assert trace not in told, (path, trace)
    # The control: there was something to see, and acme sees its own.
    assert all(trace in whole or trace in everything for trace in (*beta.jobs, beta.session, beta.node, '"beta"'))
    told = "".join(text for _, text in answers.values())
    assert all(trace in told for trace in (*mine.jobs, mine.session, mine.node))


async def test_a_job_of_acme_on_a_node_of_beta_does_not_name_the_node(server: RedisProcess) -> None:
    async with guarded(server) as (_, peers):
        theirs = await node_of(peers, "beta-node")
        mine = await worked(peers, "ada", theirs, "acme")
        paths = [*LISTS, f"/v1/jobs/{mine.jobs[0]}", f"/v1/jobs/{mine.jobs[0]}/explain"]
        paths.remove(f"/v1/nodes/{ACME_NODE}")
        answers = [await seen_by(peers, "viewer", path) for path in paths]
        assert {status for status, _ in answers} == {200}
        assert [told for _, told in answers if BETA_NODE in told] == []
        assert any(mine.jobs[0] in told for _, told in answers)
        # Counted it is.
        assert json.loads(answers[paths.index("/v1/pools/en/zh")][1])["speech"] == 1
        assert json.loads(answers[paths.index("/v1/pools")][1])["pairs"]["en:zh"]
        status, told = await seen_by(peers, "viewer", f"/v1/jobs?node_id={BETA_NODE}")
        assert (status, json.loads(told)) == (200, {"jobs": []})


async def test_e68_what_is_betas_is_as_unknown_to_acme_as_what_is_not_there(server: RedisProcess) -> None:
    async with guarded(server) as (_, peers):
        theirs = await node_of(peers, "beta-node", stay_silent)
        client = await client_of(peers, "bea")
        await client.utterance(0)
        await until(lambda: theirs.jobs)
        job, none = theirs.jobs[0]["job_id"], theirs.jobs[0]["job_id"][:-1] + "99999"
        for name in ("viewer", "operator", "admin"):
            for path in ("/v1/jobs/{}", "/v1/jobs/{}/explain"):
                found = [await seen_by(peers, name, path.format(one)) for one in (job, none)]
                assert [status for status, _ in found] == [404, 404]
                assert found[0][1].replace(job, none) == found[1][1]
            found = [await seen_by(peers, name, f"/v1/nodes/{one}") for one in (BETA_NODE, "no-such-node")]
            assert [status for status, _ in found] == [404, 404]
            assert found[0][1].replace(BETA_NODE, "no-such-node") == found[1][1]
        for verb in ("drain", "resume", "release", "evict"):
            status, _ = await seen_by(peers, "operator", f"/v1/nodes/{BETA_NODE}/{verb}", "POST")
            assert status == 404, verb
        assert (await seen_by(peers, "operator", f"/v1/jobs/{job}/cancel", "POST"))[0] == 404
        # The control: nothing happened to them, and it would have.
        _, node = await peers.ask("GET", f"/v1/nodes/{BETA_NODE}", headers=bearer("all"))
        assert (node["state"], [one["job_id"] for one in node["jobs"]]) == ("ready", [job])
        assert (await seen_by(peers, "all", f"/v1/jobs/{job}/cancel", "POST"))[0] == 200
        assert (await seen_by(peers, "all", f"/v1/nodes/{BETA_NODE}/evict", "POST"))[0] == 200


async def test_an_operator_of_acme_handles_its_own(server: RedisProcess) -> None:
    async with guarded(server) as (_, peers):
        ours = await node_of(peers, "acme-node", stay_silent)
        client, stranger = await client_of(peers, "ada"), await client_of(peers, "bea")
        await client.utterance(0)
        await stranger.utterance(0)
        await until(lambda: len(ours.jobs) == 2)
        by_session = {job["session_id"]: job["job_id"] for job in ours.jobs}
        listed = json.loads((await seen_by(peers, "operator", "/v1/jobs"))[1])["jobs"]
        (mine,) = [one["job_id"] for one in listed]
        (foreign,) = set(by_session.values()) - {mine}
        # Jobs of others on its own node are counted, not named.
        _, node = await seen_by(peers, "operator", f"/v1/nodes/{ACME_NODE}")
        assert [one["job_id"] for one in json.loads(node)["jobs"]] == [mine]
        assert json.loads(node)["held"] == 2
        status, drained = await seen_by(peers, "operator", f"/v1/nodes/{ACME_NODE}/drain", "POST")
        assert (status, json.loads(drained)["running"]) == (200, 2)
        assert foreign not in drained
        assert (await seen_by(peers, "operator", f"/v1/jobs/{mine}/cancel", "POST"))[0] == 200
        status, evicted = await seen_by(peers, "operator", f"/v1/nodes/{ACME_NODE}/evict", "POST")
        assert status == 200
        assert foreign not in evicted


@pytest.mark.parametrize("name", ["viewer", "operator", "admin"])
async def test_the_cluster_is_for_operators_of_all_tenants(server: RedisProcess, name: str) -> None:
    async with guarded(server) as (scheduler, peers):
        async with aiohttp.ClientSession(f"http://127.0.0.1:{scheduler.port}") as http:
            for path in OF_THE_CLUSTER:
                for who, expected in ((name, 403), ("all", 200)):
                    async with http.get(path, headers=bearer(who)) as response:
                        assert response.status == expected, (path, who)
        for verb in ("replay", "purge"):
            body = {"json": {"all": True}}
            assert (await seen_by(peers, name, f"/v1/dead-letters/{verb}", "POST", **body))[0] == 403
            assert (await seen_by(peers, "all", f"/v1/dead-letters/{verb}", "POST", **body))[0] == 200


async def test_alarms_of_others_cannot_be_handled(server: RedisProcess) -> None:
    async with guarded(server) as (scheduler, peers):
        nodes = [await node_of(peers, name) for name in ("acme-node", "beta-node")]
        async with watched(scheduler.port, "all") as everything:
            await until(lambda: ACME_NODE in everything and BETA_NODE in everything)
            for node in nodes:
                node.socket.cut()
            names = [f"node.lost/{ACME_NODE}", f"node.lost/{BETA_NODE}", "nodes.none"]

            async def are_raised() -> bool:
                _, told = await peers.ask("GET", "/v1/alarms", headers=bearer("all"))
                return set(names) <= {f"{one['code']}/{one['subject']}".rstrip("/") for one in told["alarms"]}

            await until(are_raised)
        _, told = await peers.ask("GET", "/v1/alarms", headers=bearer("viewer"))
        assert [one["subject"] for one in told["alarms"] if one["code"].startswith("node.")] == [ACME_NODE]
        answers = [
            (await seen_by(peers, "operator", "/v1/alarms", "POST", json={"alarm": name, "action": "acknowledge"}))[0]
            for name in names
        ]
        assert answers == [200, 404, 403]
