"""Session records in Redis: enough for another instance to continue one. Outcomes are stored only until delivered."""

import asyncio
import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from lingua_scheduler.domain.sessions.conversation import MAX_UNDER_WAY
from lingua_scheduler.domain.sessions.handover import OpenOutcome, OwnedOutcome, SessionClaimOutcome, SessionOwner
from lingua_scheduler.store.connection import RedisLine
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import Scripts


class SessionRecord(NamedTuple):
    """The record of a session; `outcomes` are frames that may not have reached the client."""

    init: str
    generation: int
    cuts: str
    binding: str
    paired: str
    outcomes: tuple[bytes, ...]


class HeldBy(NamedTuple):
    """A session that a living socket speaks for, as far as its owner told."""

    owner: str

    @property
    def instance(self) -> str:
        return SessionOwner.parse(self.owner).instance

    @property
    def incarnation(self) -> str:
        """The life of the instance; empty in records of a release that did not write it down."""
        return SessionOwner.parse(self.owner).incarnation


class Hold(NamedTuple):
    """Whose a session is: the one who holds it, and its generation, which rises with every claim (a fencing token)."""

    owner: str
    generation: int = 1


class SessionStore:
    """`belongs_to` is a digest of the principal that opened a session; empty if it needed no credential."""

    def __init__(self, line: RedisLine, keys: Keys, scripts: Scripts) -> None:
        self._line = line
        self._keys = keys
        self._scripts = scripts

    async def open(
        self,
        session_id: str,
        hold: Hold,
        token: str,
        init: str,
        keep_ms: int,
        *,
        is_found_by_id: bool = False,
        cuts: str = "",
        binding: str = "",
        address: str = "",
        is_away: bool = False,
        belongs_to: str = "",
        paired: str = "",
    ) -> OpenOutcome:
        """Write a session down, at its beginning or after Redis has lost its record."""
        reply = await self._scripts.run(
            "session_open",
            session=self._keys.session(session_id),
            owner=hold.owner,
            token=_digest(token),
            init=init,
            by_id=int(is_found_by_id),
            generation=hold.generation,
            cuts=cuts,
            binding=binding,
            address=_digest(f"{session_id} {address}") if is_found_by_id else "",
            away=int(is_away),
            belongs_to=belongs_to,
            paired=paired,
            keep_ms=keep_ms,
        )
        return OpenOutcome(reply[0])

    async def claim(
        self, session_id: str, owner: str, token: str, keep_ms: int, *, address: str = "", belongs_to: str = ""
    ) -> SessionRecord | None:
        """Take the session over; None when there is none, or the token is not its own, or another's."""
        claimed = await self._claim(session_id, owner, _digest(token), address, belongs_to, "", keep_ms)
        return claimed if isinstance(claimed, SessionRecord) else None

    async def claim_by_id(
        self,
        session_id: str,
        owner: str,
        address: str,
        keep_ms: int,
        *,
        dead: HeldBy | None = None,
        belongs_to: str = "",
    ) -> SessionRecord | HeldBy | None:
        """Without a token: one that was opened to be found by its id, from this address, while no socket speaks for it.

        `dead` names an owner that died without telling that its socket is gone.
        """
        former = "" if dead is None else dead.owner
        return await self._claim(session_id, owner, "", address, belongs_to, former, keep_ms)

    async def _claim(
        self, session_id: str, owner: str, token: str, address: str, belongs_to: str, dead: str, keep_ms: int
    ) -> SessionRecord | HeldBy | None:
        reply = await self._scripts.run(
            "session_claim",
            session=self._keys.session(session_id),
            parked=self._keys.parked(session_id),
            owner=owner,
            token=token,
            address=_digest(f"{session_id} {address}"),
            belongs_to=belongs_to,
            dead=dead,
            most=MAX_UNDER_WAY,
            keep_ms=keep_ms,
        )
        match SessionClaimOutcome(reply[0]):
            case SessionClaimOutcome.UNKNOWN:
                return None
            case SessionClaimOutcome.HELD:
                return HeldBy(reply[1])
            case SessionClaimOutcome.CLAIMED:
                frames = tuple(frame.encode("utf-8", "surrogateescape") for frame in reply[6:])
                return SessionRecord(reply[1], int(reply[2]), reply[3], reply[4], reply[5], frames)

    async def note(
        self,
        session_id: str,
        hold: Hold,
        cuts: str,
        binding: str,
        keep_ms: int,
        *,
        address: str | None = None,
        is_away: bool = False,
    ) -> OwnedOutcome:
        """`address` of one that is found by its id."""
        reply = await self._scripts.run(
            "session_note",
            session=self._keys.session(session_id),
            owner=hold.owner,
            generation=hold.generation,
            cuts=cuts,
            binding=binding,
            address="" if address is None else _digest(f"{session_id} {address}"),
            away=int(is_away),
            keep_ms=keep_ms,
        )
        return OwnedOutcome(reply[0])

    async def is_held(self, session_id: str, hold: Hold, keep_ms: int) -> bool:
        """Whether its record is there and names this owner; if there is one, it is kept for so long again.

        Two plain commands cost a tenth of a script, and they need not be one step: neither changes who owns it."""
        key = self._keys.session(session_id)
        owner, _ = await asyncio.gather(self._line.call("HGET", key, "owner"), self._line.call("PEXPIRE", key, keep_ms))
        return bool(owner == hold.owner)

    async def park(
        self, session_id: str, hold: Hold, outcomes: Sequence[bytes], *, most: int, keep_ms: int
    ) -> OwnedOutcome:
        reply = await self._scripts.run(
            "session_park",
            session=self._keys.session(session_id),
            parked=self._keys.parked(session_id),
            owner=hold.owner,
            generation=hold.generation,
            most=most,
            keep_ms=keep_ms,
            outcomes=outcomes,
        )
        return OwnedOutcome(reply[0])

    async def close(self, session_id: str, hold: Hold, *, keep_ms: int) -> OwnedOutcome:
        """`keep_ms`: how long former owners, if there are any, can find out that it is over."""
        reply = await self._scripts.run(
            "session_close",
            session=self._keys.session(session_id),
            parked=self._keys.parked(session_id),
            owner=hold.owner,
            generation=hold.generation,
            keep_ms=keep_ms,
        )
        return OwnedOutcome(reply[0])


def _digest(token: str) -> str:
    """Who reads Redis cannot resume other people's sessions."""
    return hashlib.sha256(token.encode()).hexdigest()
