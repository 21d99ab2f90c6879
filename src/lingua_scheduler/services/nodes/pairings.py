"""Pairing: makes codes for private nodes, and redeems those that sessions bring."""

from enum import Enum, auto

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.guards.rates import MinuteAllowances
from lingua_scheduler.store.reading import profile_of
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import logs
from lingua_sdk.domain.pairing import MISSES_PER_MIN, Pairing, code_in, fresh_code

_log = logs.get()


class Unpaired(Enum):
    """Why there is no code for a node."""

    UNKNOWN = auto()
    PUBLIC = auto()


class WrongCode(Exception):
    """The code is unknown, was used or has expired, or too many wrong ones came from the address."""


class Pairings:
    def __init__(self, store: Store, clock: Clock = SYSTEM_CLOCK) -> None:
        self._store = store
        self._clock = clock
        self._misses = MinuteAllowances(MISSES_PER_MIN)

    async def make(self, node_id: str) -> str | Unpaired:
        """A code for a node that is connected and private. Raises RedisAway."""
        place = await self._store.placements.find(node_id)
        view = None if place is None else await self._store.node_views.one(node_id, place.shard)
        said = None if view is None else profile_of(view.profile)
        if said is None:
            return Unpaired.UNKNOWN
        if not said.is_private:
            return Unpaired.PUBLIC
        while not await self._store.pairings.add(code := fresh_code(), Pairing(said.tenant, node_id)):
            pass
        return code

    async def redeem(self, text: str | None, meter: str) -> Pairing | None:
        """The node that a session is paired with; None if the text is no code. Raises WrongCode, RedisAway.

        `meter` stands for the address of the client; without one its tries are not counted.
        """
        code = code_in(text)
        if not code:
            return None
        if not self._misses.has(meter, self._clock()):
            raise WrongCode("too many wrong pairing codes from this address; wait a minute, then ask for a new code")
        found = await self._store.pairings.take(code)
        if found is None:
            self._misses.take(meter, self._clock())
            if not self._misses.has(meter, self._clock()):
                _log.warning("pairing.guessing", address=meter)
            raise WrongCode(
                "the pairing code is unknown, was used or has expired; ask the owner of the node for another"
            )
        return found
