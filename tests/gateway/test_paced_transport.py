"""Slow readers over TLS: what waits for them is counted whole, comes in order, and leaves no memory behind."""

import asyncio
import socket
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import aiohttp
import pytest
from aiohttp import WSMsgType, web

from lingua_scheduler.domain.guards.addresses import AddressBook
from lingua_scheduler.gateway import outbox as outboxes
from lingua_scheduler.gateway import socket_pump
from lingua_scheduler.gateway.fair_queue import FairQueue
from lingua_scheduler.gateway.outbox import Outbox
from lingua_scheduler.gateway.paced_transport import PIECE_BYTES, PacedTransport
from lingua_scheduler.gateway.sites import Listening, Runner, listen
from lingua_scheduler.gateway.socket_pump import Sockets
from lingua_scheduler.gateway.tls_listener import Tls
from lingua_scheduler.gateway.valve import SocketRates
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.telemetry import metrics
from tests.support.access import nobody_live
from tests.support.certificates import Authority
from tests.support.schedulers import settings_with
from tests.support.waiting import until

MAX_BYTES = 8_388_608
FRAME = bytes(20_000)
# What TLS and the event loop hold of a connection and do not tell, and by how much the system's buffer grows.
UNTOLD_BYTES = 4 * PIECE_BYTES + 4_194_304
PEERS = 20
# Without pacing each of them keeps about 8 MB.
MOST_KEPT_MB = PEERS * 3
UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


class Slow:
    """A client that reads only what it is asked to, and has little room in its system."""

    def __init__(self, port: int, trust: ssl.SSLContext) -> None:
        plain = socket.socket()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        plain.connect(("127.0.0.1", port))
        self._link = trust.wrap_socket(plain, server_hostname="localhost")
        self._link.sendall(UPGRADE)
        while not self._link.recv(4_096).endswith(b"\r\n\r\n"):
            pass

    def read(self, size: int) -> int:
        taken = 0
        while taken < size:
            taken += len(self._link.recv(65_536))
        return taken

    def close(self) -> None:
        self._link.close()


class Served:
    def __init__(self, port: int, book: AddressBook, trust: ssl.SSLContext, outboxes: asyncio.Queue[Outbox]) -> None:
        self.port = port
        self._book = book
        self.trust = trust
        self.outboxes = outboxes
        self.links: list[Slow] = []

    @property
    def places(self) -> int:
        return self._book._places["127.0.0.1"]

    async def slow(self) -> tuple[Slow, Outbox]:
        link = await asyncio.to_thread(Slow, self.port, self.trust)
        self.links.append(link)
        return link, await self.outboxes.get()


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as served:
        yield served


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Served]:
    settings = settings_with(server__outbox_max_bytes=MAX_BYTES).server
    sockets = Sockets(settings, FairQueue(1.0), nobody_live())
    authority, book = Authority(folder), AddressBook((), (), 1_000, 1_000, 1.0)
    opened: asyncio.Queue[Outbox] = asyncio.Queue()

    async def handle(request: web.Request) -> web.WebSocketResponse:
        accepted, outbox = await sockets.accept(request, SocketRates(1_000, 10_000_000, 2))
        opened.put_nowait(outbox)
        async for _ in sockets.frames(accepted, outbox, sockets.manners(accepted, outbox, "session")):
            pass
        return accepted

    app = web.Application()
    app.router.add_get("/", handle)
    runner = Runner(app, book, FairQueue(1.0), settings, shutdown_timeout=0.1)
    await runner.setup()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.serve())
    ((_, port),) = await listen(runner, Listening("127.0.0.1", 0), Tls(lambda: context, 60.0))
    made = Served(port, book, authority.trusted(), opened)
    try:
        yield made
    finally:
        for link in made.links:
            link.close()
        await sockets.close()
        await runner.cleanup()


def waiting(outbox: Outbox) -> int:
    return outbox._transport.get_write_buffer_size()


def has_left(outbox: Outbox) -> bool:
    return waiting(outbox) == 0


async def fill(outbox: Outbox, size: int) -> int:
    """Post until so much waits; how much was posted."""
    posted = 0
    while waiting(outbox) < size:
        assert outbox.post_frame(FRAME)
        posted += len(FRAME)
        await asyncio.sleep(0)
    return posted


def resident_mb() -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


