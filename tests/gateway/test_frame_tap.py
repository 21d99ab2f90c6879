"""What we ask of aiohttp's insides: frames in order, from the very first byte, and signs of life."""

import asyncio
import json
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import pytest
from structlog.testing import capture_logs

from lingua_scheduler.services.sessions.opening import Openings
from tests.support.bare import Bare, frame, handshake
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess

HANDSHAKE = handshake("/ws/session")
INIT = {"type": "session_init", "client_version": "1", "platform": "web", "src_lang": "en", "tgt_lang": "zh"}


@pytest.fixture
async def port(server: RedisProcess, request: pytest.FixtureRequest) -> AsyncIterator[int]:
    async with scheduler_on(server.url, **getattr(request, "param", {})) as (scheduler, _):
        yield scheduler.port


Connect = Callable[[], Awaitable[Bare]]


@pytest.fixture
async def connect(port: int) -> AsyncIterator[Connect]:
    clients: list[Bare] = []

    async def dial() -> Bare:
        clients.append(Bare(*await asyncio.open_connection("127.0.0.1", port)))
        return clients[-1]

    yield dial
    for client in clients:
        client.writer.close()
        with suppress(ConnectionError):
            await client.writer.wait_closed()


async def test_frames_that_come_with_the_handshake_are_heard_in_order(connect: Connect) -> None:
    client = await connect()
    nobody = {"type": "client_heartbeat", "session_id": "s-nobody", "timestamp": 1}
    # The opening has to wait for Redis; what comes behind it must not be heard before.
    client.writer.write(HANDSHAKE + frame(INIT) + frame(nobody))
    assert (await client.head()).startswith(b"HTTP/1.1 101")
    first, second = await client.message(), await client.message()
    assert (first["type"], second["type"], second["code"]) == ("session_init_ack", "error", "INVALID_SESSION")


async def test_a_frame_in_pieces_is_heard_as_one(connect: Connect) -> None:
    client = await connect()
    client.writer.write(HANDSHAKE)
    await client.head()
    for byte in frame(INIT):
        client.writer.write(bytes([byte]))
        await client.writer.drain()
        await asyncio.sleep(0)
    assert (await client.message())["type"] == "session_init_ack"


async def test_a_ping_is_answered_and_a_goodbye_returned(connect: Connect) -> None:
    client = await connect()
    client.writer.write(HANDSHAKE + frame(b"are you there", opcode=9))
    await client.head()
    assert await client.next() == (10, b"are you there")
    client.writer.write(frame(struct.pack("!H", 1000), opcode=8))
    while (got := await client.next())[0] == 9:
        pass
    assert got[0] == 8


@pytest.mark.parametrize("port", [{"server__ping_interval_ms": 500}], indirect=True)
async def test_a_socket_that_answers_pings_stays_and_one_that_does_not_is_closed(connect: Connect) -> None:
    lively, dead = await connect(), await connect()
    for client in (lively, dead):
        client.writer.write(HANDSHAKE + frame(INIT))
        await client.head()
        await until_init(client)
    hung_up = asyncio.ensure_future(dead.until_hung_up())
    while not hung_up.done():
        opcode, _ = await lively.next()
        assert opcode == 9
        lively.writer.write(frame(b"", opcode=10))
    await hung_up
    lively.writer.write(frame(INIT))
    await until_init(lively)


async def until_init(client: Bare) -> None:
    while (got := await client.next())[0] == 9:
        pass
    assert json.loads(got[1])["type"] == "session_init_ack"


@pytest.mark.expects_surprise("frame.surprised")
async def test_a_surprise_while_a_frame_is_handled_is_told_and_closes_the_socket_alone(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    def surprise(*_: object) -> None:
        raise LookupError("a fault of ours")

    other, client = await connect(), await connect()
    for one in (other, client):
        one.writer.write(HANDSHAKE + frame(INIT))
        await one.head()
    session_id = (await client.message())["session_id"]
    await other.message()
    monkeypatch.setattr(Openings, "renew", surprise)
    with capture_logs() as logged:
        client.writer.write(frame({"type": "client_heartbeat", "session_id": session_id, "timestamp": 1}))
        await client.until_hung_up()
    assert [event["side"] for event in logged if event["event"] == "frame.surprised"] == ["session"]
    other.writer.write(frame({"type": "client_heartbeat", "session_id": "s-nobody", "timestamp": 1}))
    while (got := await other.next())[0] == 9:
        pass
    assert json.loads(got[1])["code"] == "INVALID_SESSION"
