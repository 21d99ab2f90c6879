"""The claim `lingua` of a token. Everything in it restricts, so a field that is not known makes the token invalid."""

from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from lingua_scheduler.domain.access.credentials import END, TENANT
from lingua_scheduler.domain.access.scopes import Scope

MAX_TOKEN_CHARS = 4096
MAX_SUBJECT_CHARS = 128

Grant = Literal["session", "dispatch"]
_LANGUAGE = r"(\*|[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*)"
Pair = Annotated[str, Meta(pattern=f"^{_LANGUAGE}:{_LANGUAGE}{END}")]


class Grants(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tenant: Annotated[str, Meta(pattern=TENANT)]
    grants: Annotated[tuple[Grant, ...], Meta(max_length=8)] = ("session",)
    pairs: Annotated[tuple[Pair, ...], Meta(max_length=64)] = ()
    max_sessions: Annotated[int, Meta(ge=0, le=1_000_000)] = 0

    @property
    def scopes(self) -> frozenset[Scope]:
        found = {"session": Scope.SESSION_OPEN, "dispatch": Scope.DISPATCH_CALL}
        return frozenset(found[grant] for grant in self.grants)


def are_within(pairs: Iterable[str], limits: tuple[str, ...]) -> bool:
    """Whether pairs such as zh:en or *:fr allow nothing that the limits do not. No limits: everything."""
    return not limits or all(any(_is_within(pair, limit) for limit in limits) for pair in pairs)


def _is_within(pair: str, limit: str) -> bool:
    sides = zip(pair.split(":"), limit.split(":"), strict=False)
    return all(allowed in ("*", wanted) for wanted, allowed in sides)
