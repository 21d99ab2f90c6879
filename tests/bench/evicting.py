"""Somebody takes a node away from a benchmark that runs."""

import aiohttp

from tests.support.waiting import until


async def evict(port: int, node_id: str) -> None:
    """As soon as there is such a node."""
    address = f"http://127.0.0.1:{port}/v1/nodes/{node_id}/evict"
    async with aiohttp.ClientSession() as http:

        async def is_evicted() -> bool:
            return (await http.post(address)).status == 200

        await until(is_evicted, within_s=30, what=f"{node_id} is evicted")
