"""How the peers of a load process come to the scheduler."""

import asyncio
from collections.abc import Sequence

from bench.frames import FramePeer
from bench.peers import Client, Node

# So many clients connect at once.
TOGETHER = 50
BEAT_S = 5.0


async def connect(peer: FramePeer, port: int, credential: str = "") -> None:
    peer.credential = credential
    await asyncio.get_running_loop().create_connection(lambda: peer, "127.0.0.1", port)
    await peer.opened


async def join(nodes: Sequence[Node], port: int, credential: str = "") -> None:
    for node in nodes:
        await connect(node, port, credential)
        node.register()
        await node.registered


async def introduce(clients: Sequence[Client], port: int, credential: str = "") -> None:
    for first in range(0, len(clients), TOGETHER):
        together = clients[first : first + TOGETHER]
        await asyncio.gather(*(_introduce(client, port, credential) for client in together))


async def _introduce(client: Client, port: int, credential: str) -> None:
    await connect(client, port, credential)
    client.introduce()
    await client.welcomed


def keep_beating(nodes: Sequence[Node]) -> None:
    for node in nodes:
        if node.is_open:
            node.beat()
    asyncio.get_running_loop().call_later(BEAT_S, keep_beating, nodes)
