"""The job state machine: one table of transitions, the only place that defines which are legal."""

from enum import StrEnum

from lingua_sdk.domain.errors import RETRYABLE, ErrorCode


class JobState(StrEnum):
    CREATED = "CREATED"
    DISPATCHED = "DISPATCHED"
    ACCEPTED = "ACCEPTED"
    RUNNING = "RUNNING"
    RETRYING = "RETRYING"
    DONE = "DONE"
    NO_TEXT = "NO_TEXT"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class JobEvent(StrEnum):
    DISPATCH = "dispatch"
    ACCEPT = "accept"
    START = "start"
    FINISH = "finish"
    FIND_NO_TEXT = "find_no_text"
    LOSE_ATTEMPT = "lose_attempt"
    FAIL = "fail"
    CANCEL = "cancel"


LIVE = (JobState.DISPATCHED, JobState.ACCEPTED, JobState.RUNNING)
ENDED = (JobState.DONE, JobState.NO_TEXT, JobState.FAILED, JobState.CANCELLED)

MOVES: dict[tuple[JobState, JobEvent], JobState] = {
    (JobState.CREATED, JobEvent.DISPATCH): JobState.DISPATCHED,
    (JobState.RETRYING, JobEvent.DISPATCH): JobState.DISPATCHED,
    (JobState.DISPATCHED, JobEvent.ACCEPT): JobState.ACCEPTED,
    (JobState.DISPATCHED, JobEvent.START): JobState.RUNNING,
    (JobState.ACCEPTED, JobEvent.START): JobState.RUNNING,
    # A fast node's result may overtake its acknowledgement, so an attempt may end from any live state.
    **{(state, JobEvent.FINISH): JobState.DONE for state in LIVE},
    **{(state, JobEvent.FIND_NO_TEXT): JobState.NO_TEXT for state in LIVE},
    **{(state, JobEvent.LOSE_ATTEMPT): JobState.RETRYING for state in LIVE},
    **{(state, JobEvent.FAIL): JobState.FAILED for state in (JobState.CREATED, *LIVE, JobState.RETRYING)},
    **{(state, JobEvent.CANCEL): JobState.CANCELLED for state in (JobState.CREATED, *LIVE, JobState.RETRYING)},
}


def move(state: JobState, event: JobEvent) -> JobState | None:
    """The state after the event, or None if the event is not legal in this state."""
    return MOVES.get((state, event))


def legal_before(event: JobEvent) -> tuple[JobState, ...]:
    """The states in which the event is legal."""
    return tuple(state for state, other in MOVES if other is event)


_TARGETS = {event: state for (_, event), state in MOVES.items()}


def target_of(event: JobEvent) -> JobState:
    """Every event leads to one state, wherever it happens."""
    return _TARGETS[event]


# A node that recognised nothing reports it in `extra.reason` of a successful result.
NO_TEXT_REASONS = frozenset({"ASR_EMPTY", "NO_TEXT_ASSIGNED"})


# An unknown error code may be specific to the node, so it is worth a retry elsewhere.
_FINAL = frozenset(ErrorCode) - RETRYABLE


def event_of_result(success: bool, extra_reason: object, error_code: str | None) -> JobEvent:
    """The event and reason that a node's result means for the job."""
    if success:
        is_empty = isinstance(extra_reason, str) and extra_reason in NO_TEXT_REASONS
        return JobEvent.FIND_NO_TEXT if is_empty else JobEvent.FINISH
    return JobEvent.FAIL if error_code in _FINAL else JobEvent.LOSE_ATTEMPT
