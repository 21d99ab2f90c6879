"""Sockets that listen: on every address of a host, with one port."""

import errno
import socket

import pytest

from lingua_scheduler.gateway.sockets import open_sockets


def test_every_address_of_a_host_gets_a_socket_with_the_same_port(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 0)) for host in ("127.0.0.1", "127.0.0.2", "127.0.0.1")]
    with monkeypatch.context() as resolving:
        resolving.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        opened = open_sockets("both.example", 0, 8)
    try:
        assert [one.getsockname()[0] for one in opened] == ["127.0.0.1", "127.0.0.2"]
        assert len({one.getsockname()[1] for one in opened}) == 1
        for one in opened:
            socket.create_connection(one.getsockname(), timeout=5).close()
        with pytest.raises(OSError, match="in use") as refused:
            open_sockets("127.0.0.2", opened[1].getsockname()[1], 8)
        assert refused.value.errno == errno.EADDRINUSE
    finally:
        for one in opened:
            one.close()
