"""Accepts connections that begin with a TLS handshake.

The event loop's own servers tell of a connection only after its handshake, so that any number of handshakes could wait
without a limit per address. Here a connection takes its place first, and gets the certificate of that moment."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from ssl import SSLContext

from lingua_scheduler.gateway.connections import Connection
from lingua_scheduler.telemetry import logs, metrics
from lingua_scheduler.telemetry.tasks import Nursery

_log = logs.get()

# Then others get their turn.
ACCEPTED_AT_ONCE = 64
# When no file descriptor is free.
PAUSE_S = 1.0
_CUT = metrics.by(metrics.CONNECTIONS_CUT, "handshake", "sockets")


class Tls:
    """What the listeners of one port share. `context` is asked for every connection."""

    def __init__(self, context: Callable[[], SSLContext], handshake_s: float) -> None:
        self.context = context
        self.handshake_s = handshake_s
        self.handshakes = Nursery("tls_handshakes")


class TlsListener:
    def __init__(self, sockets: Sequence[socket.socket], make: Callable[[], Connection], tls: Tls) -> None:
        self.sockets = list(sockets)
        self._make = make
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        for listener in self.sockets:
            listener.setblocking(False)
            self._listen(listener)

    def close(self) -> None:
        """Handshakes that have begun go on."""
        for listener in self.sockets:
            self._loop.remove_reader(listener)
            listener.close()
        self.sockets = []

    def _listen(self, listener: socket.socket) -> None:
        if listener in self.sockets:
            self._loop.add_reader(listener, self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, _peer = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # The connection stays in the queue, so we would be called again at once.
                _log.warning("tls.not_accepted", reason=error.strerror, pause_s=PAUSE_S)
                self._loop.remove_reader(listener)
                self._loop.call_later(PAUSE_S, self._listen, listener)
                return
            self._begin(accepted)

    def _begin(self, accepted: socket.socket) -> None:
        try:
            peer, here = accepted.getpeername(), accepted.getsockname()
        except OSError:
            # It has left already.
            accepted.close()
            return
        connection = self._make()
        if connection.arrive(str(peer[0]), str(here[0])):
            accepted.setblocking(False)
            self._tls.handshakes.start(self._shake_hands(accepted, connection))
        else:
            connection.never_made()
            accepted.close()
            _CUT["sockets"].inc()

    async def _shake_hands(self, accepted: socket.socket, connection: Connection) -> None:
        tls = self._tls
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=tls.context(),
                ssl_handshake_timeout=tls.handshake_s,
                ssl_shutdown_timeout=tls.handshake_s,
            )
        except OSError:
            # Too slow, not TLS, an unknown authority, or gone. The peer learns why from its own library.
            connection.never_made()
            _CUT["handshake"].inc()
        except BaseException:
            connection.never_made()
            raise
