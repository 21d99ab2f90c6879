"""Wrong room codes of a tenant in this minute, counted by Redis: an attacker may use many addresses and instances."""

import hashlib
from typing import NamedTuple

from lingua_scheduler.domain.rooms.guesses import GuessOutcome
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import Scripts

WINDOW_MS = 60_000
# In a minute and tenant, from all addresses together: so many are remembered.
MOST_TRIES = 10_000


class Guess(NamedTuple):
    outcome: GuessOutcome
    # Of all addresses.
    wrong: int


class RoomGuesses:
    def __init__(self, keys: Keys, scripts: Scripts) -> None:
        self._keys = keys
        self._scripts = scripts

    async def take(self, tenant: str, address: str, most_each: int, most_all: int) -> Guess:
        outcome, wrong = await self._scripts.run(
            "room_guess",
            tries=self._keys.guesses(tenant),
            address=_digest(address),
            most_each=most_each,
            most_all=most_all,
            most=max(most_all, MOST_TRIES),
            window_ms=WINDOW_MS,
        )
        return Guess(GuessOutcome(outcome), int(wrong))

    async def give_back(self, tenant: str, address: str) -> None:
        await self._scripts.run("room_guess_return", tries=self._keys.guesses(tenant), address=_digest(address))


def _digest(address: str) -> str:
    """Who reads Redis learns nothing of where people are."""
    return hashlib.sha256(address.encode()).hexdigest()[:16]
