"""Tenants at a scheduler where every caller needs a key: their nodes, clients and operators, over real sockets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.access.scopes import Role
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.key_texts import KeyKind
from tests.support.access import MadeKey, guarded_scheduler, made_key
from tests.support.peers import FakeClient, FakeNode, Socket, Work, answer, heartbeat, registration


class Tenants:
    def __init__(self, scheduler: Scheduler, store: Store, http: aiohttp.ClientSession, admin: MadeKey) -> None:
        self.scheduler = scheduler
        self.store = store
        self.http = http
        self.admin = admin
        self._nodes: list[FakeNode] = []

    async def key(self, kind: KeyKind, **about: Any) -> MadeKey:
        made = made_key(kind, **about)
        await self.scheduler.credentials.add(made.credential)
        return made

    async def operator(self, tenant: str, role: Role = Role.OPERATOR) -> MadeKey:
        return await self.key(KeyKind.OPERATOR, role=role, tenant=tenant)

    async def node(
        self, node_id: str, tenant: str = "default", *, is_private: bool = False, work: Work = answer, **said: Any
    ) -> FakeNode:
        """With a key of its own; ready for jobs when this returns."""
        key = await self.key(KeyKind.NODE, tenant=tenant, node_id=node_id, is_private=is_private)
        socket = Socket(await self.http.ws_connect("/ws/node", headers=key.header, max_msg_size=0))
        await socket.send(registration(**{"node_id": node_id} | said))
        node = FakeNode(socket, (await socket.next("node_register_ack"))["node_id"], work)
        await socket.send(heartbeat(node.node_id))
        self._nodes.append(node)
        return node

    async def client(self, tenant: str, **init: Any) -> FakeClient:
        return await self.client_with(await self.key(KeyKind.SERVICE, tenant=tenant), **init)

    async def client_with(self, key: MadeKey, **init: Any) -> FakeClient:
        client = FakeClient(Socket(await self.http.ws_connect("/ws/session", headers=key.header, max_msg_size=0)))
        await client.init(**init)
        return client

    async def ask(self, method: str, path: str, key: MadeKey | None = None, **more: Any) -> tuple[int, Any]:
        headers = (key or self.admin).header
        async with self.http.request(method, path, headers=headers, **more) as response:
            return response.status, await response.json()

    async def pools_of(self, node_id: str) -> set[str]:
        """The pools that the node is in, by the sets themselves."""
        found = set()
        for shard in await self.store.placements.shards():
            keys = self.store.keys.shard(shard)
            for pool in await self.store.line.call("HKEYS", keys.summary):
                if await self.store.line.call("SISMEMBER", keys.pool(pool), node_id):
                    found.add(str(pool))
        return found

    async def stop(self) -> None:
        for node in self._nodes:
            await node.stop()


@asynccontextmanager
async def tenants_at(url: str, folder: Path, **changes: Any) -> AsyncIterator[Tenants]:
    admin = made_key(KeyKind.OPERATOR, role=Role.ADMIN, tenant="*")
    async with (
        guarded_scheduler(url, folder, admin, **changes) as (scheduler, store),
        aiohttp.ClientSession(f"http://127.0.0.1:{scheduler.port}") as http,
    ):
        found = Tenants(scheduler, store, http, admin)
        try:
            yield found
        finally:
            await found.stop()
