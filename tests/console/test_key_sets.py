"""Issuers' keys are fetched with TLS, or from networks that are allowed by name."""

import pytest

from lingua_scheduler.console.key_sets import KeySets
from lingua_scheduler.domain.guards.addresses import read_networks
from lingua_scheduler.domain.guards.destinations import Destinations
from lingua_scheduler.services.access.jwks import JwksAway


async def complaint(url: str, *allowed: str) -> str:
    with pytest.raises(JwksAway) as caught:
        await KeySets(Destinations(read_networks(allowed))).fetch(url, 1000)
    return str(caught.value)


@pytest.mark.parametrize("url", ["http://8.8.8.8/jwks", "HTTP://8.8.8.8/jwks", "http://8.8.8.8:8080/jwks"])
async def test_without_tls_no_public_address_is_called(url: str) -> None:
    assert "8.8.8.8 must be called with https" in await complaint(url)


async def test_without_tls_a_name_is_judged_by_the_address_that_it_stands_for() -> None:
    assert "must be called with https" in await complaint("http://localhost:8080/jwks", "10.0.0.0/8")
    assert "server.allow_calls_to" not in await complaint("http://localhost:1024/jwks", "127.0.0.0/8", "::1")


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "[::1]", "[::ffff:127.0.0.1]", "localhost"]
)
async def test_an_address_inside_is_not_called_with_tls_either(host: str) -> None:
    assert "is a loopback, private or reserved address" in await complaint(f"https://{host}/jwks")


@pytest.mark.parametrize(
    "url", ["ftp://idp.example/jwks", "file:///etc/passwd", "", "//idp.example", "https://u:p@idp.example/"]
)
async def test_what_is_no_address_is_not_called(url: str) -> None:
    assert "expected" in await complaint(url)


async def test_an_allowed_address_is_called_without_tls() -> None:
    assert "server.allow_calls_to" not in await complaint("http://127.0.0.1:1024/jwks", "127.0.0.1")
