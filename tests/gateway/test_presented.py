"""Where a credential may be in a request."""

import pytest
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from lingua_scheduler.gateway.presented import TwoCredentials, UnansweredProtocol, presented
from lingua_scheduler.services.access.visits import Shown, Via

PROTOCOL = "Sec-WebSocket-Protocol"


def found(path: str = "/x", *headers: tuple[str, str], is_socket: bool = True, cookie: str = "") -> Shown | None:
    return presented(make_mocked_request("GET", path, CIMultiDict(headers)), is_socket=is_socket, cookie=cookie)


def test_nothing_is_nothing() -> None:
    assert found() is None
    assert found("/x?other=1", ("Authorization", "Basic abc"), (PROTOCOL, "lingua.v1")) is None


def test_each_place() -> None:
    assert found("/x", ("Authorization", "Bearer abc")) == Shown("abc", Via.HEADER)
    assert found("/x", ("authorization", "BEARER abc ")) == Shown("abc", Via.HEADER)
    assert found("/x", (PROTOCOL, "lingua.v1,lingua.auth.abc")) == Shown("abc", Via.SUBPROTOCOL)
    assert found("/x", (PROTOCOL, "lingua.auth.abc"), (PROTOCOL, "lingua.v1")) == Shown("abc", Via.SUBPROTOCOL)
    assert found("/x?access_token=abc") == Shown("abc", Via.QUERY)


def test_an_empty_one_is_one() -> None:
    """Or a script with an unset variable would be let in where none is needed, and nobody would notice."""
    assert found("/x", ("Authorization", "Bearer")) == Shown("", Via.HEADER)
    assert found("/x?access_token=") == Shown("", Via.QUERY)


def test_the_same_in_two_places_is_where_most_can_read_it() -> None:
    assert found("/x?access_token=abc", ("Authorization", "Bearer abc")) == Shown("abc", Via.QUERY)
    assert found("/x", ("Authorization", "Bearer abc"), (PROTOCOL, "lingua.v1, lingua.auth.abc")) == Shown(
        "abc", Via.SUBPROTOCOL
    )


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/x?access_token=b", [("Authorization", "Bearer a")]),
        ("/x?access_token=a&access_token=b", []),
        ("/x?access%5Ftoken=b", [("Authorization", "Bearer a")]),
        ("/x", [("Authorization", "Bearer a"), ("Authorization", "Bearer b")]),
        ("/x", [(PROTOCOL, "lingua.v1, lingua.auth.a, lingua.auth.b")]),
        ("/x?access_token=", [("Authorization", "Bearer a")]),
    ],
)
def test_two_that_differ_are_refused(path: str, headers: list[tuple[str, str]]) -> None:
    with pytest.raises(TwoCredentials):
        found(path, *headers)


def test_a_subprotocol_counts_only_for_sockets_and_never_alone() -> None:
    assert found("/x", (PROTOCOL, "lingua.v1, lingua.auth.a"), is_socket=False) is None
    with pytest.raises(UnansweredProtocol) as refused:
        found("/x", (PROTOCOL, "chat, lingua.auth.planted"))
    assert "planted" not in str(refused.value)


def test_a_cookie_counts_where_nothing_else_is_shown_and_never_for_a_socket() -> None:
    cookie = ("Cookie", "other=1; lingua=abc; __Host-lingua=def")
    assert found("/x", cookie, is_socket=False, cookie="lingua") == Shown("abc", Via.COOKIE)
    assert found("/x", cookie, is_socket=False, cookie="__Host-lingua") == Shown("def", Via.COOKIE)
    assert found("/x", cookie, is_socket=False) is None
    assert found("/x", cookie, is_socket=True, cookie="lingua") is None
    assert found("/x", cookie, ("Authorization", "Bearer k"), is_socket=False, cookie="lingua") == Shown(
        "k", Via.HEADER
    )
    assert found("/x", ("Cookie", "lingua="), is_socket=False, cookie="lingua") is None
