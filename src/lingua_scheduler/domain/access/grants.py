"""The claim `lingua` of a token. Everything in it restricts, so a field that is not known makes the token invalid."""

from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from lingua_scheduler.domain.access.credentials import END, TENANT
from lingua_scheduler.domain.access.scopes import Scope

MAX_SUBJECT_CHARS = 128

Grant = Literal["session", "dispatch", "room"]
_LANGUAGE = r"(\*|[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*)"
Pair = Annotated[str, Meta(pattern=f"^{_LANGUAGE}:{_LANGUAGE}{END}")]


class RoomGrant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The one room that a token is for, and whether its holder may speak there."""

    code: Annotated[str, Meta(pattern=f"^[1-9][0-9]{{5}}{END}")]
    role: Literal["speaker", "listener"] = "speaker"


class Grants(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tenant: Annotated[str, Meta(pattern=TENANT)]
    grants: Annotated[tuple[Grant, ...], Meta(max_length=8)] = ("session",)
    pairs: Annotated[tuple[Pair, ...], Meta(max_length=64)] = ()
    max_sessions: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    room: RoomGrant | None = None

    @property
    def scopes(self) -> frozenset[Scope]:
        """A token for one room joins that one, and opens no other."""
        room = {Scope.ROOM_JOIN} if self.room is not None else {Scope.ROOM_JOIN, Scope.ROOM_CREATE}
        found = {"session": {Scope.SESSION_OPEN}, "dispatch": {Scope.DISPATCH_CALL}, "room": room}
        return frozenset(scope for grant in self.grants for scope in found[grant])


def with_implied(grants: tuple[Grant, ...], room: RoomGrant | None) -> tuple[Grant, ...]:
    """What the wish for a token comes to: a named room is there to be joined, and rooms are entered from a session."""
    wanted = (*grants, *(("room",) if room is not None else ()))
    return tuple(dict.fromkeys(("session", *wanted) if "room" in wanted else wanted))


def are_within(pairs: Iterable[str], limits: tuple[str, ...]) -> bool:
    """Whether pairs such as zh:en or *:fr allow nothing that the limits do not. No limits: everything."""
    return not limits or all(any(_is_within(pair, limit) for limit in limits) for pair in pairs)


def _is_within(pair: str, limit: str) -> bool:
    sides = zip(pair.split(":"), limit.split(":"), strict=False)
    return all(allowed in ("*", wanted) for wanted, allowed in sides)
