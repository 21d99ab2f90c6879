"""Somebody takes a node away from a benchmark that runs."""

import aiohttp

from tests.support.waiting import until


async def evict(port: int, node_id: str) -> None:
    """As soon as there is such a node, and its socket is known to be its own."""
    scheduler = f"http://127.0.0.1:{port}/v1"
    async with aiohttp.ClientSession() as http:

        async def is_evicted() -> bool:
            async with http.get(f"{scheduler}/status") as response:
                status = await response.json()
            known = {node["node_id"] for node in status["nodes"]}
            # Who is evicted while it registers loses its place, keeps its socket, and is back with its next heartbeat.
            if node_id not in known or status["nodes_connected"] < len(known):
                return False
            return (await http.post(f"{scheduler}/nodes/{node_id}/evict")).status == 200

        await until(is_evicted, within_s=30, what=f"{node_id} is evicted")
