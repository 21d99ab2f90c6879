"""Three instances behind the proxies of deploy/, with the very files people are told to use."""

import asyncio
import base64
import io
import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from lingua_scheduler.setting_sections.server import ServerSettings
from lingua_scheduler.store.servers.local_cluster import free_port
from tests.support.peers import Field, field
from tests.support.proxies import DEPLOY, SAMPLES, Proxy, proxy
from tests.support.schedulers import ServeProcess, serve_process
from tests.support.servers import RedisProcess
from tests.support.waiting import until
from tools.docs import DOCS

MOST = 30
# Everybody is on loopback here, where nobody is counted otherwise.
TRUSTING = (
    *("--set", "server.trusted_proxies=127.0.0.1", "--set", "server.unmetered_addresses=", "--set", "auth.mode=off"),
    *("--set", f"server.max_sockets_per_address={MOST}"),
)


@asynccontextmanager
async def three_instances(server: RedisProcess, folder: Path) -> AsyncIterator[list[ServeProcess]]:
    async with AsyncExitStack() as stack:
        started = []
        for name in "abc":
            (folder / name).mkdir()
            process = serve_process(folder / name, "--redis-url", server.url, *TRUSTING)
            started.append(await stack.enter_async_context(process))
        await until(lambda: all(one.port for one in started), within_s=60)
        yield started


def nodes_on(instance: ServeProcess) -> int:
    return instance.log.count('"node.registered"')


async def speak(peers: Field, count: int) -> None:
    for _ in range(count):
        client = await peers.client()
        await client.utterance(0)
        assert (await client.outcome())["type"] == "translation_result"


async def pages_come_through(port: int) -> None:
    """A page that was served through the proxy may open sockets through it; pages of others may not."""
    url = f"ws://127.0.0.1:{port}/ws/session"
    async with aiohttp.ClientSession() as http:
        async with http.ws_connect(url, origin=f"http://127.0.0.1:{port}"):
            pass
        with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
            await http.ws_connect(url, origin="http://evil.example")
    await strangers_are_counted(url)


async def strangers_are_counted(url: str) -> None:
    """Who calls is what the proxy says, whatever the caller says."""
    statuses, opened = [], []
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(local_addr=("127.0.0.2", 0))) as http:
        for number in range(3 * MOST + 5):
            try:
                opened.append(await http.ws_connect(url, headers={"X-Forwarded-For": f"203.0.113.{number}"}))
                statuses.append(101)
            except aiohttp.WSServerHandshakeError as error:
                statuses.append(error.status)
    assert set(statuses) == {101, 429}
    assert MOST <= statuses.count(101) <= 3 * MOST


@pytest.mark.parametrize("name", SAMPLES)
async def test_people_and_nodes_come_through_a_proxy_and_one_instance_may_stop(
    name: str, server: RedisProcess, tmp_path: Path
) -> None:
    async with three_instances(server, tmp_path) as instances:
        async with (
            proxy(name, [instance.port for instance in instances], tmp_path) as (port, _),
            field(port) as peers,
        ):
            while not all(map(nodes_on, instances)):
                assert len(peers.nodes) < 20, "the proxy sends everybody to one instance"
                await peers.node()
            await speak(peers, 4)
            await pages_come_through(port)

            stopping, *staying = instances
            former = list(peers.nodes)
            stopping.process.terminate()
            async with asyncio.timeout(90):
                assert await stopping.process.wait() == 0
            gone = [node for node in former if node.socket.socket.closed]
            assert [await node.socket.closed() for node in gone] == [1012] * len(gone), "told to come back"
            assert 0 < len(gone) < len(former)

            before = sum(map(nodes_on, staying))
            await peers.node()
            assert sum(map(nodes_on, staying)) == before + 1
            await speak(peers, 4)


# For everybody, and for operators alone.
PUBLIC = ("/talk", "/talk/main.js", "/room", "/room/main.js", "/shared/base.css", "/v1/pools")
INSIDE = (
    "/dashboard",
    "/metrics",
    "/health",
    "/health/ready",
    "/v1/nodes",
    "/v1/status",
    "/v1/picture",
    "/v1/jobs",
    "/docs",
)
SNEAKY = ("/talk/../dashboard", "/shared/%2e%2e/metrics", "/talk/..%2fmetrics", "//metrics", "/v1/jobs/x/../../nodes")
CHANGES = ("/v1/nodes/node-a/evict", "/v1/nodes/node-a/drain", "/v1/dead-letters/purge", "/v1/jobs/job-0-x/cancel")


def for_pages() -> list[str]:
    """Paths that docs/http-dispatch.md offers to pages of other origins."""
    page = (DOCS / "http-dispatch.md").read_text("utf-8")
    (sentence,) = re.findall(r"The same holds for (.*?)\.\s", page, re.DOTALL)
    return ["/v1/translate", *re.findall(r"`([^`]+)`", sentence.replace("{job_id}", "job-0-x"))]


