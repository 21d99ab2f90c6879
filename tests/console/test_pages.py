"""The pages people and scripts read: healthy or not, the fleet, and errors of one shape."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from lingua_scheduler.app import Scheduler
from tests.support.peers import FakeNode, Field, Frame, answer, field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess, binaries
from tests.support.waiting import until


async def asked(peers: Field, method: str, path: str) -> tuple[int, str, dict[str, Any], Any]:
    """Status, type, headers and body."""
    async with (
        aiohttp.ClientSession() as http,
        http.request(method, f"http://127.0.0.1:{peers.port}{path}") as response,
    ):
        body = await (response.json() if "json" in response.content_type else response.text())
        return response.status, response.content_type, dict(response.headers), body


@pytest.fixture
async def without_redis() -> AsyncIterator[Field]:
    """Peers of a scheduler whose Redis has died under it."""
    redis = RedisProcess(str(binaries()["valkey"]))
    try:
        async with scheduler_on(redis.url) as (scheduler, store), field(scheduler.port) as peers:
            await peers.node()
            assert (await peers.get("/health/ready"))[0] == 200
            redis.stop()
            await until(lambda: not store.is_ready)
            yield peers
    finally:
        redis.stop()


# Health


async def test_a_scheduler_that_serves_is_healthy_and_ready(peers: Field) -> None:
    assert await peers.get("/health") == (200, "OK")
    assert await peers.get("/health/ready") == (200, {"ready": True, "reasons": []})


async def test_without_redis_it_is_healthy_but_not_ready(without_redis: Field) -> None:
    assert await without_redis.get("/health") == (200, "OK")
    status, body = await without_redis.get("/health/ready")
    assert status == 503
    assert body == {"ready": False, "reasons": ["Redis does not answer"]}


async def test_a_scheduler_that_stops_is_not_ready(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as peers:
        close_to_newcomers(scheduler)
        assert await peers.get("/health/ready") == (503, {"ready": False, "reasons": ["the scheduler is stopping"]})


def close_to_newcomers(scheduler: Scheduler) -> None:
    """The first step of a stop, without the second."""
    scheduler._intake.stop_taking_work()


# Metrics


async def test_metrics_are_shown_as_prometheus_reads_them(peers: Field) -> None:
    await peers.node()
    status, kind, headers, page = await asked(peers, "GET", "/metrics")
    assert (status, kind) == (200, "text/plain")
    assert "version=" in headers["Content-Type"]
    lines = page.splitlines()
    assert "lingua_nodes_connected 1.0" in lines
    assert "lingua_redis_up 1.0" in lines
    assert "# HELP lingua_nodes_connected Nodes connected to this instance" in lines


async def test_metrics_are_shown_without_redis_and_say_so(without_redis: Field) -> None:
    status, page = await without_redis.get("/metrics")
    assert status == 200
    assert "lingua_redis_up 0.0" in page.splitlines()


# The fleet


async def test_an_empty_fleet_is_shown_as_one(peers: Field) -> None:
    assert await peers.get("/v1/nodes") == (200, {"nodes": []})
    status, pools = await peers.get("/v1/pools")
    assert (status, pools["pairs"], pools["version"]) == (200, {}, 1)
    assert pools["leader"] == pools["generated_by"]
    status, body = await peers.get("/v1/status")
    assert status == 200
    assert (body["sessions"], body["nodes_connected"], body["jobs_waiting"]) == (0, 0, 0)
    assert body["slots"] == {"total": 0, "taken": 0}
    assert body["redis"]["ready"] is True
    assert body["redis"]["version"].startswith("Valkey ")


async def test_a_node_is_shown_with_what_it_can_do(peers: Field) -> None:
    node = await peers.node(languages=("en", "zh"), max_concurrent_jobs=3, version="2.1.0")
    status, body = await peers.get("/v1/nodes")
    assert status == 200
    (shown,) = body["nodes"]
    assert shown.pop("alive_until_ms") > 0
    wanted = {
        "node_id": node.node_id,
        "state": "ready",
        "shard": 0,
        "max_jobs": 3,
        "held": 0,
        "free": 3,
        "pairs": ["en:en", "en:zh", "zh:en", "zh:zh"],
        "version": "2.1.0",
        "platform": "linux",
        "services": ["whisper"],
    }
    assert shown | wanted == shown


async def test_pools_count_their_nodes_as_speech_and_as_text(peers: Field) -> None:
    both = ["en", "zh"]
    await peers.node()
    await peers.node(language_capabilities={"asr_languages": both, "semantic_languages": both, "tts_languages": ["zh"]})
    status, pools = await peers.get("/v1/pools")
    assert status == 200
    assert pools["pairs"] == {
        "en:en": {"speech": 1, "text": 2},
        "en:zh": {"speech": 2, "text": 2},
        "zh:en": {"speech": 1, "text": 2},
        "zh:zh": {"speech": 2, "text": 2},
    }


async def test_the_status_counts_sessions_slots_and_jobs(peers: Field) -> None:
    _, before = await peers.get("/v1/status")
    node = await peers.node(max_concurrent_jobs=3)
    client = await peers.client()
    await client.utterance(0)
    assert (await client.outcome())["type"] == "translation_result"
    _, after = await peers.get("/v1/status")
    assert after["instance_id"] == before["instance_id"]
    assert (after["sessions"], after["nodes_connected"]) == (1, 1)
    assert after["slots"] == {"total": 3, "taken": 0}
    assert [shown["node_id"] for shown in after["nodes"]] == [node.node_id]
    assert after["jobs_ended"]["DONE"] == before["jobs_ended"]["DONE"] + 1


async def test_a_running_job_is_shown_as_a_taken_slot(peers: Field) -> None:
    go_on = asyncio.Event()

    async def wait_then_answer(node: FakeNode, job: Frame) -> None:
        await go_on.wait()
        await answer(node, job)

    node = await peers.node(wait_then_answer, max_concurrent_jobs=3)
    client = await peers.client()
    await client.utterance(0)
    await until(lambda: node.jobs)
    _, status = await peers.get("/v1/status")
    assert status["slots"] == {"total": 3, "taken": 1}
    assert (status["nodes"][0]["held"], status["nodes"][0]["free"]) == (1, 2)
    go_on.set()
    await client.outcome()
    _, status = await peers.get("/v1/status")
    assert status["slots"] == {"total": 3, "taken": 0}


# Errors


async def test_the_front_page_names_every_page_and_operation(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as peers:
        _, page = await peers.get("/")
        named = {tuple(line.split()[:2]) for line in page.splitlines()[2:]}
        pages = {"/health", "/health/ready", "/metrics", "/v1/status", "/docs", "/docs/messages", "/docs/browse"}
        pages |= {"/openapi.json", "/asyncapi.json", "/messages.schema.json"}
        assert {("GET", path) for path in pages} <= named
        assert {(operation.method, operation.path) for operation in scheduler.operations} <= named
        # Sockets and the stream do not end by themselves, and there is no identity provider; they have their own tests.
        others = ("/ws/session", "/ws/node", "/v1/watch", "/v1/login/oidc", "/v1/login/oidc/callback")
        for method, path in named - {("GET", path) for path in others}:
            if method == "GET" and "{" not in path:
                assert (await peers.get(path))[0] == 200, path


@pytest.mark.parametrize("path", ["/nowhere", "/v1", "/v1/status/", "/health/unwell"])
async def test_a_page_that_is_not_there_is_said_so_as_json(peers: Field, path: str) -> None:
    status, kind, _, body = await asked(peers, "GET", path)
    assert (status, kind) == (404, "application/json")
    assert body["error"] == "NOT_FOUND"
    assert path in body["detail"]


@pytest.mark.parametrize(("method", "path"), [("POST", "/health"), ("DELETE", "/v1/status"), ("PUT", "/metrics")])
async def test_a_method_that_is_not_taken_is_said_so_as_json(peers: Field, method: str, path: str) -> None:
    status, kind, _, body = await asked(peers, method, path)
    assert (status, kind) == (405, "application/json")
    assert body["error"] == "METHOD_NOT_ALLOWED"
    assert body["detail"] == f"{path} accepts only GET, HEAD"


@pytest.mark.parametrize("path", ["/v1/status", "/v1/nodes", "/v1/pools"])
async def test_without_redis_what_cannot_be_known_is_said_so_as_json(without_redis: Field, path: str) -> None:
    status, kind, _, body = await asked(without_redis, "GET", path)
    assert (status, kind) == (503, "application/json")
    assert body["error"] == "SCHEDULER_DEPENDENCY_DOWN"
    assert body["detail"].startswith("Redis is unavailable")


async def test_a_request_id_comes_back_with_pages_and_sockets_too(peers: Field) -> None:
    given = {"X-Request-Id": "r-1"}
    async with aiohttp.ClientSession(headers=given) as http:
        async with http.get(f"http://127.0.0.1:{peers.port}/health") as response:
            assert response.headers["X-Request-Id"] == "r-1"
        async with http.ws_connect(f"ws://127.0.0.1:{peers.port}/ws/session") as socket:
            assert socket._response.headers["X-Request-Id"] == "r-1"


@pytest.mark.parametrize("path", ["/ws/session", "/ws/node"])
async def test_a_socket_asked_for_as_a_page_is_refused_as_json(peers: Field, path: str) -> None:
    status, kind, _, _ = await asked(peers, "GET", path)
    assert (status, kind) == (400, "application/json")
