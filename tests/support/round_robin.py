"""A caller that takes the next instance for every request, as a proxy without affinity does."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import cycle
from typing import Any

import aiohttp

from tests.support.peers import Field


class RoundRobin(Field):
    """A field whose requests over HTTP go to each port in turn."""

    def __init__(self, http: aiohttp.ClientSession, ports: Sequence[int]) -> None:
        super().__init__(http, ports[0])
        self._ports = cycle(ports)

    async def ask(self, method: str, path: str, **more: Any) -> tuple[int, Any]:
        self.port = next(self._ports)
        return await super().ask(method, path, **more)


@asynccontextmanager
async def fresh_connections(port: int) -> AsyncIterator[RoundRobin]:
    """Each request over a connection of its own, which the kernel gives to any worker."""
    async with round_robin(port, force_close=True) as peers:
        yield peers


@asynccontextmanager
async def round_robin(*ports: int, force_close: bool = False) -> AsyncIterator[RoundRobin]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=force_close)) as http:
        peers = RoundRobin(http, ports)
        try:
            yield peers
        finally:
            await peers.close()
