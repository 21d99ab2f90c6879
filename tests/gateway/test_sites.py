"""Listeners: on addresses and on sockets that are open already, of either side."""

import errno
import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from lingua_scheduler.domain.guards.addresses import AddressBook
from lingua_scheduler.gateway.connections import Connection
from lingua_scheduler.gateway.fair_queue import FairQueue
from lingua_scheduler.gateway.sites import InternalPortError, Listening, Runner, listen
from lingua_scheduler.setting_sections.server import ServerSettings


async def _side(request: web.Request) -> web.Response:
    connection = request.protocol
    assert isinstance(connection, Connection)
    return web.Response(text=f"{request.scheme} {'internal' if connection.is_internal else 'public'}")


@pytest.fixture
async def runner() -> AsyncIterator[Runner]:
    app = web.Application()
    app.router.add_get("/", _side)
    made = Runner(app, AddressBook((), (), 100, 100, 1.0), FairQueue(1.0), ServerSettings(), shutdown_timeout=0.1)
    await made.setup()
    yield made
    await made.cleanup()


async def asked(url: str) -> str:
    async with aiohttp.ClientSession() as http, http.get(url) as response:
        return await response.text()


async def test_a_connection_knows_its_side(runner: Runner) -> None:
    ((_, public),) = await listen(runner, Listening("127.0.0.1", 0))
    ((_, internal),) = await listen(runner, Listening("127.0.0.1", 0, is_internal=True))
    assert await asked(f"http://127.0.0.1:{public}/") == "http public"
    assert await asked(f"http://127.0.0.1:{internal}/") == "http internal"


async def test_sockets_that_listen_already_are_used(runner: Runner) -> None:
    opened = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    bound = await listen(runner, Listening("0.0.0.0", 1, tuple(opened), is_internal=True))
    assert [port for _, port in bound] == [one.getsockname()[1] for one in opened]
    for _, port in bound:
        assert await asked(f"http://127.0.0.1:{port}/") == "http internal"


async def test_which_port_is_taken_can_be_told(runner: Runner) -> None:
    ((_, port),) = await listen(runner, Listening("127.0.0.1", 0))
    with pytest.raises(OSError, match="in use") as public:
        await listen(runner, Listening("127.0.0.1", port))
    assert not isinstance(public.value, InternalPortError)
    with pytest.raises(InternalPortError) as internal:
        await listen(runner, Listening("127.0.0.1", port, is_internal=True))
    assert internal.value.errno == errno.EADDRINUSE
