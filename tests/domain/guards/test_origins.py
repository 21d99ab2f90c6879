"""Names and pages: what a Host and an Origin mean."""

import pytest

from lingua_scheduler.domain.guards.origins import HostRule, Origin, OriginRule, is_loopback, read_host, read_origin


@pytest.mark.parametrize(
    ("header", "host", "port"),
    [
        ("Localhost:5010", "localhost", 5010),
        ("translate.example", "translate.example", None),
        ("translate.example.", "translate.example", None),
        ("[::1]:80", "::1", 80),
        ("[::1]", "::1", None),
    ],
)
def test_a_host_is_read(header: str, host: str, port: int | None) -> None:
    assert read_host(header) == (host, port)


@pytest.mark.parametrize("header", ["", ":80", "a b", "a@b", "a/b", "a:b", "::1", "[::1", "a:80:80", "a:123456"])
def test_what_is_no_host(header: str) -> None:
    assert read_host(header) is None


@pytest.mark.parametrize(
    ("header", "origin"),
    [
        ("https://App.Example:443", Origin("https", "app.example", None)),
        ("http://app.example:443", Origin("http", "app.example", 443)),
        ("http://[::1]:9001", Origin("http", "::1", 9001)),
        ("app://lingua", Origin("app", "lingua", None)),
        ("file://", Origin("file", "", None)),
    ],
)
def test_an_origin_is_read(header: str, origin: Origin) -> None:
    assert read_origin(header) == origin


@pytest.mark.parametrize(
    "header", ["null", "", "app.example", "http://a/b", "http://a#b", "http://a@b", "http://a?b", "//a"]
)
def test_what_is_no_origin(header: str) -> None:
    assert read_origin(header) is None


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["localhost.evil.example", "127.0.0.1.evil.example", "a.localhost", "0.0.0.0", "10.0.0.1", ""]
)
def test_not_loopback(host: str) -> None:
    assert not is_loopback(host)


def test_who_sends_no_host_is_no_browser() -> None:
    rule = HostRule((), "127.0.0.1")
    rule.is_local = True
    assert rule.admits(None, "127.0.0.1")
    assert not rule.admits("", "127.0.0.1")


def test_the_name_we_listen_on_and_the_address_that_was_called_are_ours() -> None:
    rule = HostRule(("translate.example",), "Myhost")
    assert rule.admits("myhost:5010", "10.0.0.1")
    assert rule.admits("10.0.0.1:5010", "10.0.0.1")
    assert not rule.admits("10.0.0.2:5010", "10.0.0.1")
    assert HostRule(("*",), "x").admits("anything.example", "10.0.0.1")


@pytest.mark.parametrize(
    ("origin", "host", "is_same"),
    [
        ("https://translate.example", "translate.example", True),
        ("https://translate.example", "translate.example:443", True),
        ("http://translate.example", "translate.example:80", True),
        ("http://translate.example", "translate.example:443", False),
        ("http://10.0.0.1:5010", "10.0.0.1:5010", True),
        ("http://10.0.0.1:9001", "10.0.0.1:5010", False),
        # A proxy that listens on a port of its own and leaves it out of the Host, as our first sample for nginx did.
        ("http://translate.example:5010", "translate.example", True),
        ("http://translate.example", "translate.example.evil.example", False),
        ("app://translate.example", "translate.example", False),
    ],
)
def test_same_origin(origin: str, host: str, is_same: bool) -> None:
    assert OriginRule(()).admits(origin, host, None, is_from_loopback=False) is is_same


def test_a_page_of_this_machine_may_call_a_scheduler_of_this_machine() -> None:
    rule = OriginRule(())
    page = "http://localhost:9001"
    assert rule.admits(page, "127.0.0.1:5010", None, is_from_loopback=False), "by what the browser calls us"
    assert rule.admits(page, "dev.example:5010", None, is_from_loopback=True), "by where it calls from"
    assert not rule.admits(page, "translate.example", None, is_from_loopback=False)
    assert not rule.admits("file://localhost", "127.0.0.1:5010", None, is_from_loopback=True)


def test_the_browsers_own_word_counts() -> None:
    rule = OriginRule(())
    assert rule.admits("https://translate.example", "10.0.0.1:5010", "same-origin", is_from_loopback=False)
    assert not rule.admits("https://evil.example", "10.0.0.1:5010", "cross-site", is_from_loopback=False)
    assert rule.admits(None, "10.0.0.1:5010", "none", is_from_loopback=False)
    assert not rule.admits(None, "10.0.0.1:5010", "same-site", is_from_loopback=False)
