"""The listening sockets of all workers: opened before the first starts, and kept open while workers are replaced."""

import socket
import sys
from contextlib import ExitStack

from lingua_scheduler.gateway.sockets import Address, addresses_of, bound

BACKLOG = 1024
# Here the kernel spreads connections over sockets that share a port; elsewhere all workers share one socket.
BALANCES = sys.platform == "linux"

Listeners = tuple[socket.socket, ...]


def open_listeners(host: str, port: int, stations: int) -> list[Listeners]:
    """One socket per worker and address of the host. Raises OSError if the port is in use or not permitted."""
    found: list[list[socket.socket]] = []
    with ExitStack() as opened:
        for family, address in addresses_of(host):
            listeners = _open(family, (address[0], port, *address[2:]), stations, opened)
            port = listeners[0].getsockname()[1]
            found.append(listeners)
        opened.pop_all()
    return [tuple(listeners) for listeners in zip(*found, strict=True)]


def _open(family: int, address: Address, stations: int, opened: ExitStack) -> list[socket.socket]:
    # SO_REUSEPORT would also share the port with another program, so bind it once without sharing first.
    guard = opened.enter_context(bound(family, address))
    if not BALANCES:
        guard.listen(BACKLOG)
        return [guard] * stations
    listeners = [opened.enter_context(bound(family, guard.getsockname(), shares=True)) for _ in range(stations)]
    for listener in listeners:
        listener.listen(BACKLOG)
    guard.close()
    return listeners
