"""Which addresses may be called on somebody else's word."""

import pytest

from lingua_scheduler.domain.guards.addresses import read_networks
from lingua_scheduler.domain.guards.destinations import Destinations

INSIDE = [
    *("127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254"),
    *("224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1"),
    *("::", "::1", "fe80::1", "fe80::1%1", "fd00:ec2::254", "fc00::1", "ff02::1", "ff0e::1", "2001:db8::1"),
    *("::ffff:127.0.0.1", "::ffff:8.8.8.8", "64:ff9b::a00:1", "2002:7f00:1::", "2001:0:a00:1::1", "::10.0.0.1"),
]


@pytest.mark.parametrize("address", INSIDE)
def test_addresses_that_are_not_public_are_refused(address: str) -> None:
    assert not Destinations().permits(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111"])
def test_public_addresses_are_permitted(address: str) -> None:
    assert Destinations().permits(address)


def test_what_is_allowed_is_permitted_and_nothing_beside_it() -> None:
    destinations = Destinations(
        read_networks(
            (
                "127.0.0.1",
                "10.0.0.0/8",
                "fd00::/8",
            )
        )
    )
    permitted = ("127.0.0.1", "10.9.9.9", "fd00::7", "::ffff:10.0.0.1", "8.8.8.8")
    assert all(map(destinations.permits, permitted))
    assert not any(map(destinations.permits, ("127.0.0.2", "192.168.0.1", "::1", "::ffff:192.168.0.1")))


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://host/x", "file:///etc/passwd", "gopher://host/", "host/x", "//host/x", "http://", "http://hö/"),
        *("http://u@host/", "http://u:p@host/", "http://host:0/", "http://h:x/", "http://[::1/", "http://h:22/"),
        *("http://host:6379000/", "http://127.0.0.1/", "http://[::1]:8080/", "http://169.254.169.254/latest/"),
        *("http://0x7f000001/", "http://2130706433/", "http://127.1/", "http://0177.0.0.1/", "http://localhost:8000/"),
        *("http://a.localhost/", "http://localhost./", "http://[::ffff:10.0.0.1]/", "http://host/\n"),
    ],
)
def test_what_can_be_refused_without_asking_anybody_is(url: str) -> None:
    assert Destinations().complaint(url)


@pytest.mark.parametrize(
    "url", ["http://example.com/jobs?node=1", "https://node-1.lan:8443", "http://8.8.8.8:8080/", "https://[2606::1]/"]
)
def test_plain_addresses_are_fine(url: str) -> None:
    assert Destinations().complaint(url) is None


def test_a_refusal_names_the_setting() -> None:
    assert "server.allow_calls_to" in str(Destinations().complaint("http://10.0.0.7/jobs"))
    assert Destinations(read_networks(("10.0.0.0/8",))).complaint("http://10.0.0.7/jobs") is None
    assert Destinations(read_networks(("127.0.0.0/8",))).complaint("http://localhost:8000/jobs") is None


def test_without_public_addresses_the_allowed_networks_are_left() -> None:
    inside = Destinations(read_networks(("10.0.0.0/8",))).without_public()
    assert inside.permits("10.1.2.3")
    assert not inside.permits("8.8.8.8")
    assert not inside.permits("127.0.0.1")
    assert "https" in (inside.complaint("http://8.8.8.8/") or "")
