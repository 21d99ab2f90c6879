"""Sessions in Redis: enough for another instance to go on with one. Outcomes are there only while nobody heard them."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from lingua_scheduler.domain.survival import ClaimOutcome, OpenOutcome, OwnedOutcome
from lingua_scheduler.store.connection import Line
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import Scripts


class SessionRecord(NamedTuple):
    """What was written about a session; `outcomes` are frames that nobody may have heard."""

    init: str
    generation: int
    cuts: str
    binding: str
    outcomes: tuple[str, ...]


class Sessions:
    def __init__(self, line: Line, keys: Keys, scripts: Scripts) -> None:
        self._line = line
        self._keys = keys
        self._scripts = scripts

    async def open(self, session_id: str, owner: str, token: str, init: str, keep_ms: int) -> OpenOutcome:
        reply = await self._scripts.run(
            "session_open",
            session=self._keys.session(session_id),
            owner=owner,
            token=_digest(token),
            init=init,
            keep_ms=keep_ms,
        )
        return OpenOutcome(reply[0])

    async def claim(self, session_id: str, owner: str, token: str, keep_ms: int) -> SessionRecord | None:
        """Take the session over; None when there is none, or the token is not its own."""
        reply = await self._scripts.run(
            "session_claim",
            session=self._keys.session(session_id),
            parked=self._keys.parked(session_id),
            owner=owner,
            token=_digest(token),
            keep_ms=keep_ms,
        )
        if ClaimOutcome(reply[0]) is ClaimOutcome.UNKNOWN:
            return None
        return SessionRecord(reply[1], int(reply[2]), reply[3], reply[4], tuple(reply[5:]))

    async def note(self, session_id: str, owner: str, cuts: str, binding: str, keep_ms: int) -> OwnedOutcome:
        reply = await self._scripts.run(
            "session_note",
            session=self._keys.session(session_id),
            owner=owner,
            cuts=cuts,
            binding=binding,
            keep_ms=keep_ms,
        )
        return OwnedOutcome(reply[0])

    async def park(
        self, session_id: str, owner: str, outcomes: Sequence[str], *, most: int, keep_ms: int
    ) -> OwnedOutcome:
        reply = await self._scripts.run(
            "session_park",
            session=self._keys.session(session_id),
            parked=self._keys.parked(session_id),
            owner=owner,
            most=most,
            keep_ms=keep_ms,
            outcomes=outcomes,
        )
        return OwnedOutcome(reply[0])

    async def close(self, session_id: str, owner: str) -> OwnedOutcome:
        reply = await self._scripts.run(
            "session_close",
            session=self._keys.session(session_id),
            parked=self._keys.parked(session_id),
            owner=owner,
        )
        return OwnedOutcome(reply[0])


def _digest(token: str) -> str:
    """Who reads Redis cannot resume other people's sessions."""
    return hashlib.sha256(token.encode()).hexdigest()
