"""What registrations cost their address, by however many connections they come: an address that costs much waits."""

import asyncio
from time import monotonic

from lingua_scheduler.domain.errors import ErrorCode
from lingua_scheduler.domain.guards.addresses import AddressBook
from lingua_scheduler.services.attempts.work import Refusal
from lingua_scheduler.services.nodes.registry import REGISTRATIONS

# Nobody waits longer for the others of its address.
LONGEST_WAIT_S = 10.0
LEAST_WAIT_S = 0.02

TOO_COSTLY = "the nodes of this address have said too much; try again later"


class Toll:
    """Paid by one who registers. A connection of its own would owe nothing any more when it is opened again."""

    __slots__ = ("_addresses", "_meter")

    def __init__(self, addresses: AddressBook, meter: str) -> None:
        self._addresses = addresses
        self._meter = meter

    async def wait(self) -> Refusal | None:
        """To be called before anything is read; those who wait are served one after the other."""
        began_s = monotonic()
        rest_s = self._addresses.rest_s(self._meter, began_s)
        if rest_s:
            REGISTRATIONS["delayed"].inc()
        while rest_s:
            if monotonic() + rest_s > began_s + LONGEST_WAIT_S:
                REGISTRATIONS["refused"].inc()
                return Refusal(ErrorCode.NODE_UNAVAILABLE, TOO_COSTLY)
            await asyncio.sleep(max(rest_s, LEAST_WAIT_S))
            rest_s = self._addresses.rest_s(self._meter, monotonic())
        return None

    def pay(self, cpu_s: float) -> None:
        self._addresses.charge(self._meter, cpu_s, monotonic())
