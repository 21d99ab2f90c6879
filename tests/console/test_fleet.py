"""Looking at nodes and pairs, and steering the fleet over HTTP."""

import asyncio
from itertools import count

import pytest

from lingua_scheduler.domain.nodes.places import Place
from tests.support.fleet import ledger
from tests.support.http_nodes import http_node
from tests.support.peers import FakeNode, Field, Frame, answer, field, stay_silent
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

# One node


async def test_a_node_is_shown_with_the_jobs_it_holds(peers: Field) -> None:
    node = await peers.node(stay_silent, languages=("en", "zh"), max_concurrent_jobs=3)
    client = await peers.client()
    await client.utterance(0)
    await until(lambda: node.jobs)
    status, body = await peers.get(f"/v1/nodes/{node.node_id}")
    assert status == 200
    assert (body["node_id"], body["state"], body["held"], body["free"]) == (node.node_id, "ready", 1, 2)
    assert body["languages"] == {
        "asr": ["en", "zh"],
        "semantic": ["en", "zh"],
        "tts": ["en", "zh"],
        "translations": None,
    }
    (job,) = body["jobs"]
    assert (job["job_id"], job["attempt_id"], job["state"]) == (node.jobs[0]["job_id"], 1, "DISPATCHED")
    assert job["deadline_ms"] > 0
    status, everything = await peers.get("/v1/status")
    assert body["instance_id"] == everything["instance_id"]
    assert everything["nodes"][0] == {name: value for name, value in body.items() if name in everything["nodes"][0]}


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", ""), ("POST", "/drain"), ("POST", "/resume"), ("POST", "/evict")],
)
async def test_a_node_that_is_not_there_is_said_so_with_the_next_step(peers: Field, method: str, path: str) -> None:
    assert await peers.ask(method, f"/v1/nodes/node-x{path}") == (
        404,
        {"error": "UNKNOWN_NODE", "detail": "there is no node node-x; GET /v1/nodes lists them"},
    )


# Draining


async def test_a_drained_node_finishes_its_jobs_and_gets_no_more(peers: Field) -> None:
    go_on = asyncio.Event()

    async def wait_then_answer(node: FakeNode, job: Frame) -> None:
        await go_on.wait()
        await answer(node, job)

    node = await peers.node(wait_then_answer)
    client = await peers.client()
    await client.utterance(0)
    await until(lambda: node.jobs)
    status, body = await peers.post(f"/v1/nodes/{node.node_id}/drain")
    assert status == 200
    assert (body["outcome"], body["running"]) == ("drained", 1)
    assert [job["job_id"] for job in body["jobs"]] == [node.jobs[0]["job_id"]]
    assert (await peers.post(f"/v1/nodes/{node.node_id}/drain"))[1]["outcome"] == "kept"
    other = await peers.node()
    await client.utterance(1)
    await until(lambda: other.jobs)
    go_on.set()
    assert [(await client.outcome())["utterance_index"] for _ in range(2)] == [0, 1]
    assert len(node.jobs) == 1
    _, shown = await peers.get(f"/v1/nodes/{node.node_id}")
    assert (shown["state"], shown["held"], shown["jobs"]) == ("draining", 0, [])


async def test_a_resumed_node_works_again(peers: Field) -> None:
    node = await peers.node()
    await peers.post(f"/v1/nodes/{node.node_id}/drain")
    assert await peers.post(f"/v1/nodes/{node.node_id}/resume") == (
        200,
        {"node_id": node.node_id, "outcome": "resumed"},
    )
    assert (await peers.post(f"/v1/nodes/{node.node_id}/resume"))[1]["outcome"] == "kept"
    client = await peers.client()
    await client.utterance(0)
    assert (await client.outcome())["type"] == "translation_result"


# Evicting


async def test_an_evicted_nodes_jobs_go_elsewhere_and_its_socket_is_closed(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, store), field(scheduler.port) as peers:
        node = await peers.node(stay_silent)
        client = await peers.client()
        await client.utterance(0)
        await until(lambda: node.jobs)
        other = await peers.node()
        status, body = await peers.post(f"/v1/nodes/{node.node_id}/evict")
        assert (status, body) == (
            200,
            {"node_id": node.node_id, "outcome": "evicted", "jobs": [node.jobs[0]["job_id"]]},
        )
        assert (await client.outcome())["type"] == "translation_result"
        assert [job["attempt_id"] for job in other.jobs] == [2]
        assert await node.socket.closed() == 1012
        assert await ledger(store, node.node_id) == (0, None, 0)
        assert (await peers.post(f"/v1/nodes/{node.node_id}/evict"))[0] == 404
        back = await peers.node(node_id=node.node_id)
        assert back.node_id == node.node_id
        assert (await peers.get(f"/v1/nodes/{node.node_id}"))[1]["state"] == "ready"


