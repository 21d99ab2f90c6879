"""One or two instances in the test's own loop, with existing peers around: nodes at one, clients at the other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

from lingua_scheduler.app import Scheduler
from lingua_scheduler.services.cluster.seals import load_or_make
from tests.support.field_browser import FieldBrowser
from tests.support.field_gateway import FieldGateway
from tests.support.field_node import FieldNode, Speed
from tests.support.field_phone import FieldPhone
from tests.support.schedulers import scheduler_on
from tests.support.waiting import until

# The machine may be busy.
LONG_S = 45.0
_PAIRS = (("en", "zh"), ("zh", "en"))


class Passes(NamedTuple):
    """The credentials of those who are around; empty where none is needed."""

    operator: str = ""
    node: str = ""
    browser: str = ""
    phone: str = ""
    gateway: str = ""


NO_PASSES = Passes()


class Instance(NamedTuple):
    port: int
    http: aiohttp.ClientSession
    scheduler: Scheduler

    async def get(self, path: str) -> Any:
        async with self.http.get(f"http://127.0.0.1:{self.port}{path}") as response:
            return await response.json()


class Place:
    """Whoever is started here is stopped when the test ends."""

    def __init__(self, started: list[Instance], passes: Passes = NO_PASSES) -> None:
        self._passes = passes
        self.clients_at, self.nodes_at = started[0], started[-1]
        self._peers: list[FieldNode | FieldBrowser | FieldPhone] = []
        self._gateways: list[FieldGateway] = []

    async def node(self, speed: Speed = 0.02, **more: Any) -> FieldNode:
        """Returns when the clients' instance gives jobs to it."""
        node = FieldNode(self.nodes_at.port, speed, **{"credential": self._passes.node} | more)
        self._peers.append(node)
        await node.start()
        await until(lambda: self.serves(node), LONG_S, "the clients' instance knows the node")
        return node

    async def browser(self, *about: Any, **more: Any) -> FieldBrowser:
        browser = FieldBrowser(self.clients_at.port, *about, **{"credential": self._passes.browser} | more)
        self._peers.append(browser)
        return await browser.start()

    async def phone(self, **more: Any) -> FieldPhone:
        phone = FieldPhone(self.clients_at.port, **{"credential": self._passes.phone} | more)
        self._peers.append(phone)
        return await phone.start()

    def gateway(self) -> FieldGateway:
        gateway = FieldGateway(self.clients_at.port, credential=self._passes.gateway)
        self._gateways.append(gateway)
        return gateway

    async def serves(self, node: FieldNode) -> bool:
        about = await self.about(node)
        if about is None or about["state"] != "ready":
            return False
        pairs = [await self.clients_at.get(f"/v1/pools/{source}/{target}") for source, target in _PAIRS]
        return all(str(node.node_id) in str(pair) for pair in pairs)

    async def about(self, node: FieldNode) -> Any:
        """As GET /v1/nodes tells of it; None when it does not."""
        listed = (await self.clients_at.get("/v1/nodes"))["nodes"]
        return next((about for about in listed if about["node_id"] == node.node_id), None)

    async def is_healthy(self, node: FieldNode) -> bool:
        about = await self.about(node)
        return about is not None and about["state"] == "ready" and about["quarantined_for_ms"] is None

    async def close(self) -> None:
        await asyncio.gather(*(peer.stop() for peer in self._peers))
        for gateway in self._gateways:
            await gateway.close()


@asynccontextmanager
async def place(
    folder: Path, redis_url: str, count: int, passes: Passes = NO_PASSES, /, **settings: int | str
) -> AsyncIterator[Place]:
    """`section__key=value` changes a setting."""
    shows = {"Authorization": f"Bearer {passes.operator}"} if passes.operator else {}
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(aiohttp.ClientSession(headers=shows))
        started = []
        for number in range(count):
            named = {"server__instance_id": f"i{number}", "server__stop_timeout_ms": 1000}
            keyring = load_or_make(folder / "cluster.key")
            serving = scheduler_on(redis_url, None, keyring, **named | settings)
            scheduler, _ = await stack.enter_async_context(serving)
            started.append(Instance(scheduler.port, http, scheduler))
        found = Place(started, passes)
        try:
            yield found
        finally:
            await found.close()
