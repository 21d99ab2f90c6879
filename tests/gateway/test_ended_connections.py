"""However a connection ends, it is freed at once: a cycle would keep it until a full collection, which is rare."""

import asyncio
import socket
import ssl
import struct
from collections.abc import Sequence
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lingua_sdk.domain.key_texts import KeyKind
from tests.support.access import made_key, write_keys_file
from tests.support.bare import frame, handshake
from tests.support.certificates import Authority
from tests.support.collecting import watched
from tests.support.peers import registration
from tests.support.servers import RedisProcess

TIMES = 10
FRAME_BYTES = 16_384
PATIENCE_S = 30.0
NO_LINGER = struct.pack("ii", 1, 0)
CLOSE, PING = 8, 9


class Wait(Enum):
    """What a peer waits for after its last word."""

    ANSWER = auto()
    END = auto()
    NOTHING = auto()


class Way(NamedTuple):
    """What a peer says, in parts of which each but the last is answered, and how it goes."""

    name: str
    parts: Sequence[bytes]
    waits_for: Wait = Wait.ANSWER
    resets: bool = False


class Peer:
    """One TCP connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def go(self, way: Way) -> None:
        try:
            for number, part in enumerate(way.parts, 1):
                with suppress(ConnectionError):
                    self._writer.write(part)
                    await self._writer.drain()
                await self._wait(way.waits_for if number == len(way.parts) else Wait.ANSWER)
            if way.resets:
                link = self._writer.get_extra_info("socket")
                link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
                self._writer.transport.abort()
        finally:
            self._writer.close()

    async def _wait(self, waits_for: Wait) -> None:
        async with asyncio.timeout(PATIENCE_S):
            with suppress(ConnectionError):
                while waits_for is not Wait.NOTHING:
                    if not await self._reader.read(65_536) or waits_for is Wait.ANSWER:
                        break


def request(method: str, path: str, *headers: str, body: bytes = b"") -> bytes:
    return "\r\n".join((f"{method} {path} HTTP/1.1", "Host: localhost", *headers, "", "")).encode() + body


def upload(*headers: str, body: bytes) -> bytes:
    return request("POST", "/v1/dispatch/f2f", "Content-Type: application/json", *headers, body=body)


def upgrade(path: str, former: bytes, latter: bytes) -> bytes:
    return handshake(path).replace(former, latter)


CHAT, WORK = handshake("/ws/session"), handshake("/ws/node")
INIT = frame(
    {
        "type": "session_init",
        "client_version": "web-client-v1.0",
        "platform": "web",
        "src_lang": "en",
        "tgt_lang": "zh",
    }
)
RUBBISH = frame(b"{rubbish")
HALF_A_FRAME = b"\x81\xfe\x10\x00\0\0\0\0abc"
GUESSES = b"".join(frame({"type": "session_close", "session_id": f"s-{number}"}) for number in range(60))
MUTE = {"asr_languages": [], "tts_languages": [], "semantic_languages": [], "semantic_core_ready": True}

SOCKETS = (
    Way("reset", (CHAT,), resets=True),
    Way("left without a word", (CHAT,)),
    Way("closed", (CHAT, frame(struct.pack("!H", 1000), CLOSE)), Wait.END),
    Way("closed with half a code", (CHAT, frame(b"\x01", CLOSE)), Wait.END),
    Way("a session, reset", (CHAT, INIT), resets=True),
    Way("a session, left without a word", (CHAT, INIT)),
    Way("a session, reset within a frame", (CHAT, INIT, HALF_A_FRAME), Wait.NOTHING, resets=True),
    Way("a session, left within a frame", (CHAT, INIT, HALF_A_FRAME), Wait.NOTHING),
    Way("not masked", (CHAT, b"\x81\x05hello"), Wait.END),
    Way("no such opcode", (CHAT, frame(b"x", 7)), Wait.END),
    Way("reserved bits", (CHAT, b"\xf1\x80\0\0\0\0"), Wait.END),
    Way("no text", (CHAT, INIT, frame(b"\xff\xfe"))),
    Way("longer than can be", (CHAT, b"\x81\xff" + struct.pack("!Q", 2**40) + bytes(4)), Wait.END),
    Way("too long", (CHAT, INIT, frame(b"x" * 2 * FRAME_BYTES))),
    Way("too much rubbish", (CHAT, RUBBISH * 300), Wait.END),
    Way("guesses", (CHAT, INIT, GUESSES), Wait.END),
    Way("pings", (CHAT, frame(b"p", PING) * 50), resets=True),
)
NODES = (
    Way("reset before it registers", (WORK,), resets=True),
    Way("beats before it registers", (WORK, frame({"type": "node_heartbeat", "node_id": "x"}))),
    Way("reset while it registers", (WORK, frame(registration())), Wait.NOTHING, resets=True),
    Way("refused", (WORK, frame(registration(language_capabilities=MUTE)))),
    Way("registered", (WORK, frame(registration()))),
    Way("replaced by its like", (WORK, frame(registration(node_id="twin")))),
)
REQUESTS = (
    Way("half a line", (b"GET /health HT",), Wait.NOTHING, resets=True),
    Way("no HTTP", (b"\x16\x03\x01\x02\x00garbage\r\n\r\n",), Wait.END),
    Way("too long a header", (request("GET", "/health", "X: " + "a" * 20_000),), Wait.END),
    Way("no such path", (request("GET", "/nowhere"),)),
    Way("no such method", (request("DELETE", "/health"),)),
    Way("no such socket", (handshake("/ws/nowhere"),)),
    Way("no upgrade", (request("GET", "/ws/session"),)),
    Way("no such version", (upgrade("/ws/session", b"Version: 13", b"Version: 9"),)),
    Way("a foreign page", (upgrade("/ws/session", b"Upgrade: w", b"Origin: http://other.example\r\nUpgrade: w"),)),
    Way("half a body, reset", (upload("Content-Length: 500", body=b'{"a":'),), Wait.NOTHING, resets=True),
    Way("half a body", (upload("Content-Length: 500", body=b'{"a":'),), Wait.NOTHING),
    Way("no such chunk", (upload("Transfer-Encoding: chunked", body=b"zz\r\n"),)),
    Way("no gzip", (upload("Content-Encoding: gzip", "Content-Length: 5", body=b"abcde"),)),
    Way("many at once", (request("GET", "/health") * 20,)),
    Way("answers nobody reads", (request("GET", "/metrics") * 8,), Wait.NOTHING, resets=True),
)
STRANGERS = (
    Way("a client without a key", (CHAT,)),
    Way("a node without a key", (WORK,)),
    Way(
        "a client with a wrong key", (upgrade("/ws/session", b"Upgrade: w", b"Authorization: Bearer x\r\nUpgrade: w"),)
    ),
    Way("a request without a key", (request("GET", "/v1/nodes"),)),
    Way("a request with a body, without a key", (upload("Content-Length: 7", body=b'{"a":1}'),)),
    Way("a path that nobody has", (request("GET", "/nowhere"),)),
)
HALF_A_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32)
PLAIN = (
    Way("half a handshake", (HALF_A_HELLO,), Wait.NOTHING),
    Way("half a handshake, reset", (HALF_A_HELLO,), Wait.NOTHING, resets=True),
    Way("no handshake", (request("GET", "/health"),), Wait.END),
)


async def connected(port: int, tls: ssl.SSLContext | None = None) -> Peer:
    return Peer(*await asyncio.open_connection("localhost" if tls else "127.0.0.1", port, ssl=tls))


async def check(url: str, ways: Sequence[Way], tls: ssl.SSLContext | None = None, **settings: Any) -> None:
    async with watched(url, server__max_frame_bytes=FRAME_BYTES, **settings) as scheduler:

        async def go(way: Way) -> None:
            await (await connected(scheduler.port, tls)).go(way)

        async def all_go(times: int) -> None:
            for _ in range(times):
                await asyncio.gather(*map(go, ways))

        # What is done for the first time makes types and caches.
        await all_go(1)
        await scheduler.cycles()
        found = await scheduler.cycles_each_time(all_go, TIMES)
        # Of one way alone, each time, there would be more.
        assert sum(found.values()) < TIMES, found


@pytest.mark.parametrize("ways", [SOCKETS, NODES, REQUESTS], ids=["sockets", "nodes", "requests"])
async def test_no_connection_leaves_a_cycle(server: RedisProcess, ways: Sequence[Way]) -> None:
    await check(server.url, ways)


async def test_no_refused_stranger_leaves_a_cycle(server: RedisProcess, tmp_path: Path) -> None:
    keys = write_keys_file(tmp_path / "keys.toml", made_key(KeyKind.CLIENT))
    await check(server.url, STRANGERS, auth__mode="required", auth__keys_file=keys)


async def test_nobody_of_an_address_that_has_too_many_leaves_a_cycle(server: RedisProcess) -> None:
    # Some are told so, and the rest are closed without a word.
    await check(server.url, (Way("one of too many", (CHAT,)),), server__max_sockets_per_address=2)


async def test_no_tls_connection_leaves_a_cycle(server: RedisProcess, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = authority.serve()
    tls: dict[str, Any] = {"server__tls_cert_file": str(files.cert), "server__tls_key_file": str(files.key)}
    await check(server.url, PLAIN, **tls)
    await check(server.url, SOCKETS[:6], authority.trusted(), **tls)
