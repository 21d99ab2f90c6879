"""Somebody takes a node away from a benchmark that runs."""

import asyncio

import aiohttp

WAIT_S = 20.0
POLL_S = 0.05


async def evict(port: int, node_id: str) -> None:
    """As soon as there is such a node."""
    address = f"http://127.0.0.1:{port}/v1/nodes/{node_id}/evict"
    async with aiohttp.ClientSession() as http, asyncio.timeout(WAIT_S):
        while (await http.post(address)).status != 200:
            await asyncio.sleep(POLL_S)
