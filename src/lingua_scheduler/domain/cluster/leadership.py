"""Leader election: the leader's term, and the outcomes of publishing the pool map."""

import re
from enum import StrEnum
from typing import NamedTuple

_TERM = re.compile(r"([A-Za-z0-9_.-]{1,64}) (\d{1,18})", re.ASCII)


class LeaderClaimOutcome(StrEnum):
    LEADING = "leading"
    FOLLOWING = "following"


class ResignOutcome(StrEnum):
    RESIGNED = "resigned"
    STALE = "stale"


class PublishOutcome(StrEnum):
    PUBLISHED = "published"
    CONFIRMED = "confirmed"
    STALE = "stale"
    UNKNOWN = "unknown"


class Term(NamedTuple):
    """One term of a leader.

    Its epoch is a fencing token: never used twice, so writes of an earlier leader are rejected.
    """

    instance: str
    epoch: str

    @classmethod
    def parse(cls, text: str) -> "Term | None":
        """None for what no scheduler can have written."""
        found = _TERM.fullmatch(text)
        return None if found is None else cls(found[1], found[2])
