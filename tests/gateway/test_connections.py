"""A connection rests when its requests cost much to parse: nothing is lost by it, and the order stays."""

import asyncio
import json
from contextlib import suppress

from tests.support.peers import field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess

HEAD = b"POST /v1/node/poll HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
ASK = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return int(head.split()[1]), await reader.readexactly(length)


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def test_a_body_in_chunks_of_one_byte_arrives_whole_and_so_does_what_follows(server: RedisProcess) -> None:
    body = json.dumps({"node_id": "node-nobody"}).encode() + b" " * 40_000
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    async with scheduler_on(server.url) as (scheduler, _), asyncio.timeout(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", scheduler.port)
        writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        whole = await answer(reader)
        # Pipelined: the next requests come in the same reads as the end of the body.
        writer.write((HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + ASK) * 2)
        for _ in range(2):
            assert await answer(reader) == whole
            assert (await answer(reader))[0] == 200
        await hang_up(writer)


async def test_who_leaves_while_it_rests_is_gone_and_who_stays_is_closed_at_the_end(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as peers:
        await peers.node()
        for number in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", scheduler.port)
            writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 30_000)
            await asyncio.sleep(0.05)
            if number < 2:
                await hang_up(writer)
        client = await peers.client()
        await client.utterance(0)
        assert (await client.outcome())["type"] == "translation_result"
    with suppress(ConnectionError):
        await asyncio.wait_for(reader.read(), 5)
    await hang_up(writer)
