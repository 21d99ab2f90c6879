"""A connection rests when its requests cost much to parse: nothing is lost by it, and the order stays."""

import asyncio
import json
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from lingua_scheduler.domain.access.principals import Principal
from lingua_scheduler.gateway import connections
from lingua_scheduler.gateway.socket_pump import Sockets
from lingua_scheduler.gateway.valve import SocketRates
from lingua_scheduler.telemetry import metrics
from tests.support.peers import field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

HEAD = b"POST /v1/node/poll HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
ASK = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
ASK_MUCH = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
MISS = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n"


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
    async with scheduler_on(server.url) as (scheduler, _), asyncio.timeout(90):
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


async def test_only_who_asks_without_waiting_is_charged_for_the_answers(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests: list[float] = []

    async def rest(wait_s: float) -> None:
        rests.append(wait_s)

    monkeypatch.setattr(connections, "asyncio", SimpleNamespace(**vars(asyncio) | {"sleep": rest}))
    async with scheduler_on(server.url, server__max_connection_cpu_percent=1) as (scheduler, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", scheduler.port)
        for _ in range(40):
            # Some milliseconds for each: more than it may take at once.
            writer.write(ASK_MUCH)
            assert (await answer(reader))[0] == 200
        assert not rests
        writer.write((ASK + MISS) * 200)
        for _ in range(200):
            assert await answer(reader) == (200, b"OK")
            assert (await answer(reader))[0] == 404
        assert rests
        await hang_up(writer)


@pytest.fixture
def met(monkeypatch: pytest.MonkeyPatch) -> list[connections.Connection]:
    """The connections that were made."""
    met: list[connections.Connection] = []
    made = connections.Connection.connection_made

    def remember(self: connections.Connection, transport: asyncio.BaseTransport) -> None:
        made(self, transport)
        met.append(self)

    monkeypatch.setattr(connections.Connection, "connection_made", remember)
    return met


@pytest.mark.parametrize("ticks", [0, 1], ids=["in one tick", "in the next tick"])
async def test_a_request_whose_connection_breaks_before_it_is_begun_is_dropped(
    server: RedisProcess, met: list[connections.Connection], caplog: pytest.LogCaptureFixture, ticks: int
) -> None:
    async with scheduler_on(server.url) as (scheduler, _), asyncio.timeout(90):
        _, writer = await asyncio.open_connection("127.0.0.1", scheduler.port)
        await until(lambda: met and met[0]._waiter is not None)
        (connection,) = met
        task = connection._task_handler
        assert task is not None
        # Both may be in one read of the loop.
        web.RequestHandler.data_received(connection, HEAD + b"Content-Length: 10\r\n\r\n")
        for _ in range(ticks):
            await asyncio.sleep(0)
        connection.connection_lost(None)
        await asyncio.wait([task])
        assert connection._current_request is None
        # Its body holds the connection: a ring, if it waited on.
        assert not connection._messages
        assert not [record for record in caplog.records if record.name == "aiohttp.server"]
        await hang_up(writer)


async def test_a_request_that_ends_in_the_tick_in_which_the_shutdown_gives_it_up_is_answered(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    met: list[connections.Connection] = []
    failures: list[Exception] = []
    is_stopping, finish = asyncio.Event(), connections.Connection.finish_response

    async def finish_late(self: connections.Connection, *arguments: Any) -> tuple[web.StreamResponse, bool]:
        met.append(self)
        await is_stopping.wait()
        answered = await finish(self, *arguments)
        assert self._handler_waiter is not None
        # What the time limit of aiohttp's shutdown does.
        self._handler_waiter.cancel()
        return answered

    async with scheduler_on(server.url) as (scheduler, _), asyncio.timeout(90):
        monkeypatch.setattr(connections.Connection, "finish_response", finish_late)
        monkeypatch.setattr(connections.Connection, "log_exception", lambda *_, exc_info: failures.append(exc_info))
        reader, writer = await asyncio.open_connection("127.0.0.1", scheduler.port)
        writer.write(ASK)
        await until(lambda: met)
        (connection,) = met
        stopping = asyncio.create_task(connection.shutdown(10))
        await until(lambda: connection._handler_waiter is not None)
        is_stopping.set()
        assert await answer(reader) == (200, b"OK")
        await stopping
        assert not failures
        await hang_up(writer)


@pytest.mark.parametrize(
    "malformed",
    [
        b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
        HEAD + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        HEAD + b"Content-Length: +1\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_counted_and_not_logged_with_a_traceback(
    server: RedisProcess, malformed: bytes
) -> None:
    def counted() -> float:
        return metrics.CONNECTIONS_CUT.labels("malformed")._value.get()

    before = counted()
    async with scheduler_on(server.url) as (scheduler, _), asyncio.timeout(90):
        reader, writer = await asyncio.open_connection("127.0.0.1", scheduler.port)
        writer.write(malformed)
        status, _ = await answer(reader)
        assert (status, await reader.read()) == (400, b"")
        await hang_up(writer)
    assert counted() == before + 1


@pytest.mark.parametrize("path", ["/ws/session", "/ws/node"])
@pytest.mark.parametrize("is_gone", [True, False], ids=["gone", "going"])
async def test_a_peer_that_leaves_during_its_handshake_is_no_error(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, path: str, is_gone: bool
) -> None:
    left: list[asyncio.Task[Any]] = []
    accept = Sockets.accept

    async def accept_late(self: Sockets, request: web.Request, rates: SocketRates, principal: Principal) -> Any:
        assert request.transport is not None
        request.transport.abort()
        if is_gone:
            await until(lambda: request.transport is None)
        if task := asyncio.current_task():
            left.append(task)
        return await accept(self, request, rates, principal)

    monkeypatch.setattr(Sockets, "accept", accept_late)
    async with scheduler_on(server.url) as (scheduler, _), aiohttp.ClientSession() as http, asyncio.timeout(90):
        with pytest.raises(aiohttp.ClientError):
            await http.ws_connect(f"http://127.0.0.1:{scheduler.port}{path}")
        # aiohttp's client tries a second time.
        await until(lambda: left and all(task.done() for task in left))
    assert not [record.getMessage() for record in caplog.records if record.name == "aiohttp.server"]