async def test_a_peer_that_reads_a_little_still_has_the_rest_to_read(served: Served) -> None:
    link, outbox = await served.slow()
    assert isinstance(outbox._transport, PacedTransport)
    await fill(outbox, MAX_BYTES - 300_000)
    before, taken = waiting(outbox), 0
    while waiting(outbox) > before - 1_000_000:
        taken += await asyncio.to_thread(link.read, 100_000)
        assert waiting(outbox) >= before - taken - UNTOLD_BYTES


@pytest.mark.skipif(sys.platform != "linux", reason="reads memory from /proc")
async def test_who_was_slow_once_leaves_no_memory_behind(served: Served) -> None:
    before_mb = resident_mb()
    for _ in range(PEERS):
        link, outbox = await served.slow()
        posted = await fill(outbox, MAX_BYTES - 300_000)
        await asyncio.to_thread(link.read, posted)
        await until(partial(has_left, outbox))
    kept_mb = resident_mb() - before_mb
    print(f"{PEERS} peers that had 8 MB to read, and read them, keep {kept_mb:.1f} MB")
    assert kept_mb < MOST_KEPT_MB


async def test_all_arrives_in_order_whatever_its_size(served: Served) -> None:
    sizes = [1, 100, 70_000, 20_000, 3_000_000, 5, 9_000, 65_536, 65_537, 1_000_000, 10]
    async with aiohttp.ClientSession() as http:
        client = await http.ws_connect(f"https://localhost:{served.port}/", ssl=served.trust, max_msg_size=0)
        outbox = await served.outboxes.get()
        posted = [f"{number}:".encode() + b"x" * size for number, size in enumerate(sizes)]
        for _ in range(3):
            for frame in posted:
                assert outbox.post_frame(frame)
            for frame in posted:
                assert (await client.receive_str()).encode() == frame
        assert waiting(outbox) == 0
        await client.close()


async def test_who_reads_again_finds_all_that_was_accepted_and_the_code(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Reading it may take long here.
    monkeypatch.setattr(outboxes, "CLOSE_TIMEOUT_S", 600.0)
    monkeypatch.setattr(socket_pump, "CLOSE_TIMEOUT_S", 600.0)
    async with aiohttp.ClientSession() as http:
        client = await http.ws_connect(f"https://localhost:{served.port}/", ssl=served.trust, max_msg_size=0)
        outbox = await served.outboxes.get()
        assert client._response.connection is not None
        transport = client._response.connection.transport
        assert transport is not None
        transport.pause_reading()
        before, accepted = metrics.OVERFLOWS._value.get(), 0
        while outbox.post_frame(FRAME):
            accepted += 1
            assert waiting(outbox) + outbox.pending_bytes <= MAX_BYTES + len(FRAME)
            await asyncio.sleep(0)
        assert metrics.OVERFLOWS._value.get() == before + 1
        transport.resume_reading()
        for _ in range(accepted):
            assert len(await client.receive_str()) == len(FRAME)
        end = await client.receive()
        assert (end.type, end.data) == (WSMsgType.CLOSE, CloseCode.TOO_SLOW)


async def test_who_never_reads_is_gone_after_the_goodbye_and_frees_all(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outboxes, "CLOSE_TIMEOUT_S", 0.1)
    _, outbox = await served.slow()
    while outbox.post_frame(FRAME):
        await asyncio.sleep(0)
    # Long before the TLS layer itself would end it.
    await until(lambda: served.places == 0)
    assert isinstance(outbox._transport, PacedTransport)
    assert outbox._transport._waiting_bytes == 0
    assert not outbox._transport._waiting


class Below(asyncio.Transport):
    """Takes so many pieces, and then asks for a pause."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = bytearray()
        self.pieces = 0
        self.paced = PacedTransport(self)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.taken += data
        self.pieces -= 1
        if not self.pieces:
            self.paced.pause()

    def get_write_buffer_size(self) -> int:
        return 0


def test_what_waits_is_counted_to_the_byte_also_in_the_middle_of_a_large_message() -> None:
    below, large = Below(), bytes(range(256)) * (4 * PIECE_BYTES // 256)
    below.pieces = 1
    below.paced.write(large)
    below.paced.write(b"end")
    assert len(below.taken) == PIECE_BYTES
    assert below.paced.get_write_buffer_size() == 3 * PIECE_BYTES + 3
    below.pieces = 2
    assert not below.paced.resume()
    assert below.paced.get_write_buffer_size() == PIECE_BYTES + 3
    assert below.paced.resume()
    assert below.paced.get_write_buffer_size() == 0
    assert below.taken == large + b"end"
