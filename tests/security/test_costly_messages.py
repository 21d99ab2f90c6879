"""Messages that cost more than their size, or never end: each is refused or cut off, and people beside it go on."""

import asyncio
import gzip
import json
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from time import perf_counter

from tests.support.bare import Bare, handshake
from tests.support.peers import FakeClient, Field, field
from tests.support.schedulers import ServeProcess, serve_command
from tests.support.servers import RedisProcess
from tests.support.waiting import until

MB = 1_000_000
INIT = {"type": "session_init", "client_version": "1", "platform": "web", "src_lang": "en", "tgt_lang": "zh"}
BRACKETS = json.dumps(INIT).encode()[:-1] + b', "features": {"x": [' + b"[]," * 1_380_000 + b"[]]}}"
# Long enough to be read, not long enough to be closed unread.
HALF_A_MESSAGE = b"\x81\xff" + struct.pack("!Q", 16 * MB) + bytes(4) + bytes(15 * MB)


def memory_mb(process: ServeProcess) -> float:
    """The most it ever had."""
    status = Path(f"/proc/{process.process.pid}/status").read_text()
    return next(int(line.split()[1]) / 1000 for line in status.splitlines() if line.startswith("VmHWM"))


def cpu_s(process: ServeProcess) -> float:
    fields = Path(f"/proc/{process.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


@asynccontextmanager
async def bare(port: int, path: str) -> AsyncIterator[Bare]:
    peer = Bare(*await asyncio.open_connection("127.0.0.1", port))
    peer.writer.write(handshake(path))
    await peer.head()
    try:
        yield peer
    finally:
        peer.writer.transport.abort()


async def slowest(client: FakeClient, first: int, while_this: Callable[[], Awaitable[object]]) -> tuple[float, int]:
    """How long the slowest of a client's utterances took while something went on, in ms, and the next number."""
    attack, worst, index = asyncio.ensure_future(while_this()), 0.0, first
    while not attack.done() or index == first:
        began = perf_counter()
        await client.utterance(index)
        assert (await client.outcome(within_s=20))["type"] == "translation_result"
        worst, index = max(worst, (perf_counter() - began) * 1000), index + 1
    await attack
    return worst, index


async def test_h102_and_other_costly_messages_beside_a_conversation(server: RedisProcess, tmp_path: Path) -> None:
    unfinished = ("--set", f"server.max_unfinished_bytes={32 * MB}")
    async with serve_command(tmp_path, "--redis-url", server.url, *unfinished) as process:
        await until(lambda: process.port, within_s=30)
        async with field(process.port) as peers, AsyncExitStack() as sockets:
            await peers.node()
            client = await peers.client()
            before, said = await slowest(client, 0, lambda: asyncio.sleep(0.3))
            had_mb = memory_mb(process)

            async def brackets() -> None:
                """Three clients, each a legal frame of 4.1 MB with a million lists in it."""
                others = [await peers.socket("/ws/session") for _ in range(3)]
                for other in others:
                    await other.socket.send_bytes(b"\x07")
                    await other.socket.send_str(BRACKETS.decode())
                for other in others:
                    await other.next("error")
                    assert "besides its speech" in (await other.next("error"))["message"]

            took, said = await slowest(client, said, brackets)
            print(f"brackets: slowest {before:.0f} ms before, {took:.0f} during; {memory_mb(process) - had_mb:.0f} MB")
            assert memory_mb(process) - had_mb < 300

            async def half_messages() -> None:
                """Ten messages that do not end: 150 MB, if all of it were kept."""
                for _ in range(10):
                    peer = await sockets.enter_async_context(bare(process.port, "/ws/session"))
                    peer.writer.write(HALF_A_MESSAGE)
                await asyncio.sleep(1)

            had_mb = memory_mb(process)
            took, said = await slowest(client, said, half_messages)
            print(f"half messages: slowest {took:.0f} ms during; {memory_mb(process) - had_mb:.0f} MB")
            assert memory_mb(process) - had_mb < 100

            async def bombs() -> None:
                """H102: a gigabyte packed into a megabyte, and a body that never ends."""
                used_s = cpu_s(process)
                paths = "/v1/dispatch/f2f", "/v1/node/heartbeat", "/nowhere"
                answers = await asyncio.gather(*(send(peers, path) for send in (packed, endless) for path in paths))
                assert answers == [413, 413, 404] * 2
                # Nothing but the operation itself unpacks, or this would be unpacked twice.
                honest = gzip.compress(json.dumps({"node_id": "node-NOBODY"}).encode())
                assert await posted_packed(peers, "/v1/node/heartbeat", honest) != 400
                print(f"bodies: {cpu_s(process) - used_s:.2f} s of CPU for six of them")

            had_mb = memory_mb(process)
            took, said = await slowest(client, said, bombs)
            print(f"bodies: slowest {took:.0f} ms during; {memory_mb(process) - had_mb:.0f} MB")
            assert memory_mb(process) - had_mb < 100


BOMB = gzip.compress(bytes(200 * MB), 1)


async def packed(peers: Field, path: str) -> int:
    return await posted_packed(peers, path, BOMB)


async def posted_packed(peers: Field, path: str, body: bytes) -> int:
    # It is read to its end, as it came, so nothing has to be cut off.
    head = f"Content-Encoding: gzip\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
    return await posted(peers.port, path, head, [body])


async def endless(peers: Field, path: str) -> int:
    chunk = b"10000\r\n" + bytes(65_536) + b"\r\n"
    # A gigabyte: whoever reads all of it has not cut it off.
    return await posted(peers.port, path, "Transfer-Encoding: chunked\r\n", [chunk] * 16_000)


async def posted(port: int, path: str, head: str, parts: list[bytes]) -> int:
    """The status; the connection must end, before the whole of an endless body is sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n{head}\r\n".encode())

    async def send() -> int:
        sent = 0
        try:
            for part in parts:
                writer.write(part)
                await writer.drain()
                sent += len(part)
        except ConnectionError:
            pass
        return sent

    sending = asyncio.create_task(send())
    async with asyncio.timeout(90):
        status = int((await reader.readuntil(b"\r\n\r\n")).split()[1])
        try:
            while await reader.read(65_536):
                pass
        except ConnectionError:
            pass
        assert await sending < 100 * MB
    writer.transport.abort()
    return status
