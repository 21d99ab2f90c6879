"""The listeners of the scheduler: addresses, or sockets that a supervisor opened; with or without TLS."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from aiohttp import web

from lingua_scheduler.domain.guards.addresses import AddressBook
from lingua_scheduler.gateway.connections import Connection
from lingua_scheduler.gateway.fair_queue import FairQueue
from lingua_scheduler.gateway.sockets import open_sockets
from lingua_scheduler.gateway.tls_listener import Tls, TlsListener
from lingua_scheduler.setting_sections.server import ServerSettings

BACKLOG = 1024


class _Server(web.Server):
    def __init__(
        self, addresses: AddressBook, turns: FairQueue, settings: ServerSettings, *arguments: Any, **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self._addresses = addresses
        self._turns = turns
        self._settings = settings

    def __call__(self) -> web.RequestHandler:
        return self.connection()

    def connection(self) -> Connection:
        return Connection(self._addresses, self._turns, self._settings, self, loop=self._loop, **self._kwargs)

    def internal_connection(self) -> Connection:
        made = self.connection()
        made.is_internal = True
        return made


class Runner(web.AppRunner):
    """An AppRunner whose connections have deadlines, places for each address, and one budget of time."""

    __slots__ = ("_addresses", "_settings", "_turns", "tls")

    def __init__(
        self, app: web.Application, addresses: AddressBook, turns: FairQueue, settings: ServerSettings, **options: Any
    ) -> None:
        super().__init__(app, **options)
        self._addresses = addresses
        self._turns = turns
        self._settings = settings
        # Of the listeners that have TLS.
        self.tls: Tls | None = None

    async def cleanup(self) -> None:
        if self.tls is not None:
            for site in self.sites:
                await site.stop()
            await self.tls.handshakes.close()
        await super().cleanup()

    def factory(self, is_internal: bool) -> Callable[[], Connection]:
        """Makes the connections of a listener. Only after `setup`."""
        server = self.server
        assert isinstance(server, _Server)
        return server.internal_connection if is_internal else server.connection

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        return _Server(
            self._addresses,
            self._turns,
            self._settings,
            made.request_handler,
            request_factory=made.request_factory,
            handler_cancellation=made.handler_cancellation,
            loop=made._loop,
            **made._kwargs,
        )


class InternalPortError(OSError):
    """The internal port cannot be used."""


class Listening(NamedTuple):
    """Where to listen. `sockets` listen already, and come in place of host and port."""

    host: str
    port: int
    sockets: tuple[socket.socket, ...] = ()
    is_internal: bool = False


class _Site(web.BaseSite):
    __slots__ = ("_factory", "_place", "_socket", "_tls")

    def __init__(self, runner: Runner, place: Listening, inherited: socket.socket | None, tls: Tls | None) -> None:
        super().__init__(runner, backlog=BACKLOG)
        self._factory: Callable[[], Connection] = runner.factory(place.is_internal)
        self._place = place
        self._socket = inherited
        self._tls = tls

    @property
    def name(self) -> str:
        return f"{'https' if self._tls else 'http'}://{self._place.host}:{self._place.port}"

    @property
    def bound(self) -> list[tuple[str, int]]:
        """Addresses and ports on which it listens."""
        sockets: list[socket.socket] = getattr(self._server, "sockets", None) or []
        return [(str(name[0]), int(name[1])) for name in (one.getsockname() for one in sockets)]

    async def start(self) -> None:
        """Raises OSError."""
        await super().start()
        loop = asyncio.get_running_loop()
        host, port = self._place.host, self._place.port
        if self._tls is not None:
            sockets = open_sockets(host, port, self._backlog) if self._socket is None else (self._socket,)
            # All that aiohttp does with a server is to close it.
            self._server = cast("asyncio.AbstractServer", TlsListener(sockets, self._factory, self._tls))
        elif self._socket is not None:
            self._server = await loop.create_server(self._factory, sock=self._socket, backlog=self._backlog)
        else:
            self._server = await loop.create_server(self._factory, host, port, backlog=self._backlog)


async def listen(runner: Runner, place: Listening, tls: Tls | None = None) -> list[tuple[str, int]]:
    """Returns the addresses and ports. Raises OSError."""
    bound: list[tuple[str, int]] = []
    runner.tls = tls or runner.tls
    for inherited in place.sockets or (None,):
        site = _Site(runner, place, inherited, tls)
        try:
            await site.start()
        except OSError as error:
            if not place.is_internal:
                raise
            raise InternalPortError(error.errno, error.strerror) from error
        bound += site.bound
    return bound
