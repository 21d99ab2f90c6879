"""The listening sockets of all workers: opened before the first starts, and kept open while workers are replaced."""

import socket
import sys
from contextlib import ExitStack
from typing import Any

BACKLOG = 1024
# Here the kernel spreads connections over sockets that share a port; elsewhere all workers share one socket.
BALANCES = sys.platform == "linux"

Listeners = tuple[socket.socket, ...]


def open_listeners(host: str, port: int, stations: int) -> list[Listeners]:
    """One socket per worker and address of the host. Raises OSError if the port is in use or not permitted."""
    found: list[list[socket.socket]] = []
    with ExitStack() as opened:
        for family, address in _addresses(host):
            listeners = _open(family, (address[0], port, *address[2:]), stations, opened)
            port = listeners[0].getsockname()[1]
            found.append(listeners)
        opened.pop_all()
    return [tuple(listeners) for listeners in zip(*found, strict=True)]


def _open(family: int, address: tuple[Any, ...], stations: int, opened: ExitStack) -> list[socket.socket]:
    # SO_REUSEPORT would also share the port with another program, so bind it once without sharing first.
    guard = opened.enter_context(_bound(family, address))
    if not BALANCES:
        guard.listen(BACKLOG)
        return [guard] * stations
    listeners = [opened.enter_context(_bound(family, guard.getsockname(), shares=True)) for _ in range(stations)]
    for listener in listeners:
        listener.listen(BACKLOG)
    guard.close()
    return listeners


def _bound(family: int, address: tuple[Any, ...], shares: bool = False) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shares:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:  # the other family has a socket of its own
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(address)
    except BaseException:
        bound.close()
        raise
    return bound


def _addresses(host: str) -> list[tuple[int, tuple[Any, ...]]]:
    """Family and address, each once, in the order in which names are resolved here."""
    found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, address) for family, _, _, _, address in found))
