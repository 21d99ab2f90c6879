"""An address whose registrations cost much waits, and not for ever."""

from typing import Any, cast

import pytest

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.guards.addresses import AddressBook
from lingua_scheduler.services.nodes import toll
from lingua_scheduler.services.nodes.toll import TOO_COSTLY, Toll
from lingua_sdk.domain.errors import ErrorCode

# As plain values: a limit that changes is noticed.
LEAST_WAIT_S = 0.02
LONGEST_WAIT_S = 10.0


class Book:
    """Says for how long an address has to rest, one answer after the other."""

    def __init__(self, *rests_s: float) -> None:
        self._rests_s = list(rests_s)
        self.charged: list[tuple[str, float]] = []

    def rest_s(self, _meter: str, _now_s: float) -> float:
        return self._rests_s.pop(0)

    def charge(self, meter: str, cpu_s: float, _now_s: float) -> None:
        self.charged.append((meter, cpu_s))


class Time:
    """Passes only while somebody sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        monkeypatch.setattr(toll, "asyncio", self)

    def __call__(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def toll_of(book: Book, clock: Clock = SYSTEM_CLOCK) -> Toll:
    return Toll(cast("AddressBook", cast("Any", book)), "192.0.2.1", clock)


async def test_who_owes_nothing_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    time = Time(monkeypatch)
    assert await toll_of(Book(0.0), time).wait() is None
    assert time.now_s == 100.0


async def test_who_owes_waits_until_it_is_paid_off(monkeypatch: pytest.MonkeyPatch) -> None:
    time = Time(monkeypatch)
    assert await toll_of(Book(2.0, 0.001, 0.0), time).wait() is None
    assert time.now_s == 102.0 + LEAST_WAIT_S


async def test_nobody_waits_longer_than_is_bearable(monkeypatch: pytest.MonkeyPatch) -> None:
    time = Time(monkeypatch)
    refused = await toll_of(Book(6.0, 6.0), time).wait()
    assert refused is not None
    assert (refused.code, refused.message) == (ErrorCode.NODE_UNAVAILABLE, TOO_COSTLY)
    assert time.now_s == 106.0
    assert await toll_of(Book(LONGEST_WAIT_S, 0.0), time).wait() is None


def test_what_a_registration_cost_is_charged_to_its_address() -> None:
    book = Book()
    toll_of(book).pay(0.5)
    assert book.charged == [("192.0.2.1", 0.5)]
