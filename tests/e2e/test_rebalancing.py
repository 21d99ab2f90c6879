"""After a rolling restart peers spread over the instances again by themselves, and no sentence is lost on the way."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest

from lingua_scheduler.engines.sim import SimEngine
from lingua_scheduler.store.servers.local_cluster import free_port
from lingua_scheduler.telemetry.tasks import Nursery
from lingua_sdk.client import Client
from lingua_sdk.engines import Abilities
from lingua_sdk.node import Node
from lingua_sdk.results import Translation
from tests.support.proxies import SAMPLES, is_ready, proxy
from tests.support.schedulers import ServeProcess, serve_process
from tests.support.servers import RedisProcess
from tests.support.waiting import until

LANGUAGES = ("en", "zh")
NODES, QUIET, SPEAKING = 12, 12, 3
QUICK = (
    "--set",
    "instances.rebalance_ms=500",
    "--set",
    "watch.interval_ms=300",
    "--set",
    "watch.watched_interval_ms=300",
    "--set",
    "auth.mode=off",
)
SPEECH = b"\x10\x27\xf0\xd8" * 1600


class Fleet:
    """Nodes, quiet clients, and a few that speak all the time, all through one port."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._tasks = Nursery("fleet")
        self._nodes: list[Node] = []
        self.clients: list[Client] = []
        self.said = 0
        self.heard: list[Any] = []
        self.is_speaking = True

    async def come(self, stack: AsyncExitStack) -> None:
        address = f"ws://127.0.0.1:{self._port}"
        for _ in range(NODES):
            node = Node(address, SimEngine(), Abilities(LANGUAGES, LANGUAGES, LANGUAGES), heartbeat_interval_s=1.0)
            self._nodes.append(node)
            self._tasks.start(node.run())
        for _ in range(QUIET):
            self.clients.append(await stack.enter_async_context(Client(address, "en", "zh")))
        for _ in range(SPEAKING):
            client = await stack.enter_async_context(Client(address, "en", "zh"))
            self._tasks.start(self._speak(client))
        stack.push_async_callback(self._leave)

    async def _speak(self, client: Client) -> None:
        """The next sentence when the one before has its outcome."""
        results = client.results()
        while self.is_speaking:
            await client.utterance(SPEECH)
            self.said += 1
            self.heard.append(await anext(results))

    async def all_is_heard(self) -> None:
        self.is_speaking = False
        await until(lambda: len(self.heard) == self.said, 30)
        assert all(isinstance(one, Translation) for one in self.heard), [
            one for one in self.heard if not isinstance(one, Translation)
        ]

    async def _leave(self) -> None:
        self.is_speaking = False
        for node in self._nodes:
            await node.stop()
        await self._tasks.settle(5)
        await self._tasks.close()


class Peers(NamedTuple):
    """What one instance has."""

    nodes: int
    sessions: int


async def spread(port: int) -> list[Peers]:
    """The peers of each live instance, the most first."""
    async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{port}/v1/picture") as response:
        picture = await response.json()
    living = [one for one in picture["instances"] if one["is_alive"]]
    return sorted((Peers(one["nodes"], one["sessions"]) for one in living), reverse=True)


async def is_whole(port: int, instances: int) -> bool:
    peers = await spread(port)
    return (
        len(peers) == instances
        and sum(one.nodes for one in peers) == NODES
        and sum(one.sessions for one in peers) >= QUIET
    )


def has_surplus(count: int, total: int, instances: int) -> bool:
    """More than `instances.rebalance_percent` tolerates."""
    mean = total / instances
    return count > max(mean + 1, 1.2 * mean)


def is_spread(peers: list[Peers]) -> bool:
    """No instance has a surplus of nodes or of sessions, except one that has at most the mean of both together: a proxy
    that counts connections sends back the peers that it gives away."""
    instances = len(peers)
    every = NODES + QUIET + SPEAKING
    return all(
        sum(one) * instances <= every
        or not (has_surplus(one.nodes, NODES, instances) or has_surplus(one.sessions, QUIET + SPEAKING, instances))
        for one in peers
    )


async def gets_even(port: int, instances: int) -> None:
    seen: list[list[Peers]] = []

    async def is_even() -> bool:
        peers = await spread(port)
        if not seen or seen[-1] != peers:
            seen.append(peers)
        is_whole = len(peers) == instances and tuple(map(sum, zip(*peers, strict=True))) == (NODES, QUIET + SPEAKING)
        return is_whole and is_spread(peers)

    try:
        await until(is_even, 240, what="peers are spread evenly")
    finally:
        print(
            "nodes and sessions:",
            *(" ".join(f"{one.nodes}+{one.sessions}" for one in peers) for peers in seen[-40:]),
            sep="\n",
        )


def test_an_instance_without_peers_is_not_even() -> None:
    assert not is_spread([Peers(6, 8), Peers(6, 7), Peers(0, 0)])
    assert is_spread([Peers(6, 2), Peers(5, 6), Peers(1, 7)])
    assert not is_spread([Peers(6, 5), Peers(5, 6), Peers(1, 4)])


@asynccontextmanager
async def peers_on(port: int) -> AsyncIterator[Fleet]:
    async with AsyncExitStack() as stack:
        fleet = Fleet(port)
        await fleet.come(stack)
        yield fleet


@pytest.mark.timeout(420)
@pytest.mark.parametrize("name", SAMPLES)
async def test_three_instances_behind_a_proxy_get_even_after_a_rolling_restart(
    name: str, server: RedisProcess, tmp_path: Path
) -> None:
    ports = [free_port() for _ in range(3)]

    async def start(stack: AsyncExitStack, place: int, life: int) -> ServeProcess:
        folder = tmp_path / f"{place}-{life}"
        folder.mkdir()
        words = ("--redis-url", server.url, "--port", str(ports[place]), *QUICK)
        serving = await stack.enter_async_context(serve_process(folder, *words))
        await until(lambda: is_ready(ports[place]), 60)
        return serving

    async with AsyncExitStack() as stack:
        instances = [await start(stack, place, 0) for place in range(3)]
        port, _ = await stack.enter_async_context(proxy(name, ports, tmp_path))
        fleet = await stack.enter_async_context(peers_on(port))
        await until(lambda: is_whole(ports[0], 3), 60)
        for place, instance in enumerate(instances):
            instance.process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(90):
                await instance.process.wait()
            await start(stack, place, 1)
        before = await spread(ports[0])
        await gets_even(ports[0], 3)
        print(f"{name}: nodes and sessions {before} → {await spread(ports[0])}, {fleet.said} sentences")
        await fleet.all_is_heard()


@pytest.mark.timeout(420)
async def test_two_workers_get_even_after_each_was_replaced(server: RedisProcess, tmp_path: Path) -> None:
    words = ("--redis-url", server.url, "--workers", "2", *QUICK)
    async with serve_process(tmp_path, *words) as serving:
        port = await until(lambda: serving.port, 60)
        async with peers_on(port) as fleet:
            await until(lambda: is_whole(port, 2), 60)
            serving.process.send_signal(signal.SIGHUP)
            await until(lambda: serving.log.count('"worker.ready"') >= 4, 90)
            before = await spread(port)
            await gets_even(port, 2)
            print(f"workers: nodes and sessions {before} → {await spread(port)}, {fleet.said} sentences")
            await fleet.all_is_heard()
