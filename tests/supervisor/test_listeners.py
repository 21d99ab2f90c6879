"""Sockets that share a port: as many as there are stations, and nobody else's."""

import errno
import socket

import pytest

from lingua_scheduler.supervisor.listeners import BALANCES, Listeners, open_listeners


def close(stations: list[Listeners]) -> None:
    for listener in {listener for listeners in stations for listener in listeners}:
        listener.close()


@pytest.mark.skipif(not BALANCES, reason="there is only one socket here")
def test_each_station_gets_a_socket_of_its_own_and_all_share_a_port() -> None:
    stations = open_listeners("127.0.0.1", 0, 3)
    try:
        assert len({listener.fileno() for (listener,) in stations}) == 3
        assert len({listener.getsockname() for (listener,) in stations}) == 1
    finally:
        close(stations)


def test_the_sockets_take_connections_before_anybody_serves() -> None:
    stations = open_listeners("127.0.0.1", 0, 2)
    try:
        for _ in range(20):
            socket.create_connection(stations[0][0].getsockname(), timeout=5).close()
    finally:
        close(stations)


def test_a_port_that_others_share_is_not_ours_to_share() -> None:
    stations = open_listeners("127.0.0.1", 0, 2)
    try:
        with pytest.raises(OSError, match="in use") as refused:
            open_listeners("127.0.0.1", stations[0][0].getsockname()[1], 2)
        assert refused.value.errno == errno.EADDRINUSE
    finally:
        close(stations)


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(OSError, match="assign") as refused:
        open_listeners("192.0.2.1", 0, 2)
    assert refused.value.errno == errno.EADDRNOTAVAIL
