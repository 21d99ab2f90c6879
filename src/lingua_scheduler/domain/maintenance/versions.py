"""The version of what is kept in Redis: rises when a release writes something the one before cannot read."""

from enum import StrEnum

# A release works with this version and the one before, so that instances can be upgraded one after another.
DATA_VERSION = 2


class ClaimOutcome(StrEnum):
    WRITTEN = "written"
    SAME = "same"
    RAISED = "raised"
    OLDER = "older"
    TOO_OLD = "too_old"
    NEWER = "newer"


def refusal(outcome: ClaimOutcome, stored: str, known: int = DATA_VERSION) -> str | None:
    """Why this release cannot work with the data, and what to do; None when it can."""
    match outcome:
        case ClaimOutcome.NEWER:
            return (
                f"it holds data of version {stored}, and this release knows versions up to {known}; "
                "install the release that wrote it, or use another redis.key_prefix"
            )
        case ClaimOutcome.TOO_OLD:
            return (
                f"it holds data of version {stored}, and this release can work with {known - 1} and {known}; "
                "upgrade in steps: run the release between, then lingua redis upgrade"
            )
    return None
