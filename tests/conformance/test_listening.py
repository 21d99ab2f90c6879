"""The listening side: frames, refusals, cuts and close codes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from lingua_scheduler.conformance.listening import Entrance, Line, listening

LONG_S = 120.0


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Entrance, Line, aiohttp.ClientWebSocketResponse]]:
    async with listening("127.0.0.1", 0, "/ws") as door, aiohttp.ClientSession() as http:
        async with http.ws_connect(f"http://127.0.0.1:{door.port}/ws") as socket:
            line = await door.line(LONG_S)
            assert line is not None
            yield door, line, socket


async def test_frames_come_in_order_and_then_the_end() -> None:
    async with connected() as (_, line, socket):
        await socket.send_str("one")
        await socket.send_bytes(b"two")
        await socket.close()
        heard = [await line.next(LONG_S) for _ in range(3)]
    assert [one and one.data for one in heard] == ["one", b"two", None]


async def test_a_ping_is_answered_by_a_peer_that_reads() -> None:
    async with connected() as (_, line, socket):
        reading = asyncio.create_task(socket.receive())
        assert await line.ping(LONG_S)
        reading.cancel()


async def test_a_cut_has_no_close_code_of_ours() -> None:
    async with connected() as (_, line, socket):
        line.cut()
        await socket.receive()
        assert socket.close_code == aiohttp.WSCloseCode.ABNORMAL_CLOSURE


async def test_a_connection_stays_until_the_peer_has_answered_the_close_frame() -> None:
    """If it ended while speech is on its way, it would be reset, and a reset hides the close code from the peer."""
    async with listening("127.0.0.1", 0, "/ws") as door, aiohttp.ClientSession() as http:
        async with http.ws_connect(f"http://127.0.0.1:{door.port}/ws", autoclose=False) as socket:
            line = await door.line(LONG_S)
            assert line is not None
            closing = asyncio.create_task(line.close(4003, "dismissed"))
            assert (await socket.receive()).data == 4003
            # What would end the connection too early has its turn.
            for _ in range(20):
                await asyncio.sleep(0)
            assert not closing.done()
            await socket.send_str("on its way")
            await socket.close()
            await closing


async def test_connections_are_refused_as_often_as_asked() -> None:
    async with listening("127.0.0.1", 0, "/ws") as door, aiohttp.ClientSession() as http:
        door.refusals = 2
        for _ in range(2):
            with pytest.raises(aiohttp.WSServerHandshakeError, match="503"):
                await http.ws_connect(f"http://127.0.0.1:{door.port}/ws")
        async with http.ws_connect(f"http://127.0.0.1:{door.port}/ws"):
            assert await door.line(LONG_S) is not None
        assert len(door.tried_s) == 3


async def test_a_connection_that_has_ended_is_not_handed_out() -> None:
    async with listening("127.0.0.1", 0, "/ws") as door, aiohttp.ClientSession() as http:
        async with http.ws_connect(f"http://127.0.0.1:{door.port}/ws"):
            pass
        async with http.ws_connect(f"http://127.0.0.1:{door.port}/ws") as socket:
            line = await door.line(LONG_S)
            assert line is not None
            await line.send_text("to the second")
            assert (await socket.receive()).data == "to the second"
