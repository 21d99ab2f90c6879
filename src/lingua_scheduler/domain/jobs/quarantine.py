"""Who is to blame when an attempt ends, and how often a node may be before it is left alone for a while."""

from enum import StrEnum
from typing import NamedTuple

from lingua_scheduler.domain.errors import RETRYABLE, ErrorCode
from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.domain.jobs.losses import OTHER, Loss


class Mark(StrEnum):
    """What the end of an attempt says about its node."""

    GOOD = "o"
    BAD = "x"
    NONE = ""


class Verdict(StrEnum):
    """What became of the node."""

    QUARANTINED = "quarantined"
    RECOVERED = "recovered"
    UNCHANGED = ""


class QuarantineRules(NamedTuple):
    """So many failures of the last `window`, or so many in a row. A probe that fails doubles the time.

    After `believed_after` good results twice as many of a node's slots are believed; 0: never more.
    """

    failures: int
    window: int
    consecutive: int
    first_ms: int
    longest_ms: int
    believed_after: int = 0


# A node may refuse, lack a model, or lose its connection, without being a bad node.
_NO_FAULT = frozenset({ErrorCode.NODE_OVERLOADED, ErrorCode.MODEL_NOT_AVAILABLE, ErrorCode.WS_DISCONNECTED})
# One that calls every job a duplicate is as bad as one that fails every job.
# A code that a node made up does not shift the blame.
_BLAMED = frozenset({Loss.ACK_TIMEOUT, Loss.JOB_TIMEOUT, Loss.DUPLICATE, OTHER, *(RETRYABLE - _NO_FAULT)})


def mark_of(event: JobEvent, reason: str) -> Mark:
    """`reason` is the node's error code, or our word for what happened to the attempt."""
    match event:
        case JobEvent.FINISH | JobEvent.FIND_NO_TEXT:
            return Mark.GOOD
        case JobEvent.LOSE_ATTEMPT:
            return Mark.BAD if reason in _BLAMED else Mark.NONE
        case _:
            # A code that is not worth a retry is the utterance's own fault.
            return Mark.NONE
