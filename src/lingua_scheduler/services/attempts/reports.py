"""How an attempt ended: the node's result, a loss without the node's word, or a cancellation."""

from typing import NamedTuple

import msgspec

from lingua_scheduler.services.attempts.meaning import Meaning, meaning_of
from lingua_sdk.protocol.node import JobResult


class Answered(msgspec.Struct, frozen=True, gc=False):
    """The node's result, and what it means for the job: decided once, where the result arrives."""

    result: JobResult
    meaning: Meaning


class LostAttempt(NamedTuple):
    """An attempt that ended without the node's word."""

    reason: str


class Cancelled(NamedTuple):
    """The job is not wanted any more."""

    reason: str = "cancelled"


Report = Answered | LostAttempt | Cancelled


def answered(result: JobResult) -> Answered:
    return Answered(result, meaning_of(result))
