"""Which listener a request came to decides which host names count and what is served."""

from typing import cast

import pytest
from aiohttp import web

from lingua_scheduler.domain.access.sides import Side
from lingua_scheduler.gateway.connections import Connection
from lingua_scheduler.gateway.sides import Sides
from lingua_scheduler.setting_sections.server import ServerSettings

LOOPBACK, PRIVATE = ["127.0.0.1"], ["10.0.0.5"]


class _Arrived:
    def __init__(self, connection: object) -> None:
        self.protocol = connection


def request_at(address: str, *, is_internal: bool) -> web.BaseRequest:
    """A request, as far as `Sides` looks at it; whole ones are in tests/security/test_internal_port.py."""
    connection = Connection.__new__(Connection)
    connection.local_address, connection.is_internal = address, is_internal
    return cast("web.BaseRequest", _Arrived(connection))


def test_a_request_is_of_the_side_of_its_listener() -> None:
    public, internal = request_at("10.0.0.5", is_internal=False), request_at("10.0.0.5", is_internal=True)
    sides = Sides(ServerSettings(internal_port=5011))
    assert (sides.of(public), sides.of(internal)) == (Side.PUBLIC, Side.INTERNAL)
    assert Sides(ServerSettings()).of(public) is Side.WHOLE


def test_each_listener_accepts_names_by_its_own_address() -> None:
    sides = Sides(ServerSettings(internal_port=5011))
    sides.listen_on(PRIVATE, LOOPBACK)
    assert sides.admit_host(request_at("10.0.0.5", is_internal=False), "any.example")
    assert not sides.admit_host(request_at("127.0.0.1", is_internal=True), "any.example")
    assert sides.admit_host(request_at("127.0.0.1", is_internal=True), "localhost:5011")


def test_listed_names_count_at_both() -> None:
    sides = Sides(ServerSettings(internal_port=5011, allowed_hosts=("translate.example",)))
    sides.listen_on(PRIVATE, PRIVATE)
    for is_internal in (False, True):
        request = request_at("10.0.0.5", is_internal=is_internal)
        assert sides.admit_host(request, "translate.example")
        assert sides.admit_host(request, "10.0.0.5:5011")
        assert not sides.admit_host(request, "evil.example")


@pytest.mark.parametrize(
    ("public", "internal", "internal_port", "is_local"),
    [
        (LOOPBACK, LOOPBACK, 5011, True),
        (LOOPBACK, PRIVATE, 5011, False),
        (PRIVATE, LOOPBACK, 5011, False),
        # There is none.
        (LOOPBACK, [], 0, True),
        (PRIVATE, [], 0, False),
    ],
)
def test_it_is_local_if_no_other_computer_reaches_it(
    public: list[str], internal: list[str], internal_port: int, is_local: bool
) -> None:
    sides = Sides(ServerSettings(internal_port=internal_port))
    sides.listen_on(public, internal)
    assert sides.is_local is is_local
