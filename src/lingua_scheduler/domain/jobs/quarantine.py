"""Circuit breaker for nodes: which failures count against a node, and the rules that `lua/lib/judging.lua` applies."""

from enum import StrEnum
from typing import NamedTuple

from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_sdk.domain.errors import RETRYABLE, ErrorCode
from lingua_sdk.domain.losses import OTHER, Loss


class Mark(StrEnum):
    """How the end of an attempt counts for its node."""

    GOOD = "o"
    BAD = "x"
    NONE = ""


class QuarantineVerdict(StrEnum):
    """What the end of an attempt changed for its node."""

    QUARANTINED = "quarantined"
    RECOVERED = "recovered"
    UNCHANGED = ""


class QuarantineRules(NamedTuple):
    """A node is quarantined after `failures` of its last `window` jobs, or `consecutive` in a row. A failed probe
    doubles the time.

    After `believed_after` successful jobs a node's usable slots double; 0: they never grow.
    """

    failures: int
    window: int
    consecutive: int
    first_ms: int
    longest_ms: int
    believed_after: int = 0


# Refusing, lacking a model or losing the connection is not a failure of the node.
_NO_FAULT = frozenset({ErrorCode.NODE_OVERLOADED, ErrorCode.MODEL_NOT_AVAILABLE, ErrorCode.WS_DISCONNECTED})
# One that calls every job a duplicate is as bad as one that fails every job.
# A code that a node made up does not shift the blame.
_BLAMED = frozenset({Loss.ACK_TIMEOUT, Loss.JOB_TIMEOUT, Loss.DUPLICATE, OTHER, *(RETRYABLE - _NO_FAULT)})


def mark_of(event: JobEvent, reason: str) -> Mark:
    """`reason` is the node's error code, or a loss reason of ours (domain/jobs/losses.py)."""
    match event:
        case JobEvent.FINISH | JobEvent.FIND_NO_TEXT:
            return Mark.GOOD
        case JobEvent.LOSE_ATTEMPT:
            return Mark.BAD if reason in _BLAMED else Mark.NONE
        case _:
            # A code that is not worth a retry is the utterance's own fault.
            return Mark.NONE
