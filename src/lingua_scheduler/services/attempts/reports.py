"""How an attempt ended: the node's result, a loss without the node's word, or a cancellation."""

from typing import NamedTuple

from lingua_scheduler.protocol.node import JobResult


class Lost(NamedTuple):
    """An attempt that ended without the node's word."""

    reason: str


class Cancelled(NamedTuple):
    """Somebody does not want the job any more."""

    reason: str = "cancelled"


Report = JobResult | Lost | Cancelled
