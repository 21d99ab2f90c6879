"""HTTP through any instance: each request of a caller or a node goes to another of three, and all of them work."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from lingua_scheduler.app import Scheduler
from tests.support.http_nodes import HttpNode, http_node, said_of
from tests.support.instances import instances
from tests.support.mail import BRISK
from tests.support.peers import Frame
from tests.support.proxies import SAMPLES, proxy
from tests.support.round_robin import RoundRobin, fresh_connections, round_robin
from tests.support.schedulers import scheduler_on, serve_process
from tests.support.servers import RedisProcess
from tests.support.waiting import until

SPEECH = base64.b64encode(b"\x00\x01" * 320).decode()
ASKED = {"session_id": "caller", "src_lang": "en", "tgt_lang": "zh", "audio": SPEECH}
COUNT = 3


class Three:
    """Three instances in this process, and a caller that takes one after the other."""

    def __init__(self, schedulers: list[Scheduler], peers: RoundRobin) -> None:
        self.schedulers = schedulers
        self.peers = peers


@pytest.fixture
async def three(server: RedisProcess) -> AsyncIterator[Three]:
    async with AsyncExitStack() as stack:
        schedulers = [(await stack.enter_async_context(scheduler_on(server.url)))[0] for _ in range(COUNT)]
        peers = await stack.enter_async_context(round_robin(*(scheduler.port for scheduler in schedulers)))
        yield Three(schedulers, peers)


async def dispatched(peers: RoundRobin, **more: Any) -> str:
    status, body = await peers.post("/v1/dispatch/f2f", ASKED | more)
    assert status == 200, body
    return str(body["job_id"])


async def result(peers: RoundRobin, job_id: str, wait_ms: int = 0) -> tuple[int, Frame]:
    status, body = await peers.get(f"/v1/jobs/{job_id}/result?wait_ms={wait_ms}")
    return status, body


async def answered(peers: RoundRobin, job_id: str) -> Frame:
    """Fetched by whatever instance is next, until the job has ended."""
    while True:
        status, body = await result(peers, job_id, 2_000)
        assert status == 200, body
        if body["state"] != "DISPATCHED":
            return body


async def test_every_call_of_a_node_and_a_caller_may_go_to_another_instance(three: Three) -> None:
    peers = three.peers
    node = await http_node(peers, node_id="node-a", boot_id="b1")
    for number in range(2 * COUNT):
        job_id = await dispatched(peers)
        # One more request, so that the same verb meets another instance in the next round.
        assert (await node.post("/v1/node/heartbeat", boot_id="b1"))[0] == 200
        job = await node.fetch()
        # Each instance is asked, the one that has the job and the others.
        states = [(await result(peers, job_id))[1].get("state") for _ in range(COUNT)]
        assert states == ["DISPATCHED"] * COUNT
        assert await node.report("ack", job, boot_id="b1") == (200, {"ok": True})
        if number % 2:
            assert await node.report("done", job, boot_id="b1", **said_of(job)) == (200, {"ok": True})
            assert (await answered(peers, job_id))["state"] == "DONE"
        else:
            error = {"code": "UNSUPPORTED_FEATURE", "message": "no"}
            assert await node.report("fail", job, boot_id="b1", error=error) == (200, {"ok": True})
            assert (await answered(peers, job_id))["error"]["code"] == "UNSUPPORTED_FEATURE"
        assert (await node.report("done", job, boot_id="b1", **said_of(job)))[1]["error"] == "STALE_ATTEMPT"


async def test_a_job_is_cancelled_through_another_instance_and_its_result_says_so(three: Three) -> None:
    node = await http_node(three.peers, node_id="node-a", boot_id="b1")
    job_id = await dispatched(three.peers)
    job = await node.fetch()
    await node.report("ack", job)
    assert (await three.peers.post(f"/v1/jobs/{job_id}/cancel"))[0] == 200
    assert (await answered(three.peers, job_id))["state"] == "CANCELLED"

    async def told() -> bool:
        return bool((await node.poll(1_000))["cancels"])

    await until(told)


async def test_a_poll_that_waits_elsewhere_gets_a_job_at_once(three: Three) -> None:
    owner, other, third = three.schedulers
    async with round_robin(owner.port) as here, round_robin(other.port) as there, round_robin(third.port) as caller:
        await http_node(here, node_id="node-a")
        node = HttpNode(there, "node-a")
        polling = asyncio.create_task(node.poll(30_000))
        await until(lambda: owner._http_nodes._nodes["node-a"].box._polls)
        job_id = await dispatched(caller)
        async with asyncio.timeout(90):
            (job,) = (await polling)["assignments"]
            waiting = asyncio.create_task(result(there, job_id, 30_000))
            await node.do(job)
            assert (await waiting)[1]["state"] == "DONE"


async def test_a_node_that_left_while_it_polled_elsewhere_loses_no_job(three: Three) -> None:
    owner, other, _ = three.schedulers
    async with round_robin(owner.port) as here:
        await http_node(here, node_id="node-a", max_concurrent_jobs=1)
        box = owner._http_nodes._nodes["node-a"].box
        async with round_robin(other.port) as there:
            polling = asyncio.create_task(HttpNode(there, "node-a").poll(30_000))
            await until(lambda: box._polls)
            polling.cancel()
            await asyncio.gather(polling, return_exceptions=True)
        await until(
            lambda: not any(owner._forwarding.running.values()), what="the owner hears that nobody polls any more"
        )
        job_id = await dispatched(here)
        node = HttpNode(here, "node-a")
        await node.do(await node.fetch())
        assert (await answered(here, job_id))["state"] == "DONE"


async def test_strangers_learn_and_change_nothing_through_another_instance(three: Three) -> None:
    owner, other, _ = three.schedulers
    async with round_robin(owner.port) as here, round_robin(other.port) as there:
        node = await http_node(here, node_id="node-a", boot_id="b1")
        job_id = await dispatched(here)
        job = await node.fetch()
        stranger = HttpNode(there, "node-a")
        for path in ("/v1/node/poll", "/v1/node/heartbeat"):
            status, body = await stranger.post(path, boot_id="b2")
            assert (status, body["error"]) == (409, "NODE_ID_CONFLICT")
        status, body = await stranger.report("done", job, boot_id="b2", **said_of(job))
        assert (status, body["error"]) == (409, "NODE_ID_CONFLICT")
        assert (await result(there, job_id.partition(".")[0]))[0] == 404
        assert (await result(there, job_id[:-1] + ("0" if job_id[-1] != "0" else "1")))[0] == 404
        await node.do(job)
        assert (await answered(there, job_id))["state"] == "DONE"


async def test_an_unknown_node_is_told_to_register_by_every_instance(three: Three) -> None:
    for _ in range(COUNT):
        status, body = await three.peers.post("/v1/node/poll", {"node_id": "node-never", "wait_ms": 0})
        assert (status, body["error"]) == (404, "UNKNOWN_NODE")


async def test_when_the_owner_is_killed_callers_and_nodes_are_told_and_go_on(
    server: RedisProcess, tmp_path: Path
) -> None:
    async with instances(tmp_path, server.url, COUNT, **BRISK) as started:
        owner, *others = started
        async with round_robin(owner.port) as here, round_robin(*(one.port for one in others)) as there:
            await http_node(here, node_id="node-a", boot_id="b1")
            node = HttpNode(there, "node-a")
            job_id = await dispatched(here)
            job = await node.fetch()
            waiting = [
                asyncio.create_task(result(there, job_id, 30_000)),
                asyncio.create_task(node.post("/v1/node/poll", boot_id="b1", wait_ms=30_000)),
            ]
            assert await node.report("ack", job, boot_id="b1") == (200, {"ok": True})
            await owner.kill()
            async with asyncio.timeout(90):
                (status, found), (poll_status, polled) = await asyncio.gather(*waiting)
            assert (status, found["error"]) == (410, "RESULT_LOST")
            assert (poll_status, polled["error"]) == (404, "UNKNOWN_NODE")
            again = await http_node(there, node_id="node-a", boot_id="b1")
            repeated = await dispatched(there)
            await again.do(await again.fetch())
            assert (await answered(there, repeated))["state"] == "DONE"


@pytest.mark.parametrize("name", SAMPLES)
async def test_nodes_and_callers_work_through_a_proxy(name: str, server: RedisProcess, tmp_path: Path) -> None:
    trusting = {"server__trusted_proxies": "127.0.0.1", "auth__mode": "off"}
    async with instances(tmp_path, server.url, COUNT, **trusting) as started:
        async with (
            proxy(name, [one.port for one in started], tmp_path) as (port, inside),
            round_robin(port) as peers,
            round_robin(inside) as operators,
        ):
            await works(peers, operators)


async def test_nodes_and_callers_work_with_several_workers(tmp_path: Path) -> None:
    words = ("--data-dir", str(tmp_path / "data"), "--workers", "2")
    async with serve_process(tmp_path, *words) as serving:
        port = await until(lambda: serving.port, 60)
        async with fresh_connections(port) as peers:
            await works(peers)


async def works(peers: RoundRobin, operators: RoundRobin | None = None) -> None:
    """A node that polls, and a caller that fetches results: every request goes wherever it goes."""
    node = await http_node(peers, node_id="node-a", boot_id="b1")
    for number in range(4 * COUNT):
        job_id = await dispatched(peers)
        assert (await node.post("/v1/node/heartbeat", boot_id="b1"))[0] == 200
        job = await node.fetch()
        assert await node.report("ack", job, boot_id="b1") == (200, {"ok": True})
        if number % 3:
            assert await node.report("done", job, boot_id="b1", **said_of(job)) == (200, {"ok": True})
            assert (await answered(peers, job_id))["state"] == "DONE"
        else:
            assert (await (operators or peers).post(f"/v1/jobs/{job_id}/cancel"))[0] == 200
            assert (await answered(peers, job_id))["state"] == "CANCELLED"