async def test_a_node_that_registers_while_it_is_evicted_is_sent_away_too(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scheduler_on(server.url) as (scheduler, store), field(scheduler.port) as peers:
        find, calls = store.placements.find, count()

        async def find_late(node_id: str) -> Place | None:
            # Once: the registration asks for the place too.
            if next(calls) == 0:
                await peers.node(node_id=node_id)
            return await find(node_id)

        monkeypatch.setattr(store.placements, "find", find_late)
        assert (await scheduler._connected.departures.evict("late")) == []
        assert await peers.nodes[0].socket.closed() == 1012


async def test_an_evicted_node_does_not_return_through_its_closing_socket(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as peers:
        node = await peers.node()
        link = scheduler._connected.links.find(node.node_id)
        assert link is not None
        await peers.post(f"/v1/nodes/{node.node_id}/evict")
        # A beat that was on its way when the node was evicted, once unchanged and once with news.
        await scheduler._connected.heartbeats.show_life(link)
        link.profile = link.profile._replace(version="other")
        await scheduler._connected.registry._writer.update(link)
        assert (await peers.get(f"/v1/nodes/{node.node_id}"))[0] == 404


async def test_a_node_over_http_is_evicted_too_and_may_register_again(peers: Field) -> None:
    node = await http_node(peers, node_id="node-http")
    client = await peers.client()
    await client.utterance(0)
    job = await node.fetch()
    await peers.node()
    status, body = await peers.post("/v1/nodes/node-http/evict")
    assert (status, body["jobs"]) == (200, [job["job_id"]])
    assert (await client.outcome())["type"] == "translation_result"
    assert (await node.report("ack", job))[1]["error"] == "UNKNOWN_NODE"
    assert (await node.post("/v1/node/heartbeat"))[1]["error"] == "UNKNOWN_NODE"
    await http_node(peers, node_id="node-http")


async def test_a_node_of_another_instance_is_evicted_from_redis(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url) as (there, _),
        scheduler_on(server.url) as (here, _),
        field(there.port) as theirs,
        field(here.port) as ours,
    ):
        node = await theirs.node()
        assert (await ours.post(f"/v1/nodes/{node.node_id}/evict"))[0] == 200
        assert (await ours.get(f"/v1/nodes/{node.node_id}"))[0] == 404
        # Its own instance holds its socket, and closes it: with the next beat it would be back.
        assert await node.socket.closed() == 1012


# Pairs


async def test_a_pair_is_shown_with_who_serves_it(peers: Field) -> None:
    both = ["en", "zh"]
    speaker = await peers.node(max_concurrent_jobs=3)
    writer = await peers.node(
        language_capabilities={"asr_languages": both, "semantic_languages": both, "tts_languages": ["en"]},
        max_concurrent_jobs=2,
    )
    status, body = await peers.get("/v1/pools/en/zh")
    assert status == 200
    members = {member["node_id"]: member for member in body.pop("nodes")}
    assert body == {"src": "en", "tgt": "zh", "speech": 1, "text": 2, "slots": 5, "free": 5, "missing": {}}
    assert (members[speaker.node_id]["speech"], members[writer.node_id]["speech"]) == (True, False)
    assert members[speaker.node_id]["free"] == 3


async def test_a_pair_that_nobody_serves_says_what_is_missing(peers: Field) -> None:
    status, body = await peers.get("/v1/pools/en/fr")
    assert (status, body["nodes"]) == (200, [])
    told = "no node is connected; start one with: lingua node --languages en,fr"
    assert body["missing"] == {"speech": told, "text": told}


async def test_a_pair_that_nobody_speaks_says_so(peers: Field) -> None:
    both = ["en", "fr"]
    await peers.node(language_capabilities={"asr_languages": both, "semantic_languages": both, "tts_languages": ["en"]})
    _, body = await peers.get("/v1/pools/en/fr")
    assert (body["speech"], body["text"]) == (0, 1)
    step = "start one with: lingua node --languages en,fr"
    assert body["missing"] == {"speech": f"no node speaks French; {step}; text without speech is served"}


@pytest.mark.parametrize("pair", ["english/zh", "en/Z", "en/zh%0A"])
async def test_a_pair_of_something_else_is_refused(peers: Field, pair: str) -> None:
    status, body = await peers.get(f"/v1/pools/{pair}")
    assert (status, body["error"]) == (400, "INVALID_MESSAGE")
