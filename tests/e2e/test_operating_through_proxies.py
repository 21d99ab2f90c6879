"""What operators see and do is the same through every instance: three behind each proxy of deploy/, and two workers."""

import asyncio
import json
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.forked import fork_command
from tests.support.instances import Instance, instances
from tests.support.peers import FakeNode, Field, Frame, result_of
from tests.support.proxies import SAMPLES, proxy
from tests.support.round_robin import RoundRobin, fresh_connections
from tests.support.schedulers import ServeProcess, serve_process
from tests.support.servers import RedisProcess
from tests.support.waiting import until

# Enough for every instance to be asked, however the proxy or the kernel chooses.
TIMES = 12
SETTINGS: dict[str, int | str] = {
    "watch__interval_ms": 300,
    "watch__watched_interval_ms": 300,
    "nodes__quarantine_consecutive": 1,
    "job__max_retries": 0,
}


class Place(NamedTuple):
    """Where people and nodes connect, where operators do, and the processes with their logs."""

    peers: RoundRobin
    operators: RoundRobin
    processes: Sequence[Instance | ServeProcess]


@asynccontextmanager
async def place(name: str, server: RedisProcess, folder: Path) -> AsyncIterator[Place]:
    async with AsyncExitStack() as stack:
        if name == "workers":
            changed = [
                word for key, value in SETTINGS.items() for word in ("--set", f"{key.replace('__', '.')}={value}")
            ]
            serving = serve_process(folder, "--redis-url", server.url, "--workers", "2", *changed)
            started = await stack.enter_async_context(serving)
            port = inside = await until(lambda: started.port, 60)
            processes: list[Instance | ServeProcess] = [started]
        else:
            trusting = {"server__trusted_proxies": "127.0.0.1", "auth__mode": "off"}
            three = await stack.enter_async_context(instances(folder, server.url, 3, **SETTINGS, **trusting))
            port, inside = await stack.enter_async_context(proxy(name, [one.port for one in three], folder))
            processes = [*three]
        peers = await stack.enter_async_context(fresh_connections(port))
        operators = await stack.enter_async_context(fresh_connections(inside))
        yield Place(peers, operators, processes)


async def refuse(node: FakeNode, job: Frame) -> None:
    error = {"code": "PROCESSING_ERROR", "message": "out of memory"}
    await node.socket.send(result_of(job, node.node_id, success=False, error=error, text_asr=None))


async def same(operators: Field, path: str, part: Any) -> Any:
    """A part of the answer, if it is there and the same in all of them."""
    found = []
    for _ in range(TIMES):
        status, told = await operators.get(path)
        assert status == 200, told
        found.append(part(told))
    return found[0] if found[0] and all(one == found[0] for one in found) else None


async def everywhere(operators: Field, path: str, part: Any) -> Any:
    return await until(partial(same, operators, path, part), 60, what=f"{path} is the same everywhere")


def joined(told: Any) -> list[Any]:
    return [one for one in told["events"] if (one["kind"], one["subject"]) == ("node.joined", "sick")]


def quarantined(told: Any) -> list[Any]:
    return [(one["subject"], one["since_ms"]) for one in told["alarms"] if one["code"] == "node.quarantined"]


async def lingua(*words: str) -> Any:
    process = await fork_command(*words, "--json", stdout=PIPE, stderr=DEVNULL)
    async with asyncio.timeout(90):
        output, _ = await process.communicate()
    assert process.returncode == 0
    return json.loads(output)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [*SAMPLES, "workers"])
async def test_a_failed_sentence_and_a_sick_node_are_seen_and_handled_through_any_instance(
    name: str, server: RedisProcess, tmp_path: Path
) -> None:
    async with place(name, server, tmp_path) as (peers, operators, processes):
        # Its coming is an event only if there is a picture without it.
        await until(partial(same, operators, "/v1/picture", lambda told: told["verdict"]["code"]), 60)
        node = await peers.node(refuse, node_id="sick")
        client = await peers.client()
        await client.utterance(0)
        assert (await client.outcome())["reason"] == "job_failed"

        (failure,) = await everywhere(operators, "/v1/failures?node_id=sick", lambda told: told["failures"])
        assert (failure["job_id"], failure["node_id"]) == (node.jobs[0]["job_id"], "sick")
        assert (failure["src"], failure["tgt"], failure["code"]) == ("en", "zh", "ALL_CANDIDATES_FULL_OR_FAILED")
        assert failure["reason"].endswith("PROCESSING_ERROR")
        assert sum(one.log.count('"job.failed"') for one in processes) == 1
        words = ("--failed", "--node", "sick", "--pair", "en:zh", "--since", "2h")
        told = await lingua("jobs", *words, "--url", f"127.0.0.1:{operators.port}")
        assert [one["job_id"] for one in told["failures"]] == [failure["job_id"]]

        (event,) = await everywhere(operators, "/v1/events?limit=500", joined)
        assert event["values"]["node_id"] == "sick"
        ((subject, _),) = await everywhere(operators, "/v1/picture", quarantined)
        assert subject == "sick"

        about = await everywhere(operators, "/v1/nodes/sick", lambda told: told["lately"]["failed"] and told["lately"])
        assert [one["reason"] for one in about["errors"]] == ["PROCESSING_ERROR"]
        assert (await operators.post("/v1/nodes/sick/release"))[0] == 200
        await everywhere(operators, "/v1/nodes/sick", lambda told: told["quarantined_for_ms"] is None)

        assert (await operators.post("/v1/nodes/sick/evict"))[0] == 200
        await node.socket.closed()
        await everywhere(operators, "/v1/nodes", lambda told: told["nodes"] == [])
