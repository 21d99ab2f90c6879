"""Idempotency keys: which request a request id stands for, and what a repeat is answered with."""

from collections import OrderedDict
from enum import StrEnum
from typing import NamedTuple


class Request(NamedTuple):
    """A request id is scoped to its tenant, caller and session, so that an id used twice never returns another person's
    job."""

    # The tenant; of a caller with a credential that chooses its session ids, the caller too.
    tenant_id: str
    session_id: str
    request_id: str


class RequestClaimOutcome(StrEnum):
    CLAIMED = "claimed"
    BOUND = "bound"  # it has a job already
    PENDING = "pending"  # another caller is placing its job
    CONFLICT = "conflict"  # the id was used for something else


class BindOutcome(StrEnum):
    BOUND = "bound"
    LOST = "lost"  # the claim has expired, or has another holder


class RequestReleaseOutcome(StrEnum):
    RELEASED = "released"
    LOST = "lost"


class RequestSeen(StrEnum):
    FIRST = "first"
    REPEAT = "repeat"
    CONFLICT = "conflict"


class RequestMemory:
    """The latest request ids of one session, to answer repeats before Redis does; bounded, oldest dropped first."""

    __slots__ = ("_most", "_payloads")

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._payloads: OrderedDict[str, str] = OrderedDict()

    def look(self, request_id: str, payload: str) -> RequestSeen:
        """Remembers what it sees first."""
        known = self._payloads.get(request_id)
        if known is not None:
            return RequestSeen.REPEAT if known == payload else RequestSeen.CONFLICT
        self._payloads[request_id] = payload
        if len(self._payloads) > self._most:
            self._payloads.popitem(last=False)
        return RequestSeen.FIRST

    def forget(self, request_id: str) -> None:
        """It came to nothing, so it may be tried anew."""
        self._payloads.pop(request_id, None)
