"""The decisions of a retry course: ask for a slot, continue under another job id, give up, or end."""

from enum import Enum, StrEnum

import msgspec

from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_sdk.domain.errors import ErrorCode

# Texts for callers; the address of Redis appears only in logs.
AWAY = "Redis is unavailable; try again shortly"
REFUSED = "Redis accepts no writes; try again later"
RESULT_LOST = "the job has ended, but its result was lost; send the request again"


class PlaceJob(msgspec.Struct, frozen=True, gc=False):
    """Ask for a slot for the course's `wanted`, after a pause."""

    pause_s: float = 0.0


class PlaceWhenBack(msgspec.Struct, frozen=True, gc=False):
    """Ask for the same slot until Redis answers. If it was leased before, the answer is the same."""

    patience_s: float


class Renewal(Enum):
    """Why an utterance continues under another job id."""

    RESULT_LOST = "result_lost"  # the job is over in Redis, and its result was lost between instances
    CLOSED_ELSEWHERE = "closed_elsewhere"  # this instance counted as dead while the job waited
    ID_TAKEN = "id_taken"  # the only nodes left take each id once, and have had this one


class Renew(msgspec.Struct, frozen=True, gc=False):
    """After a pause leave the old job id, closing its job if it `is_open`, and continue under a new one.

    Report `on_renewed`, or `on_cancelled` when the old job turns out to be cancelled. One that began anew and had no
    attempt since has no id yet, and nothing to close.
    """

    cause: Renewal
    pause_s: float = 0.0

    @property
    def is_open(self) -> bool:
        return self.cause is Renewal.ID_TAKEN


class Denial(StrEnum):
    """Why a retry that `max_retries` allows was not made."""

    TOO_LATE = "too_late"
    OVER_BUDGET = "over_budget"


class GiveUp(msgspec.Struct, frozen=True, gc=False):
    """Close the job in Redis as failed, if it `is_open`; when it turns out to be cancelled, that is the outcome."""

    error: ErrorCode
    # Empty when it takes a look at the fleet to say what is missing.
    detail: str
    denial: Denial | None = None
    is_open: bool = True


class End(msgspec.Struct, frozen=True, gc=False):
    """The job is over, and this is written to Redis or cannot be."""

    state: JobState
    error: ErrorCode | None = None
    detail: str = ""


PLACE = PlaceJob()
CANCELLED = End(JobState.CANCELLED, detail="cancelled")
WITHDRAWN = End(JobState.CANCELLED, detail="withdrawn before it was sent")
RESULT_GONE = GiveUp(ErrorCode.RESULT_LOST, RESULT_LOST, is_open=False)
