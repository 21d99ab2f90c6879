"""Listening sockets: bound to every address of a host, each family with a socket of its own."""

import socket
from contextlib import ExitStack
from typing import Any

Address = tuple[Any, ...]


def open_sockets(host: str, port: int, backlog: int) -> tuple[socket.socket, ...]:
    """One listening socket per address of the host, all with the same port. Raises OSError."""
    found: list[socket.socket] = []
    with ExitStack() as opened:
        for family, address in addresses_of(host):
            listener = opened.enter_context(bound(family, (address[0], port, *address[2:])))
            listener.listen(backlog)
            port = listener.getsockname()[1]
            found.append(listener)
        opened.pop_all()
    return tuple(found)


def bound(family: int, address: Address, *, shares: bool = False) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shares:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:  # the other family has a socket of its own
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
    except BaseException:
        made.close()
        raise
    return made


def addresses_of(host: str) -> list[tuple[int, Address]]:
    """Family and address, each once, in the order in which names are resolved here."""
    found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, address) for family, _, _, _, address in found))
