"""Bodies that are being read: what they hold together is bounded, and what they cost is paid for."""

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from time import monotonic, thread_time
from typing import Any

import pytest

from lingua_sdk.protocol.codec import decode_body
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess

MB = 1_000_000
POST = "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{more}\r\n"


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes, dict[str, Any]]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return int(head.split()[1]), head, json.loads(await reader.readexactly(length))


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Begin = Callable[..., Awaitable[Streams]]


@pytest.fixture
async def connections() -> AsyncIterator[list[Streams]]:
    opened: list[Streams] = []
    yield opened
    for _, writer in opened:
        writer.transport.abort()
        with suppress(ConnectionError):
            await writer.wait_closed()


@pytest.fixture
def begin(connections: list[Streams]) -> Begin:
    async def dial(port: int, path: str, length: int, sent: bytes, more: str = "") -> Streams:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        connections.append((reader, writer))
        writer.write(POST.format(path=path, more=f"Content-Length: {length}\r\n{more}").encode() + sent)
        return reader, writer

    return dial


async def test_all_unfinished_bodies_together_are_bounded_and_the_longest_go(
    server: RedisProcess, begin: Begin
) -> None:
    async with scheduler_on(server.url, server__max_unfinished_bytes=10 * MB) as (scheduler, _):
        small = json.dumps({"node_id": "node-nobody"}).encode().ljust(20_000)
        honest = await begin(scheduler.port, "/v1/node/poll", len(small), small[:-1])
        greedy = [await begin(scheduler.port, "/v1/dispatch/f2f", 4 * MB, bytes(4 * MB - 1)) for _ in range(10)]
        answered = [asyncio.ensure_future(answer(reader)) for reader, _ in greedy]
        async with asyncio.timeout(90):
            while sum(one.done() for one in answered) < 8:
                await asyncio.sleep(0.01)
        for status, head, said in (one.result() for one in answered if one.done()):
            assert (status, said["error"]) == (503, "SERVICE_UNAVAILABLE")
            assert b"Retry-After: " in head
        assert sum(one.done() for one in answered) == 8
        # Whoever sends little is not held up.
        honest[1].write(small[-1:])
        assert (await asyncio.wait_for(answer(honest[0]), 10))[0] == 404
        for one in answered:
            one.cancel()


async def test_what_is_unpacked_counts_too(server: RedisProcess, begin: Begin) -> None:
    async with scheduler_on(server.url, server__max_unfinished_bytes=2 * MB) as (scheduler, _):
        bomb = gzip.compress(bytes(4 * MB))
        reader, _ = await begin(scheduler.port, "/v1/dispatch/f2f", len(bomb), bomb, "Content-Encoding: gzip\r\n")
        assert (await asyncio.wait_for(answer(reader), 10))[0] == 503


@pytest.mark.parametrize("is_packed", [False, True])
async def test_reading_a_body_is_paid_for(
    server: RedisProcess, begin: Begin, monkeypatch: pytest.MonkeyPatch, is_packed: bool
) -> None:

    def slowly(*arguments: Any) -> Any:
        until_s = thread_time() + 0.08
        while thread_time() < until_s:
            pass
        return decode_body(*arguments)

    monkeypatch.setattr("lingua_scheduler.console.operations.decode_body", slowly)
    async with scheduler_on(server.url) as (scheduler, _):
        body = json.dumps({"node_id": "node-nobody"}).encode().ljust(20_000)
        sent, more = (gzip.compress(body), "Content-Encoding: gzip\r\n") if is_packed else (body, "")
        reader, writer = await begin(scheduler.port, "/v1/node/poll", len(sent), sent, more)
        assert (await answer(reader))[0] == 404
        began_s = monotonic()
        writer.write(b"GET /v1/pools HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await answer(reader))[0] == 200
        # 20 ms were in reserve; a fifth of a core pays for 60 in 300.
        assert monotonic() - began_s > 0.2


def empty_blocks(size: int) -> bytes:
    """About so many bytes of gzip that decompress to nothing: blocks with a code of their own and no content."""
    # Eight blocks fill whole bytes. Each: not the last, own codes; lengths of the code lengths; 256 absent symbols, the
    # end of the block, one distance; the end of the block.
    lengths = "".join("100" if place in (2, 17) else "000" for place in range(18))
    block = "001" + "00000" + "00000" + "0111" + lengths + "1" + "1111111" + "1" + "1101011" + "0" + "0" + "0"
    bits = block * 8
    unit = bytes(int(bits[at : at + 8][::-1], 2) for at in range(0, len(bits), 8))
    return gzip.compress(b"")[:10] + unit * (size // len(unit)) + zlib.compress(b"", wbits=-15) + bytes(8)


async def longest_stretch(stop: asyncio.Event) -> float:
    """The most CPU that the loop spent without giving others their turn."""
    longest_s, before_s = 0.0, thread_time()
    while not stop.is_set():
        await asyncio.sleep(0)
        now_s = thread_time()
        longest_s, before_s = max(longest_s, now_s - before_s), now_s
    return longest_s


async def test_compressed_nothing_does_not_hold_up_others(server: RedisProcess, begin: Begin) -> None:
    bomb = empty_blocks(4 * MB)
    async with scheduler_on(server.url) as (scheduler, _):
        stop = asyncio.Event()
        watching = asyncio.ensure_future(longest_stretch(stop))
        reader, _ = await begin(scheduler.port, "/v1/dispatch/f2f", len(bomb), bomb, "Content-Encoding: gzip\r\n")
        status, _, said = await asyncio.wait_for(answer(reader), 60)
        stop.set()
        assert (status, said["error"]) == (400, "INVALID_MESSAGE")
        assert await watching < 0.1
