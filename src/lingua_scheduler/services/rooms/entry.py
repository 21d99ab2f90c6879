"""Who may create or join a room: by its credential, and by how often it tries."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.access.scopes import Scope
from lingua_scheduler.domain.guards.rates import MinuteAllowances
from lingua_scheduler.domain.rooms.guesses import GuessedTenants, GuessOutcome
from lingua_scheduler.domain.rooms.rooms import RoomErrorCode, RoomName
from lingua_scheduler.services.sessions.sessions import Session
from lingua_scheduler.setting_sections.rooms import RoomsSettings
from lingua_scheduler.store.rooms.guesses import RoomGuesses
from lingua_scheduler.telemetry import logs, metrics

_log = logs.get()


class RoomRefusal(Exception):
    """Why a member does not get what it asked for, in words for a person."""

    def __init__(self, code: RoomErrorCode, told: str) -> None:
        super().__init__(told)
        self.code = code


class CodeTry:
    """One try at a code."""

    is_right = False


class RoomEntry:
    def __init__(self, guesses: RoomGuesses, settings: RoomsSettings, clock: Clock = SYSTEM_CLOCK) -> None:
        self._guesses = guesses
        self._clock = clock
        self._misses_per_min = settings.misses_per_min
        self._all_misses_per_min = settings.all_misses_per_min
        self._joins = MinuteAllowances(settings.joins_per_min)
        self._guessed = GuessedTenants()
        # One at a time of each address, or people behind one address would use up its tries by joining at once.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def guessing(self) -> dict[str, int]:
        """Tenants in which codes are being guessed, and how many wrong ones were named in a minute."""
        return self._guessed.at(self._clock())

    def check_create(self, session: Session) -> None:
        """Raises RoomRefusal."""
        principal = session.caller
        if Scope.ROOM_CREATE not in principal.scopes or principal.room_code or principal.is_listener:
            raise RoomRefusal(RoomErrorCode.DENIED, "无权创建房间 (this credential may not create rooms)")
        self._check_pace(session)

    def check_join(self, session: Session, code: str) -> None:
        """Raises RoomRefusal."""
        principal = session.caller
        if Scope.ROOM_JOIN not in principal.scopes or principal.room_code not in ("", code):
            raise RoomRefusal(RoomErrorCode.DENIED, "无权加入该房间 (this credential may not join this room)")
        self._check_pace(session)

    @asynccontextmanager
    async def trying(self, session: Session, name: RoomName) -> AsyncIterator[CodeTry]:
        """Six digits can be guessed, so wrong codes are counted. Raises RoomRefusal before the code is looked at.

        A token for this room proves that its user was given the code."""
        meter, attempt = _meter(session), CodeTry()
        if not meter or session.caller.room_code == name.code:
            yield attempt
            return
        turn = self._turns.setdefault(meter, asyncio.Lock())
        async with turn:
            await self._take(session, name.tenant, meter)
            yield attempt
            if attempt.is_right:
                await self._guesses.give_back(name.tenant, meter)

    async def _take(self, session: Session, tenant: str, meter: str) -> None:
        guess = await self._guesses.take(tenant, meter, self._misses_per_min, self._all_misses_per_min)
        if guess.wrong >= self._all_misses_per_min and self._guessed.saw(tenant, guess.wrong, self._clock()):
            _log.warning("rooms.guarded", tenant=tenant, wrong=guess.wrong)
        if guess.outcome is GuessOutcome.TAKEN:
            return
        metrics.ROOM_GUESSES_REFUSED.inc()
        _log.warning("rooms.guessing", session_id=session.session_id, address=session.address, tenant=tenant)
        raise RoomRefusal(RoomErrorCode.TOO_OFTEN, "尝试次数过多，请稍后再试 (too many wrong codes; wait a minute)")

    def _check_pace(self, session: Session) -> None:
        """Each time the whole room is sent a list, and the one that joins the history."""
        if not self._joins.take(counted_as(session), self._clock()):
            raise RoomRefusal(RoomErrorCode.TOO_OFTEN, "操作过于频繁，请稍后再试 (too many rooms; wait a minute)")


def counted_as(session: Session) -> str:
    """The name under which limits of a person are counted, at whichever session.

    Visitors of a page may share its key, so the address is part of it; without a credential it is the session."""
    owner = session.caller.owner_digest
    return f"{owner} {_meter(session) or session.address}" if owner else session.session_id


def _meter(session: Session) -> str:
    return session.peer.meter if session.peer is not None else ""
