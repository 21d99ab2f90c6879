"""Who is to blame when an attempt ends, and how often a node may be before it is left alone for a while."""

from enum import StrEnum
from typing import NamedTuple

from lingua_scheduler.domain.errors import RETRYABLE, ErrorCode
from lingua_scheduler.domain.jobs import JobEvent
from lingua_scheduler.domain.losses import Loss


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
    """So many failures of the last `window`, or so many in a row. A probe that fails doubles the time."""

    failures: int
    window: int
    consecutive: int
    first_ms: int
    longest_ms: int


# A node may refuse, lack a model, or lose its connection, without being a bad node.
_NO_FAULT = frozenset({ErrorCode.NODE_OVERLOADED, ErrorCode.MODEL_NOT_AVAILABLE, ErrorCode.WS_DISCONNECTED})
_BLAMED = frozenset({Loss.ACK_TIMEOUT, Loss.JOB_TIMEOUT, *(RETRYABLE - _NO_FAULT)})


def mark_of(event: JobEvent, reason: str) -> Mark:
    """`reason` is the node's error code, or our word for what happened to the attempt."""
    match event:
        case JobEvent.FINISH | JobEvent.FIND_NO_TEXT:
            return Mark.GOOD
        case JobEvent.LOSE_ATTEMPT:
            return Mark.BAD if reason in _BLAMED else Mark.NONE
        case JobEvent.FAIL:
            # A known code that is not worth a retry is the utterance's own fault; nobody knows that of a made-up one.
            return Mark.NONE if not reason or reason in ErrorCode.__members__ else Mark.BAD
        case _:
            return Mark.NONE
