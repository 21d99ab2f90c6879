"""What callers who leave early leave in memory: nothing. A flood of them needs no credential, and the garbage collector
looks at old objects only in quiet moments."""

import asyncio
import gc

import pytest

from lingua_scheduler.gateway.connections import Connection
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

KEY = "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
UPGRADE = f"Connection: Upgrade\r\nUpgrade: websocket\r\n{KEY}"
HALF = f"Content-Type: application/json\r\nContent-Length: 200000\r\n\r\n{'x' * 100_000}"
CHUNKS = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nxxxxx\r\nzz\r\n"


@pytest.mark.parametrize("waits", [True, False], ids=["answered", "not answered"])
@pytest.mark.parametrize(
    "asked",
    [
        "this is no HTTP\r\n\r\n",
        f"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {'x' * 50_000}\r\n\r\n",
        f"POST /v1/dispatch/f2f HTTP/1.1\r\nHost: 127.0.0.1\r\n{HALF}",
        f"POST /v1/dispatch/f2f HTTP/1.1\r\nHost: 127.0.0.1\r\n{CHUNKS}",
        f"POST /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\n{HALF}",
        f"POST /health HTTP/1.1\r\nHost: 127.0.0.1\r\n{HALF}",
        f"GET /ws/session HTTP/1.1\r\nHost: 127.0.0.1\r\n{UPGRADE}\r\n",
        "GET /v1/watch HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        "GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 40,
    ],
    ids=["no HTTP", "long header", "half a body", "bad chunk", "no path", "no method", "socket", "stream", "pipeline"],
)
async def test_callers_who_leave_early_leave_nothing(server: RedisProcess, asked: str, *, waits: bool) -> None:
    def connections() -> list[Connection]:
        return [one for one in gc.get_objects() if type(one) is Connection]

    async with scheduler_on(server.url) as (scheduler, _):
        gc.collect()
        before = len(connections())
        gc.disable()
        try:
            for _ in range(5):
                reader, writer = await asyncio.open_connection("127.0.0.1", scheduler.port)
                writer.write(asked.encode())
                await writer.drain()
                if waits and not asked.endswith("x"):
                    await reader.read(1)
                writer.transport.abort()
            await until(lambda: len(connections()) <= before, what="connections are freed")
        finally:
            gc.enable()
