"""Who leads, and what became of what a leader wanted to publish."""

from enum import StrEnum
from typing import NamedTuple


class ClaimOutcome(StrEnum):
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
    """One time of leading: an epoch is never used twice, so what an old leader writes is told apart."""

    instance: str
    epoch: str
