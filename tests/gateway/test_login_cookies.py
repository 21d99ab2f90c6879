"""Which requests are of our own page."""

import pytest
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from lingua_scheduler.domain.guards.addresses import AddressBook
from lingua_scheduler.gateway.login_cookies import has_login, is_from_here, is_own_page, name_for

HOST = ("Host", "translate.example")


@pytest.mark.parametrize(
    ("headers", "is_own"),
    [
        ([("Sec-Fetch-Site", "same-origin")], True),
        ([("Sec-Fetch-Site", "Same-Origin ")], True),
        ([("Sec-Fetch-Site", "none")], False),
        ([("Sec-Fetch-Site", "same-site"), ("Origin", "https://translate.example")], False),
        ([("Origin", "https://translate.example")], True),
        ([("Origin", "https://translate.example:8443")], True),
        ([("Origin", "https://translate.example.evil")], False),
        ([("Origin", "null")], False),
        ([("Origin", "https://translate.example"), ("Origin", "https://evil.example")], False),
        ([], False),
    ],
)
def test_own_pages(headers: list[tuple[str, str]], is_own: bool) -> None:
    assert is_own_page(make_mocked_request("POST", "/", CIMultiDict([HOST, *headers]))) is is_own


def test_without_a_host_nothing_is_the_same() -> None:
    request = make_mocked_request("POST", "/", CIMultiDict([("Origin", "https://translate.example")]))
    assert not is_own_page(request)


@pytest.mark.parametrize(
    ("cookie", "is_there"), [("lingua=a", True), ("a=b; __Host-lingua=c", True), ("linguas=a", False), ("", False)]
)
def test_a_login_is_known_by_its_cookie(cookie: str, is_there: bool) -> None:
    assert has_login(make_mocked_request("POST", "/", CIMultiDict([("Cookie", cookie)]))) is is_there


def test_who_came_over_no_connection_of_ours_is_not_from_here() -> None:
    assert not is_from_here(make_mocked_request("GET", "/", CIMultiDict([("Host", "localhost")])))


@pytest.mark.parametrize("forwarded", [[], [("X-Forwarded-Proto", "https")]], ids=["plain", "it says that it was TLS"])
def test_a_login_does_not_cross_a_network_in_the_clear(forwarded: list[tuple[str, str]]) -> None:
    request = make_mocked_request("GET", "/", CIMultiDict([HOST, *forwarded]))
    assert name_for(request, AddressBook((), (), 100, 100, 1.0)) == ""
