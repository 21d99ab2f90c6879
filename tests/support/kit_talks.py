"""The kit's conversation with a small node or client that keeps to the protocol."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lingua_scheduler.conformance.book import Book
from lingua_scheduler.conformance.checks import CLIENT_CHECKS, NODE_CHECKS, PeerProfile
from lingua_scheduler.conformance.client_talk import ClientTalk
from lingua_scheduler.conformance.listening import listening
from lingua_scheduler.conformance.node_talk import NodeTalk
from lingua_scheduler.conformance.play import Play
from tests.support.kit_client import KitClient
from tests.support.kit_node import KitNode
from tests.support.tones import tone

LONG_S = 120.0
AUDIO = tone(440, 16_000, 0.5).tobytes()
STANDARD = PeerProfile.STANDARD


@asynccontextmanager
async def node_talk(*, is_startable: bool = True) -> AsyncIterator[tuple[NodeTalk, KitNode]]:
    """With a node that has registered. Without `is_startable` the kit cannot start it again."""
    async with listening("127.0.0.1", 0, "/ws/node") as door:
        node = KitNode(door.port)
        await node.start()
        try:
            play = Play(STANDARD, LONG_S, LONG_S, AUDIO, lambda _: None, node if is_startable else None, 0.01)
            talk = NodeTalk(door, Book(NODE_CHECKS, STANDARD), play)
            assert await talk.meet(LONG_S)
            yield talk, node
        finally:
            await node.stop()


@asynccontextmanager
async def client_talk(*, is_startable: bool = True) -> AsyncIterator[tuple[ClientTalk, KitClient]]:
    """With a client that has its session. Without `is_startable` the kit cannot start it again."""
    async with listening("127.0.0.1", 0, "/ws/session") as door:
        client = KitClient(door.port)
        await client.start()
        try:
            play = Play(STANDARD, LONG_S, LONG_S, b"", lambda _: None, client if is_startable else None, 0.01)
            talk = ClientTalk(door, Book(CLIENT_CHECKS, STANDARD), play)
            assert await talk.meet(LONG_S)
            await talk.take_in()
            yield talk, client
        finally:
            await client.stop()