async def ask(port: int, path: str, method: str = "GET") -> int:
    """The status. The path is sent as it is written."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        length = "Content-Length: 0\r\n" if method == "POST" else ""
        writer.write(
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{length}Connection: close\r\n\r\n".encode()
        )
        return int((await reader.readline()).split()[1])
    finally:
        writer.close()


async def only_the_public_comes_through(ports: Proxy) -> None:
    assert [await ask(ports.port, path) for path in PUBLIC] == [200] * len(PUBLIC)
    for path in (*INSIDE, *SNEAKY):
        assert await ask(ports.port, path) in (400, 403, 404), path
    for path in CHANGES:
        assert await ask(ports.port, path, "POST") == 404, path
    assert await ask(ports.port, "/v1/pools", "POST") in (403, 405)
    # Browsers ask before they send what a page of another origin wants to send.
    assert {path: await ask(ports.port, path, "OPTIONS") for path in for_pages()} == dict.fromkeys(for_pages(), 204)
    for path in (*INSIDE, *CHANGES):
        assert await ask(ports.port, path, "OPTIONS") == 404, path
    # Operators reach all of it.
    assert [await ask(ports.inside, path) for path in INSIDE] == [200] * len(INSIDE)


async def large_bodies_come_through(port: int) -> None:
    """What is too large is said by the scheduler, not by the proxy; and what is not is translated."""
    async with aiohttp.ClientSession() as http:
        for size, status in ((3_000_000, 413), (500_000, 200)):
            audio = base64.b64encode(bytes(size)).decode()
            body = json.dumps({"session_id": "s", "src_lang": "en", "tgt_lang": "zh", "audio": audio}).encode()
            url, headers = f"http://127.0.0.1:{port}/v1/dispatch/f2f", {"Content-Type": "application/json"}
            async with http.post(url, data=io.BytesIO(body), headers=headers) as response:
                assert response.status == status
                assert "error" in await response.json() or status == 200


@pytest.mark.parametrize("name", SAMPLES)
async def test_operations_stay_inside_large_bodies_pass_and_every_instance_is_tried(
    name: str, server: RedisProcess, tmp_path: Path
) -> None:
    async with three_instances(server, tmp_path) as instances:
        async with (
            proxy(name, [instance.port for instance in instances], tmp_path) as ports,
            field(instances[2].port) as peers,
        ):
            await peers.node()
            await only_the_public_comes_through(ports)
            await large_bodies_come_through(ports.port)
            for instance in instances[:2]:
                instance.process.kill()
                await instance.process.wait()
            assert [await ask(ports.port, "/v1/pools") for _ in range(6)] == [200] * 6


@pytest.mark.parametrize("name", SAMPLES)
def test_a_proxy_waits_longer_than_the_pause_between_two_pings(name: str) -> None:
    text = (DEPLOY / SAMPLES[name]).read_text()
    waits_s = [int(wait) for wait in re.findall(r"^ +(?:timeout tunnel|proxy_\w+_timeout) (\d+)s", text, re.MULTILINE)]
    longest_silence_s = ServerSettings().ping_interval_ms / 1000
    assert max(waits_s) >= 2 * longest_silence_s


@asynccontextmanager
async def sockets_at(ports: list[int]) -> AsyncIterator[None]:
    """Instances as a proxy sees them: ready, and with sockets that stay open."""

    async def keep_open(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for _ in socket:
            pass
        return socket

    async def ready(_: web.Request) -> web.Response:
        return web.Response()

    app = web.Application()
    app.add_routes([web.get("/ws/node", keep_open), web.get("/health/ready", ready)])
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        for port in ports:
            await web.TCPSite(runner, "127.0.0.1", port).start()
        yield
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("name", SAMPLES)
async def test_all_peers_return_at_once_when_instances_are_back_after_a_restart(name: str, tmp_path: Path) -> None:
    """nginx learns that an instance is well again when a request ends, and a socket ends hours later."""
    ports = [free_port() for _ in range(3)]
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(aiohttp.ClientSession())
        async with sockets_at(ports):
            url = f"ws://127.0.0.1:{(await stack.enter_async_context(proxy(name, ports, tmp_path))).port}/ws/node"
            for _ in range(3):
                await http.ws_connect(url)
        for _ in range(6):
            with pytest.raises(aiohttp.WSServerHandshakeError, match=r"50[23]"):
                await http.ws_connect(url)
        await stack.enter_async_context(sockets_at(ports))
        if name == "haproxy":
            await until(lambda: _answers(http, url), what="the next health check has passed")
        for _ in range(30):
            await http.ws_connect(url)


async def _answers(http: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with http.ws_connect(url):
            return True
    except aiohttp.WSServerHandshakeError:
        return False
