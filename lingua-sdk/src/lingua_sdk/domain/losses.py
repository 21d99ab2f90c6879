"""Reasons why an attempt ended without a result: a fixed set, used as metric labels, in logs and in records."""

import builtins
from enum import StrEnum
from typing import Any

from lingua_sdk.domain.errors import ErrorCode


class Loss(StrEnum):
    """Reasons given by the scheduler; a node's reason is an error code."""

    ACK_TIMEOUT = "ack_timeout"
    JOB_TIMEOUT = "job_timeout"
    # A part of a longer turn: a node may keep it and answer with the last part, so its silence is no fault.
    PART_TIMEOUT = "part_timeout"
    # Existing nodes say nothing when there is nothing to say, so that is no fault either.
    NO_ANSWER = "no_answer"
    DUPLICATE = "duplicate"  # the node has had this job, or this utterance of the session, before
    LEASE_OVER = "lease_over"  # a sweep found it before any timer rang
    SEND_FAILED = "send_failed"
    LETTER_DEAD = "letter_dead"  # the order was posted to another instance, which could not handle it
    DISOWNED = "disowned"  # the node says that it does not run it
    RESULT_LOST = "result_lost"
    NODE_GONE = "node_gone"
    NODE_SILENT = "node_silent"
    NODE_EVICTED = "node_evicted"
    NODE_RETURNED = "node_returned"  # as another process, which knows nothing of it
    INSTANCE_GONE = "instance_gone"
    CANCELLED = "cancelled"


# What a peer made up. It is not repeated anywhere: nodes have been seen to put speech into their errors.
OTHER = "other"
REASONS = frozenset({*Loss, *ErrorCode, OTHER})


def known_reason(said: str) -> str:
    """The reason itself if it is known, else `other`."""
    return said if said in REASONS else OTHER


def known_code(said: str) -> str:
    """The error code a peer named, if it is a known one."""
    return said if said in ErrorCode.__members__ else OTHER


# The stages of a job by the kind of service, as the methods of engines are called.
STAGES = {"asr": "recognise", "semantic": "repair", "nmt": "translate", "tts": "speak"}
_EXCEPTIONS = frozenset(
    name for name, found in vars(builtins).items() if isinstance(found, type) and issubclass(found, BaseException)
)


def known_cause(details: Any) -> str:
    """Where a node failed, and with which of Python's own exceptions; words that a peer made up are left out."""
    if not isinstance(details, dict):
        return ""
    stage, exception = details.get("stage"), details.get("exception")
    where = f"in {stage}" if isinstance(stage, str) and stage in STAGES.values() else ""
    what = exception if isinstance(exception, str) and exception in _EXCEPTIONS else ""
    return " ".join(filter(None, (what, where)))


def exception_name(kind: type[BaseException]) -> str:
    """The nearest of Python's own exceptions: another name may say more than others should know."""
    return next(
        base.__name__ for base in kind.__mro__ if base.__name__ in _EXCEPTIONS and base.__module__ == "builtins"
    )
