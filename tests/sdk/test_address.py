"""Addresses as people type them, read into what a socket or a page needs."""

import pytest

from lingua_sdk.address import Addresses, BadAddress, page_url, socket_url


@pytest.mark.parametrize(
    ("address", "socket", "page"),
    [
        ("localhost:5010", "ws://localhost:5010/ws/node", "http://localhost:5010/health"),
        ("localhost", "ws://localhost/ws/node", "http://localhost/health"),
        ("127.0.0.1:5010", "ws://127.0.0.1:5010/ws/node", "http://127.0.0.1:5010/health"),
        ("[::1]:5010", "ws://[::1]:5010/ws/node", "http://[::1]:5010/health"),
        ("ws://host:5010", "ws://host:5010/ws/node", "http://host:5010/health"),
        ("ws://host:5010/", "ws://host:5010/ws/node", "http://host:5010/health"),
        ("wss://host", "wss://host/ws/node", "https://host/health"),
        ("http://host:5010", "ws://host:5010/ws/node", "http://host:5010/health"),
        ("https://host", "wss://host/ws/node", "https://host/health"),
        ("HTTPS://host", "wss://host/ws/node", "https://host/health"),
        ("ws://host:5010/ws/node", "ws://host:5010/ws/node", "http://host:5010/health"),
        ("ws://host:5010/ws/session", "ws://host:5010/ws/node", "http://host:5010/health"),
        ("ws://host:5010/ws/session/", "ws://host:5010/ws/node", "http://host:5010/health"),
        ("https://host/lingua", "wss://host/lingua/ws/node", "https://host/lingua/health"),
        ("https://host/lingua/ws/node", "wss://host/lingua/ws/node", "https://host/lingua/health"),
        ("https://host?x=1#top", "wss://host/ws/node", "https://host/health"),
    ],
)
def test_what_people_type_leads_to_a_socket_and_to_a_page(address: str, socket: str, page: str) -> None:
    assert socket_url(address, "/ws/node") == socket
    assert page_url(address, "/health") == page


@pytest.mark.parametrize(
    "address",
    [
        "",
        "ws://",
        "http:///ws/node",
        ":5010",
        "ftp://host",
        "redis://host:6379",
        "file:///etc/passwd",
        "http://[::1",
        "localhost:port",
        "localhost:99999",
        "localhost:0",
    ],
)
def test_what_is_no_address_is_refused_with_one_that_is(address: str) -> None:
    for read in (socket_url, page_url):
        with pytest.raises(BadAddress) as caught:
            read(address, "/ws/node")
        assert "try ws://127.0.0.1:5010" in str(caught.value)
        assert repr(address) in str(caught.value)


def test_the_address_of_redis_is_told_from_that_of_a_scheduler() -> None:
    with pytest.raises(BadAddress, match="that is an address of Redis, for --redis-url"):
        page_url("rediss://db:6379/0", "/")


def test_several_addresses_take_turns() -> None:
    addresses = Addresses(["a:1", "b:2"], "/ws/node")
    seen = []
    for _ in range(3):
        seen.append(addresses.url)
        addresses.turn()
    assert seen == ["ws://a:1/ws/node", "ws://b:2/ws/node", "ws://a:1/ws/node"]


def test_no_address_at_all_is_refused() -> None:
    with pytest.raises(BadAddress, match="the address is empty"):
        Addresses([], "/ws/node")


def test_a_password_in_an_address_is_not_shown() -> None:
    assert Addresses("wss://ada:secret@host:5010/ws/node", "/ws/node").place == "host:5010"
