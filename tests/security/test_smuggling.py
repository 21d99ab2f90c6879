"""Requests that two parsers may read differently, through the proxies of deploy/: what the proxy takes for a body never
becomes a request of its own, and no path gets around the list of public ones."""

import asyncio
from pathlib import Path

import pytest

from tests.support.peers import Field, field
from tests.support.proxies import SAMPLES, proxy
from tests.support.schedulers import serve_process
from tests.support.servers import RedisProcess
from tests.support.waiting import until

MARK = "smuggled"
HIDDEN = f"POST /v1/nodes/node-v/drain HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: {MARK}\r\nContent-Length: 0\r\n\r\n"
# What a last chunk and the hidden request are together.
LENGTH = len("0\r\n\r\n" + HIDDEN)
AFTER_LAST = "0\r\n\r\n" + HIDDEN
CHUNKED = "Transfer-Encoding: chunked\r\n"
# Headers of a POST, and what follows them.
POSTS = {
    "length, then chunked": (f"Content-Length: {LENGTH}\r\n{CHUNKED}", AFTER_LAST),
    "chunked, then length": (f"Content-Length: 4\r\n{CHUNKED}", f"{len(HIDDEN):x}\r\n{HIDDEN}\r\n0\r\n\r\n"),
    "no such coding": (f"Content-Length: {LENGTH}\r\nTransfer-Encoding: xchunked\r\n", AFTER_LAST),
    "a space before the colon": (f"Content-Length: {LENGTH}\r\nTransfer-Encoding : chunked\r\n", AFTER_LAST),
    "a control character": (f"Content-Length: {LENGTH}\r\nTransfer-Encoding: \x0bchunked\r\n", AFTER_LAST),
    "two codings": (f"Content-Length: {LENGTH}\r\nTransfer-Encoding: identity\r\n{CHUNKED}", AFTER_LAST),
    "not chunked last": (f"Content-Length: {LENGTH}\r\nTransfer-Encoding: chunked, identity\r\n", AFTER_LAST),
    "a folded line": (f"Content-Length: {LENGTH}\r\nX: y\r\n {CHUNKED}", AFTER_LAST),
    "a bare line feed": (f"Content-Length: {LENGTH}\r\nX: y\n{CHUNKED}", AFTER_LAST),
    "a bare carriage return": (f"Content-Length: {LENGTH}\r\nX: y\r{CHUNKED}", AFTER_LAST),
    "a header that is to be dropped": (
        f"Connection: Transfer-Encoding\r\nContent-Length: {LENGTH}\r\n{CHUNKED}",
        AFTER_LAST,
    ),
    "a length that is to be dropped": (f"Connection: Content-Length\r\nContent-Length: {len(HIDDEN)}\r\n", HIDDEN),
    "two lengths": (f"Content-Length: 0\r\nContent-Length: {len(HIDDEN)}\r\n", HIDDEN),
    "a list of lengths": (f"Content-Length: 0, {len(HIDDEN)}\r\n", HIDDEN),
    "a length with a sign": ("Content-Length: +0\r\n", HIDDEN),
    "a hexadecimal length": (f"Content-Length: 0x{len(HIDDEN):x}\r\n", HIDDEN),
    "a line feed in a chunk's extension": (CHUNKED, f"2;a\nxx\r\n{LENGTH:x}\r\n{AFTER_LAST}"),
    "the size of a chunk overflows": (CHUNKED, f"10000000000000000\r\n\r\n{HIDDEN}"),
    "a prefix of a chunk's size": (CHUNKED, f"0x0\r\n\r\n{HIDDEN}"),
    "more in a chunk than its size": (CHUNKED, f"2\r\n{{}}XX\r\n{AFTER_LAST}"),
    "a length in the trailer": (CHUNKED, f"0\r\nContent-Length: {len(HIDDEN)}\r\n\r\n{HIDDEN}"),
    "an upgrade with a body": ("Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 2\r\n", "{}" + HIDDEN),
}
_UPGRADE = "Connection: Upgrade\r\nUpgrade: {}\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
# Requests without a body; what follows them is the proxy's to judge.
GETS = {
    "a body of a GET": ("/v1/pools", f"Content-Length: {len(HIDDEN)}\r\n"),
    "an upgrade that is refused": ("/ws/session", _UPGRADE.format("websocket") + "Sec-WebSocket-Version: 99\r\n"),
    "an upgrade of a page": ("/v1/pools", _UPGRADE.format("websocket") + "Sec-WebSocket-Version: 13\r\n"),
    "an upgrade to HTTP/2": ("/v1/pools", _UPGRADE.format("h2c") + "HTTP2-Settings: AAMAAABkAARAAAAA\r\n"),
}
PATHS = (
    *("//metrics", "/./metrics", "/%6detrics", "/metrics#/../talk", "/talk/../metrics", "/talk/%2e%2e/metrics"),
    *("/talk/..%2fmetrics", "/talk/..;/metrics", "/talk/%252e%252e/metrics", "/shared/%5c..%5cmetrics"),
    *("/v1/dispatch/../../metrics", "/v1/node/%2e%2e%2f%2e%2e%2fmetrics", "/v1/pools/../../metrics"),
    *("http://localhost/metrics", "http://localhost/talk/../metrics"),
)
READ_S = 1.0


def attacks() -> dict[str, bytes]:
    found = {
        name: f"POST /v1/dispatch/f2f HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n{rest}"
        for name, (headers, rest) in POSTS.items()
    }
    found |= {
        name: f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n{HIDDEN}"
        for name, (path, headers) in GETS.items()
    }
    found |= {path: f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" for path in PATHS}
    return {name: text.encode("latin-1") for name, text in found.items()}


async def answer_to(port: int, attack: bytes) -> bytes:
    """All that comes until the connection is closed, or for a while."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(attack)
    found = b""
    try:
        async with asyncio.timeout(READ_S):
            while part := await reader.read(65_536):
                found += part
    except (TimeoutError, ConnectionError):
        pass
    writer.transport.abort()
    return found


async def is_in_service(peers: Field) -> bool:
    _, listed = await peers.get("/v1/nodes")
    return [node["state"] for node in listed["nodes"]] == ["ready"]


@pytest.mark.parametrize("name", SAMPLES)
async def test_no_request_is_smuggled_through_a_proxy(name: str, server: RedisProcess, tmp_path: Path) -> None:
    trusting = ("--set", "server.trusted_proxies=127.0.0.1/32", "--set", "auth.mode=off")
    async with serve_process(tmp_path, "--redis-url", server.url, *trusting) as process:
        await until(lambda: process.port, within_s=30)
        async with field(process.port) as peers, proxy(name, [process.port] * 3, tmp_path) as ports:
            await peers.node(node_id="node-v")
            await until(lambda: is_in_service(peers))
            tried = attacks()
            answers = await asyncio.gather(*(answer_to(ports.port, attack) for attack in tried.values()))
            told = dict(zip(tried, answers, strict=True))
            assert [
                attack for attack, told_it in told.items() if MARK.encode() in told_it or b"lingua_" in told_it
            ] == []
            assert await is_in_service(peers)
            # Connections to the instance that others may use next carry their own answers.
            async with field(ports.port) as honest:
                for _ in range(10):
                    status, pools = await honest.get("/v1/pools")
                    assert (status, "pairs" in pools) == (200, True)
            # The attack itself works where it is allowed.
            assert MARK.encode() in await answer_to(ports.inside, HIDDEN.encode())
            assert not await is_in_service(peers)
