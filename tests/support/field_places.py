"""A scheduler as processes, with existing peers around it: nodes at one instance, clients at the other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.field_browser import FieldBrowser
from tests.support.field_gateway import FieldGateway
from tests.support.field_node import FieldNode, Speed
from tests.support.field_phone import FieldPhone
from tests.support.instances import Instance, instances
from tests.support.waiting import until

# The machine may be busy.
LONG_S = 45.0
_PAIRS = (("en", "zh"), ("zh", "en"))


class Place:
    """Whoever is started here is stopped when the test ends."""

    def __init__(self, started: list[Instance]) -> None:
        self.clients_at, self.nodes_at = started[0], started[-1]
        self._peers: list[FieldNode | FieldBrowser | FieldPhone] = []
        self._gateways: list[FieldGateway] = []

    async def node(self, speed: Speed = 0.02, **more: Any) -> FieldNode:
        """Returns when the clients' instance gives jobs to it."""
        node = FieldNode(self.nodes_at.port, speed, **more)
        self._peers.append(node)
        await node.start()
        await until(lambda: self.serves(node), LONG_S, "the clients' instance knows the node")
        return node

    async def browser(self, *about: Any, **more: Any) -> FieldBrowser:
        browser = FieldBrowser(self.clients_at.port, *about, **more)
        self._peers.append(browser)
        return await browser.start()

    async def phone(self, **more: Any) -> FieldPhone:
        phone = FieldPhone(self.clients_at.port, **more)
        self._peers.append(phone)
        return await phone.start()

    def gateway(self) -> FieldGateway:
        gateway = FieldGateway(self.clients_at.port)
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
async def place(folder: Path, redis_url: str, count: int, **settings: int | str) -> AsyncIterator[Place]:
    """`section__key=value` changes a setting."""
    async with instances(folder, redis_url, count, **settings) as started:
        found = Place(started)
        try:
            yield found
        finally:
            await found.close()
