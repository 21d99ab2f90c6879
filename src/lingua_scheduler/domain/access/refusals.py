"""Refused credentials, summed by address: a flood of them does not push other entries out of a bounded log."""

from collections.abc import Iterable
from typing import NamedTuple

from lingua_scheduler.domain.access.audit import MAX_VALUES, Value

MOST_ADDRESSES = 1_000
MOST_KEYS = 4
OTHERS = "others"


class RefusedFrom(NamedTuple):
    times: int = 0
    # Public parts of the keys, the first few.
    keys: tuple[str, ...] = ()


class RefusalSums:
    """Bounded: what comes from further addresses is one sum."""

    def __init__(self) -> None:
        self._sums: dict[str, RefusedFrom] = {}

    @property
    def total(self) -> int:
        return sum(found.times for found in self._sums.values())

    def add(self, address: str, keys: Iterable[str] = (), count: int = 1) -> None:
        if address not in self._sums and len(self._sums) >= MOST_ADDRESSES:
            address, keys = OTHERS, ()
        before = self._sums.get(address, RefusedFrom())
        known = dict.fromkeys((*before.keys, *(key for key in keys if key)))
        self._sums[address] = RefusedFrom(before.times + count, tuple(known)[:MOST_KEYS])

    def join(self, other: "RefusalSums") -> None:
        for address, found in other._sums.items():
            self.add(address, found.keys, found.times)

    def values(self) -> dict[str, Value]:
        """By address how many and with which keys, as many addresses as an entry holds: those with the most."""
        addresses = sorted(self._sums.keys() - {OTHERS}, key=lambda one: (-self._sums[one].times, one))
        listed = addresses[: MAX_VALUES - 1]
        found: dict[str, Value] = {
            address: " ".join((str(self._sums[address].times), *self._sums[address].keys)) for address in listed
        }
        if rest := self.total - sum(self._sums[address].times for address in listed):
            found[OTHERS] = str(rest)
        return found
