"""Who calls, and what one address may have."""

import pytest

from lingua_scheduler.domain.guards import addresses
from lingua_scheduler.domain.guards.addresses import AddressBook, Caller, read_address


def book(
    trusted: tuple[str, ...] = (),
    unmetered: tuple[str, ...] = (),
    sockets: int = 2,
    knocks: int = 1,
    cpu_share: float = 0.2,
) -> AddressBook:
    return AddressBook(trusted, unmetered, sockets, knocks, cpu_share)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("192.0.2.1", "192.0.2.1"),
        (" 192.0.2.1:8080", "192.0.2.1"),
        ("[2001:db8::1]:443", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
    ],
)
def test_an_address_is_read(text: str, address: str) -> None:
    assert str(read_address(text)) == address


@pytest.mark.parametrize("text", ["", "unknown", "_hidden", "a:b", "1.2.3"])
def test_what_is_no_address(text: str) -> None:
    assert read_address(text) is None


@pytest.mark.parametrize(
    ("forwarded", "caller"),
    [
        ((), "10.0.0.5"),
        (("203.0.113.7",), "203.0.113.7"),
        (("198.51.100.1, 203.0.113.7",), "203.0.113.7"),  # the first one is whatever the caller made up
        (("198.51.100.1", "203.0.113.7, 10.0.0.6"), "203.0.113.7"),
        (("10.0.0.7, 10.0.0.6",), "10.0.0.7"),
        (("203.0.113.7, nonsense",), "10.0.0.5"),
    ],
)
def test_the_rightmost_address_that_is_not_ours_calls(forwarded: tuple[str, ...], caller: str) -> None:
    assert book(trusted=("10.0.0.0/8",)).caller("10.0.0.5", forwarded).address == caller


def test_who_is_not_trusted_is_not_asked() -> None:
    assert book(trusted=("10.0.0.5",)).caller("10.0.0.6", ["203.0.113.7"]).address == "10.0.0.6"


def test_neighbours_in_ipv6_share_a_meter() -> None:
    some = book(unmetered=("fe80::/10",))
    assert some.caller("2001:db8::1").meter == some.caller("2001:db8::ffff:1").meter == "2001:db8::/64"
    assert some.caller("2001:db8:0:1::1").meter == "2001:db8:0:1::/64"
    assert some.caller("fe80::1%eth0") == Caller("fe80::1%eth0", "")
    assert some.caller("/run/socket") == Caller("/run/socket", "")


def test_places_are_counted_and_come_back() -> None:
    some = book()
    assert [some.enter("a"), some.enter("a"), some.enter("b"), some.enter("")] == [1, 2, 1, 0]
    some.leave("a")
    some.leave("")
    assert some.enter("a") == 2
    for meter in "aab":
        some.leave(meter)
    assert not some._places


def test_who_knocks_too_often_waits() -> None:
    some = book(knocks=2)
    assert [some.knock("a", 100.0) for _ in range(12)] == [True] * 10 + [False] * 2
    assert some.knock("b", 100.0)
    assert some.knock("a", 100.5)
    assert not some.knock("a", 100.5)
    assert all(some.knock("", 100.0) for _ in range(100))


def test_what_is_remembered_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "_MAX_REMEMBERED", 10)
    some = book()
    for number in range(100):
        some.knock(str(number), 100.0 + number)
    assert len(some._knocks) <= 10
    for number in range(100):
        some.knock(str(number), 300.0)
    assert len(some._knocks) <= 10


def test_an_address_rests_for_what_it_costs_and_others_do_not() -> None:
    some = book(cpu_share=0.5)
    some.charge("a", addresses.COST_BURST_S, 0.0)
    assert some.rest_s("a", 0.0) == 0
    some.charge("a", 1.0, 0.0)
    assert (some.rest_s("a", 0.0), some.rest_s("a", 1.5), some.rest_s("a", 2.0)) == (2.0, 0.5, 0)
    assert some.rest_s("b", 0.0) == 0


def test_who_is_not_metered_owes_nothing() -> None:
    some = book()
    some.charge("", 100.0, 0.0)
    assert some.rest_s("", 0.0) == 0


def test_debts_that_are_paid_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "_MAX_REMEMBERED", 4)
    some = book()
    some.charge("debtor", 100.0, 0.0)
    for number in range(50):
        some.charge(str(number), 0.01, float(number))
    assert len(some._costs) <= 4
    assert some.rest_s("debtor", 50.0) > 0
