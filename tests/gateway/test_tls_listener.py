"""Connections that begin with a TLS handshake: they have a place from the first moment, and a deadline."""

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from lingua_scheduler.domain.guards.addresses import AddressBook
from lingua_scheduler.gateway import tls_listener
from lingua_scheduler.gateway.connections import Connection
from lingua_scheduler.gateway.fair_queue import FairQueue
from lingua_scheduler.gateway.sites import Listening, Runner, listen
from lingua_scheduler.gateway.tls_listener import Tls
from lingua_scheduler.setting_sections.server import ServerSettings
from lingua_scheduler.telemetry import metrics
from tests.support.certificates import Authority, CertFiles
from tests.support.waiting import until

MOST = 10


class Served:
    def __init__(self, authority: Authority, runner: Runner, book: AddressBook) -> None:
        self.authority = authority
        self.runner = runner
        self.book = book
        self.use(authority.serve())
        self.port = 0

    def use(self, files: CertFiles) -> None:
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(*files)

    def context(self) -> ssl.SSLContext:
        return self._context

    @property
    def places(self) -> int:
        return self.book._places["127.0.0.1"]

    async def asked(self, trust: ssl.SSLContext | None = None) -> tuple[int, str]:
        """Over a connection of its own."""
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"https://localhost:{self.port}/", ssl=trust or self.authority.trusted()) as response,
        ):
            return response.status, await response.text()

    def silent(self, count: int, first: bytes = b"") -> list[socket.socket]:
        opened = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(count)]
        for one in opened:
            one.setblocking(False)
            one.send(first)
        return opened

    def slow_ones(self) -> list[socket.socket]:
        """Half of them say nothing, half of them begin to say hello."""
        return [*self.silent(4), *self.silent(4, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")]


async def _page(request: web.Request) -> web.Response:
    connection = request.protocol
    assert isinstance(connection, Connection)
    text = f"{request.scheme} {connection.caller.address} {connection.local_address} {connection.is_one_too_many}"
    return web.Response(text=text)


@asynccontextmanager
async def serving(folder: Path, handshake_s: float, **place: Any) -> AsyncIterator[Served]:
    app = web.Application()
    app.router.add_get("/", _page)
    book = AddressBook((), (), MOST, 1_000, 1.0)
    runner = Runner(app, book, FairQueue(1.0), ServerSettings(), shutdown_timeout=0.1)
    await runner.setup()
    served = Served(Authority(folder), runner, book)
    bound = await listen(runner, Listening("127.0.0.1", 0, **place), Tls(served.context, handshake_s))
    served.port = bound[0][1]
    yield served
    await runner.cleanup()
    assert served.places == 0


def cut(reason: str) -> float:
    return float(metrics.CONNECTIONS_CUT.labels(reason)._value.get())


async def is_gone(link: socket.socket) -> bool:
    """Whatever is said to it before."""
    loop = asyncio.get_running_loop()
    try:
        while await loop.sock_recv(link, 4_096):
            pass
    except ConnectionError:
        pass
    link.close()
    return True


async def test_https_is_served_and_plain_http_is_not(tmp_path: Path) -> None:
    async with serving(tmp_path, 10.0) as served:
        assert await served.asked() == (200, "https 127.0.0.1 127.0.0.1 False")
        before = cut("handshake")
        with pytest.raises(aiohttp.ClientError):
            async with aiohttp.ClientSession() as http:
                await http.get(f"http://127.0.0.1:{served.port}/")
        # The client tries again by itself.
        await until(lambda: cut("handshake") > before)


async def test_sockets_that_listen_already_are_used(tmp_path: Path) -> None:
    opened = tuple(socket.create_server(("127.0.0.1", 0)) for _ in range(2))
    async with serving(tmp_path, 10.0, sockets=opened) as served:
        assert served.port == opened[0].getsockname()[1]
        for one in opened:
            served.port = one.getsockname()[1]
            assert (await served.asked())[0] == 200


async def test_slow_handshakes_have_places_of_their_address_and_end_at_the_deadline(tmp_path: Path) -> None:
    async with serving(tmp_path, 600.0) as served:
        before = cut("handshake")
        links = served.slow_ones()
        await until(lambda: served.places == 8)
        assert (await served.asked())[1].endswith("False"), "the next of that address is within its limit"
        for link in links:
            link.close()
        await until(lambda: served.places == 0)
        assert cut("handshake") == before + 8
        assert served.runner.tls is not None
        served.runner.tls.handshake_s = 0.5
        assert all(await asyncio.gather(*map(is_gone, served.slow_ones())))
        await until(lambda: served.places == 0)
        assert cut("handshake") == before + 16


async def test_an_address_with_too_many_handshakes_is_told_and_with_far_too_many_cut_off(tmp_path: Path) -> None:
    async with serving(tmp_path, 60.0) as served:
        links = served.silent(MOST)
        await until(lambda: served.places == MOST)
        assert (await served.asked())[1].endswith("True")
        await until(lambda: served.places == MOST)
        links += served.silent(MOST)
        await until(lambda: served.places == 2 * MOST)
        before = cut("sockets")
        (one_more,) = served.silent(1)
        assert await is_gone(one_more)
        assert (cut("sockets"), served.places) == (before + 1, 2 * MOST)
        for link in links:
            link.close()
        await until(lambda: served.places == 0)


async def test_handshakes_that_wait_when_the_listener_closes_are_ended(tmp_path: Path) -> None:
    async with serving(tmp_path, 600.0) as served:
        links = served.silent(3)
        await until(lambda: served.places == 3)
    assert all(await asyncio.gather(*map(is_gone, links)))


async def test_the_next_connection_gets_the_newer_certificate_and_open_ones_stay(tmp_path: Path) -> None:
    async with serving(tmp_path, 10.0) as served:
        other = Authority(tmp_path / "other")
        async with aiohttp.ClientSession() as http:
            url, trust = f"https://localhost:{served.port}/", served.authority.trusted()
            async with http.get(url, ssl=trust) as response:
                assert response.status == 200
            served.use(other.serve())
            assert (await served.asked(other.trusted()))[0] == 200
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await served.asked(trust)
            # Its connection is kept alive.
            async with http.get(url, ssl=trust) as response:
                assert response.status == 200


async def test_without_free_descriptors_it_pauses_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_listener, "PAUSE_S", 0.01)
    listener = FailingOnce()
    async with serving(tmp_path, 10.0, sockets=(listener,)) as served:
        assert (await served.asked())[0] == 200
        assert listener.failures == 1


class FailingOnce(socket.socket):
    def __init__(self) -> None:
        super().__init__()
        self.bind(("127.0.0.1", 0))
        self.listen()
        self.failures = 0

    def accept(self) -> tuple[socket.socket, Any]:
        if not self.failures:
            self.failures += 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return super().accept()
