"""CPU limit of registrations per address, over all its connections: an address above it is delayed."""

import asyncio

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.guards.addresses import AddressBook
from lingua_scheduler.services.attempts.work import Refusal
from lingua_scheduler.services.nodes.registry import REGISTRATIONS
from lingua_sdk.domain.errors import ErrorCode

# Maximum delay; beyond it the registration is refused.
LONGEST_WAIT_S = 10.0
LEAST_WAIT_S = 0.02

TOO_COSTLY = "registrations from this address use too much CPU; try again later"


class Toll:
    """Charges registrations to the address rather than to the connection, which a peer could simply reopen."""

    __slots__ = ("_addresses", "_clock", "_meter")

    def __init__(self, addresses: AddressBook, meter: str, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._addresses = addresses
        self._meter = meter

    async def wait(self) -> Refusal | None:
        """Wait before anything is parsed; registrations that wait are served one after the other."""
        began_s = self._clock()
        rest_s = self._addresses.rest_s(self._meter, began_s)
        if rest_s:
            REGISTRATIONS["delayed"].inc()
        while rest_s:
            if self._clock() + rest_s > began_s + LONGEST_WAIT_S:
                REGISTRATIONS["refused"].inc()
                return Refusal(ErrorCode.NODE_UNAVAILABLE, TOO_COSTLY)
            await asyncio.sleep(max(rest_s, LEAST_WAIT_S))
            rest_s = self._addresses.rest_s(self._meter, self._clock())
        return None

    def pay(self, cpu_s: float) -> None:
        self._addresses.charge(self._meter, cpu_s, self._clock())
