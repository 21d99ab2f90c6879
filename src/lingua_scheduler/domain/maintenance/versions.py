"""The data version in Redis: it rises when a release writes something the previous one cannot read."""

from enum import StrEnum

# A release supports this version and the previous one, for rolling upgrades.
DATA_VERSION = 2


class VersionClaimOutcome(StrEnum):
    WRITTEN = "written"
    SAME = "same"
    RAISED = "raised"
    OLDER = "older"
    TOO_OLD = "too_old"
    NEWER = "newer"


def refusal(outcome: VersionClaimOutcome, stored: str, known: int = DATA_VERSION) -> str | None:
    """Why this release does not support the data, and what to do; None if it does."""
    match outcome:
        case VersionClaimOutcome.NEWER:
            return (
                f"its data has version {stored}, but this release supports versions up to {known}; "
                "install the release that wrote it, or use another redis.key_prefix"
            )
        case VersionClaimOutcome.TOO_OLD:
            return (
                f"its data has version {stored}, but this release supports only {known - 1} and {known}; "
                "upgrade in steps: run the release in between, then lingua redis upgrade"
            )
    return None


def unreadable(stored: str | None, known: int = DATA_VERSION) -> str | None:
    """The same for one who only reads, and so claims nothing; None also where there is no version yet."""
    if stored is None or stored in (str(known - 1), str(known)):
        return None
    is_older = stored.isdecimal() and int(stored) < known
    return refusal(VersionClaimOutcome.TOO_OLD if is_older else VersionClaimOutcome.NEWER, stored, known)
