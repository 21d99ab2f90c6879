"""Request ids: who may repeat what, and what a repeat is answered with."""

from collections import OrderedDict
from enum import StrEnum
from typing import NamedTuple


class Request(NamedTuple):
    """An id means something only within its tenant and session: shared ids must not return another person's job."""

    tenant_id: str
    session_id: str
    request_id: str


class ClaimOutcome(StrEnum):
    CLAIMED = "claimed"
    BOUND = "bound"  # it has a job already
    PENDING = "pending"  # somebody else is placing its job
    CONFLICT = "conflict"  # the id was used for something else


class BindOutcome(StrEnum):
    BOUND = "bound"
    LOST = "lost"  # the claim lapsed and is gone, or somebody else's


class ReleaseOutcome(StrEnum):
    RELEASED = "released"
    LOST = "lost"


class Seen(StrEnum):
    FIRST = "first"
    REPEAT = "repeat"
    CONFLICT = "conflict"


class RequestMemory:
    """The ids one session used lately, for those who must answer before Redis can; bounded, the oldest go first."""

    __slots__ = ("_most", "_payloads")

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._payloads: OrderedDict[str, str] = OrderedDict()

    def look(self, request_id: str, payload: str) -> Seen:
        """Remembers what it sees first."""
        known = self._payloads.get(request_id)
        if known is not None:
            return Seen.REPEAT if known == payload else Seen.CONFLICT
        self._payloads[request_id] = payload
        if len(self._payloads) > self._most:
            self._payloads.popitem(last=False)
        return Seen.FIRST

    def forget(self, request_id: str) -> None:
        """It came to nothing, so it may be tried anew."""
        self._payloads.pop(request_id, None)
