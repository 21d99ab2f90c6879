"""Every problem that the document lists is one that really happens."""

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.console import bodies
from lingua_sdk.domain.key_texts import KeyKind
from tests.support.access import made_key
from tests.support.http_nodes import LANGUAGES, http_node
from tests.support.peers import Field, field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess, binaries
from tests.support.waiting import until

OURS = {"fleet", "nodes over HTTP"}
MAX_BYTES = 2_048
NAMES = defaultdict(lambda: "x", {"node_id": "node-a", "src": "en", "tgt": "zh"})
ATTEMPT = {"node_id": "node-a", "job_id": "job-0-x", "attempt_id": 1}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/node/register": LANGUAGES | {"node_id": "node-b", "boot_id": "boot-b"},
    "/v1/node/heartbeat": {"node_id": "node-a"},
    # Long enough for Redis to be told that the node still waits.
    "/v1/node/poll": {"node_id": "node-a", "wait_ms": 2_000},
    "/v1/job/ack": ATTEMPT,
    "/v1/job/done": ATTEMPT,
    "/v1/job/fail": ATTEMPT,
}

Found = tuple[str, str, int, str]


def documented(document: dict[str, Any]) -> Iterator[Found]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            for status, response in operation["responses"].items():
                if status != "200" and operation["tags"][0] in OURS:
                    yield from ((method.upper(), path, int(status), code) for code in response["x-error-codes"])


class Provoker:
    """Asks for trouble, and remembers what it got."""

    def __init__(self, peers: Field, document: dict[str, Any]) -> None:
        self._peers = peers
        self._operations = [(method.upper(), path) for path, methods in document["paths"].items() for method in methods]
        self.seen: set[Found] = set()

    async def ask(self, method: str, path: str, query: str = "", **more: Any) -> None:
        status, body = await self._peers.ask(method, path.format_map(NAMES) + query, **more)
        if status != 200:
            assert set(body) == {"error", "detail"}
            assert body["detail"]
            self.seen.add((method, path, status, body["error"]))

    async def ask_all(self, query: str = "", **more: Any) -> None:
        for method, path in self._operations:
            body = BODIES.get(path)
            await self.ask(method, path, query, **more, **({} if body is None else {"json": body}))

    async def starve(self, path: str) -> None:
        """A body is announced, and never comes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._peers.port)
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"
        writer.write(head.encode())
        answer = await reader.readuntil(b"}")
        body = json.loads(answer.partition(b"\r\n\r\n")[2])
        self.seen.add(("POST", path, int(answer.split()[1]), body["error"]))
        writer.close()
        await writer.wait_closed()

    async def ask_with_bodies(self, **more: Any) -> None:
        for path in BODIES:
            await self.ask("POST", path, **more)


async def test_every_documented_problem_is_reached() -> None:
    redis = RedisProcess(str(binaries()["valkey"]))
    changes = {"server__max_body_bytes": MAX_BYTES, "job__timeout_base_ms": 200, "job__timeout_max_ms": 200}
    # The node beats often, so that Redis is told of a poll that waits, and is there however long all this takes.
    changes |= {"nodes__missed_heartbeats": 60, "server__body_timeout_ms": 2_000}
    try:
        async with (
            scheduler_on(redis.url, **changes, server__unmetered_addresses=()) as (scheduler, store),
            field(scheduler.port) as peers,
        ):
            _, document = await peers.get("/openapi.json")
            provoker = Provoker(peers, document)
            # Nobody there, then somebody else.
            await provoker.ask_all()
            await http_node(peers, node_id="node-a", boot_id="boot-1", heartbeat_interval_ms=1_000)
            await provoker.ask("POST", "/v1/node/register", json=LANGUAGES | {"node_id": "node-a"})
            await provoker.ask("POST", "/v1/nodes/{node_id}/pair")
            for path, body in BODIES.items():
                await provoker.ask("POST", path, json=body | {"boot_id": "boot-2"})
                await provoker.ask("POST", path, json=body | {"wait_ms": 0})
            # Bad manners.
            await provoker.ask_all("?nonsense=1")
            await provoker.ask_with_bodies(data=b"{}", headers={"Content-Type": "text/plain"})
            await provoker.ask_with_bodies(json={"version": "x" * MAX_BYTES})
            await asyncio.gather(*map(provoker.starve, BODIES))
            await provoker.ask_all(headers={"Origin": "http://evil.example"})
            await provoker.ask_all(headers={"Host": "evil.example"})
            await strangers(scheduler, provoker)
            await full_house(scheduler, provoker)
            await busy_house(scheduler, provoker)
            await crowded_house(scheduler, provoker)
            redis.stop()
            await until(lambda: not store.is_ready)
            await provoker.ask_all()
            expected = set(documented(document))
            assert {found[:2] for found in expected} == {
                (operation.method, operation.path) for operation in scheduler.operations if operation.tag in OURS
            }
            assert expected - provoker.seen == set(), "documented, and never happens"
            ours = {found for found in provoker.seen if found[:2] in {one[:2] for one in expected}}
            assert ours - expected == set(), "happens, and is not documented"
    finally:
        redis.stop()


WITHOUT_SPEECH = ("/v1/node/poll", "/v1/job/ack", "/v1/job/fail")


async def strangers(scheduler: Scheduler, provoker: Provoker) -> None:
    """Keys that are wrong, have expired, or are for something else."""
    expired, other = made_key(KeyKind.NODE, expires_ms=int(time.time() * 1000) - 1), made_key(KeyKind.METRICS)
    for key in (made_key(KeyKind.NODE), expired, other):
        if key.credential.kind is not KeyKind.NODE or key.credential.expires_ms:
            await scheduler.credentials.add(key.credential)
        await provoker.ask_all(headers=key.header)


async def full_house(scheduler: Scheduler, provoker: Provoker) -> None:
    scheduler._http_nodes.is_open = False
    await provoker.ask("POST", "/v1/node/register", json=LANGUAGES)
    scheduler._http_nodes.is_open = True


async def busy_house(scheduler: Scheduler, provoker: Provoker) -> None:
    """So much is being sent that no body has room."""
    account = scheduler._runner.app[bodies.BODIES]
    account._max_bytes, most = 0, account._max_bytes
    await provoker.ask_with_bodies(json={"version": "x"})
    account._max_bytes = most


async def crowded_house(scheduler: Scheduler, provoker: Provoker) -> None:
    """An address has all that one may have; another connection is told so."""
    scheduler._addresses.max_sockets = scheduler._addresses._places["127.0.0.1"]
    async with field(scheduler.port) as strangers:
        peers, provoker._peers = provoker._peers, strangers
        await provoker.ask_all()
        provoker._peers = peers
    scheduler._addresses.max_sockets = 200


@pytest.mark.parametrize("path", BODIES)
async def test_a_body_with_the_largest_utterance_fits_where_speech_belongs(peers: Field, path: str) -> None:
    status, body = await peers.post(path, BODIES[path] | {"wait_ms": 0, "tts_audio": "A" * (512_000 * 4 // 3)})
    assert status in ((413,) if path in WITHOUT_SPEECH else (200, 404)), body
