"""Why an attempt ended without a result, in few and known words: they become labels, lines of a log and records."""

from enum import StrEnum

from lingua_scheduler.domain.errors import ErrorCode


class Loss(StrEnum):
    """Our own words; a node's word is an error code."""

    ACK_TIMEOUT = "ack_timeout"
    JOB_TIMEOUT = "job_timeout"
    # A part of a speech that goes on: a node may keep it and answer with the last one, so its silence is no fault.
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
    """The word itself if it is ours or an error code, else that it is another."""
    return said if said in REASONS else OTHER


def known_code(said: str) -> str:
    """The error code a peer named, if there is such a code."""
    return said if said in ErrorCode.__members__ else OTHER
