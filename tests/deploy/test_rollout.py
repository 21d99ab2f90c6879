"""A rolling update as the manifests order it, with real processes behind HAProxy: no sentence is lost or heard twice.

HAProxy has the place of the Service or Ingress: a pod that ends leaves it first, as it leaves the endpoints, while its
open connections stay. preStop and probe are read from deploy/kubernetes, which the chart renders."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from lingua_scheduler.engines.sim import SimEngine
from lingua_scheduler.store.servers.local_cluster import free_port
from lingua_scheduler.telemetry.tasks import Nursery
from lingua_sdk.client import Client
from lingua_sdk.engines import Abilities
from lingua_sdk.node import Node
from lingua_sdk.results import Translation
from tests.support.charts import Manifest, documents, of_kind
from tests.support.proxies import proxy
from tests.support.schedulers import ServeProcess, serve_process
from tests.support.servers import RedisProcess
from tests.support.waiting import PATIENCE_S, until
from tools import chart

LANGUAGES = Abilities(("en", "zh"), ("en", "zh"), ("en", "zh"))
SPEECH = b"\x10\x27\xf0\xd8" * 1600
SPEAKERS, NODES = 4, 4
NAMES = "abc"


def deployment() -> Manifest:
    spec: Manifest = of_kind(documents(chart.MANIFESTS.read_text("utf-8")), "Deployment")["spec"]
    return spec


class Endpoints:
    """The addresses that the proxy sends new connections to. One that leaves keeps the connections it has."""

    def __init__(self, control: Path) -> None:
        self._control = control

    async def have(self, name: str, *, is_in: bool) -> None:
        state = "ready" if is_in else "maint"
        reader, writer = await asyncio.open_unix_connection(str(self._control))
        writer.write(f"set server instances/{name} state {state}\n".encode())
        said = await reader.read()
        writer.close()
        assert said.strip() == b"", said


class Release:
    """The pods of one release after the other, as the controller of a Deployment starts and ends them."""

    def __init__(self, ports: list[int], redis_url: str, folder: Path, stack: AsyncExitStack) -> None:
        self._ports = ports
        self._redis_url = redis_url
        self._folder = folder
        self._stack = stack
        self._pod = deployment()["template"]["spec"]

    async def start(self, place: int, life: int, endpoints: Endpoints | None = None) -> ServeProcess:
        """Ready by its own probe before it is an endpoint."""
        folder = self._folder / f"{place}-{life}"
        folder.mkdir()
        words = ("--redis-url", self._redis_url, "--port", str(self._ports[place]), "--set", "auth.mode=off")
        serving = await self._stack.enter_async_context(serve_process(folder, *words))
        path = self._pod["containers"][0]["readinessProbe"]["httpGet"]["path"]
        await until(lambda: _is_ok(f"http://127.0.0.1:{self._ports[place]}{path}"), what="the pod is ready")
        if endpoints is not None:
            await endpoints.have(NAMES[place], is_in=True)
        return serving

    async def end(self, place: int, serving: ServeProcess, endpoints: Endpoints) -> None:
        """Endpoints, preStop, SIGTERM."""
        pre_stop_s = self._pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
        await endpoints.have(NAMES[place], is_in=False)
        await asyncio.sleep(pre_stop_s)
        assert '"scheduler.stopping"' not in serving.log, "it goes on while proxies notice"
        serving.process.send_signal(signal.SIGTERM)
        stopping_s = asyncio.get_running_loop().time()
        # A busy machine may take longer than the kubelet would wait; what it took is printed.
        async with asyncio.timeout(PATIENCE_S):
            assert await serving.process.wait() == 0
        took_s = asyncio.get_running_loop().time() - stopping_s
        print(f"{took_s:.1f} s after SIGTERM, of {self._pod['terminationGracePeriodSeconds'] - pre_stop_s} s")


class Crowd:
    """Nodes, and people who say the next sentence when the one before has its outcome."""

    def __init__(self) -> None:
        self._tasks = Nursery("crowd")
        self._nodes: list[Node] = []
        self.is_speaking = True
        self.said = 0
        self.heard: list[Any] = []
        self.gone = 0

    async def come(self, port: int, stack: AsyncExitStack) -> None:
        address = f"ws://127.0.0.1:{port}"
        for _ in range(NODES):
            node = Node(address, SimEngine(), LANGUAGES, heartbeat_interval_s=1.0)
            self._nodes.append(node)
            self._tasks.start(node.run())
        for _ in range(SPEAKERS):
            client = await stack.enter_async_context(Client(address, "en", "zh"))
            self._tasks.start(self._speak(client))
        stack.push_async_callback(self._leave)

    async def _speak(self, client: Client) -> None:
        results = client.results()
        while self.is_speaking:
            await client.utterance(SPEECH)
            self.said += 1
            self.heard.append(await anext(results))
        # What is heard twice would come now.
        await client.finish()
        self.heard += [one async for one in results]
        self.gone += 1

    async def goes_on(self) -> None:
        had = len(self.heard)
        await until(lambda: len(self.heard) > had + SPEAKERS)

    async def all_is_heard_once(self) -> None:
        self.is_speaking = False
        await until(lambda: self.gone == SPEAKERS)
        assert len(self.heard) == self.said
        assert [one for one in self.heard if not isinstance(one, Translation)] == []

    async def _leave(self) -> None:
        self.is_speaking = False
        for node in self._nodes:
            await node.stop()
        await self._tasks.settle(5)
        await self._tasks.close()


async def _is_ok(url: str) -> bool:
    try:
        async with aiohttp.ClientSession() as http, http.get(url) as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


@asynccontextmanager
async def two_pods_of_three_places(server: RedisProcess, tmp_path: Path) -> AsyncIterator[tuple[Any, ...]]:
    ports = [free_port() for _ in NAMES]
    async with AsyncExitStack() as stack:
        release = Release(ports, server.url, tmp_path, stack)
        pods = {place: await release.start(place, 0) for place in (0, 1)}
        control = tmp_path / "control.sock"
        port, _ = await stack.enter_async_context(proxy("haproxy", ports, tmp_path, control))
        endpoints = Endpoints(control)
        # No pod is there yet.
        await endpoints.have(NAMES[2], is_in=False)
        yield release, pods, endpoints, port, stack


@pytest.mark.timeout(420)
async def test_a_rolling_update_loses_no_sentence(server: RedisProcess, tmp_path: Path) -> None:
    assert deployment()["replicas"] == 2
    assert deployment()["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    async with two_pods_of_three_places(server, tmp_path) as (release, pods, endpoints, port, stack):
        crowd = Crowd()
        await crowd.come(port, stack)
        await crowd.goes_on()
        # One more is ready, then one ends, whose place is free for the next.
        for new, old in ((2, 0), (0, 1)):
            pods[new] = await release.start(new, 1, endpoints)
            await release.end(old, pods.pop(old), endpoints)
            await crowd.goes_on()
        await crowd.all_is_heard_once()
        print(f"rolling update of 2 pods: {crowd.said} sentences said, {len(crowd.heard)} heard")
