"""A node's reports that a service is missing: their meaning and their rate limit."""

from collections import deque
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from lingua_scheduler.domain.nodes.nodes import SERVICES, NodeService

# Names come from peers.
MAX_NAME = 64


class SuspendOutcome(StrEnum):
    SUSPENDED = "suspended"
    DEBOUNCED = "debounced"  # the same was said a moment ago
    LIMITED = "limited"  # the node said too much lately
    GONE = "gone"


class Complaint(NamedTuple):
    """Both are empty when the node does not say what it lacks."""

    service_id: str = ""
    version: str = ""


class ComplaintRules(NamedTuple):
    debounce_ms: int
    window_ms: int
    most: int


def complaint_of(details: object) -> Complaint:
    """Read what a peer may have written in any way."""
    if not isinstance(details, dict):
        return Complaint()
    service_id, version = details.get("service_id"), details.get("service_version")
    return Complaint(
        service_id[:MAX_NAME] if isinstance(service_id, str) else "",
        version[:MAX_NAME] if isinstance(version, str) else "",
    )


def services_hit(service_id: str, installed: Iterable[NodeService]) -> tuple[str, ...]:
    """The types of service that are unavailable. An unknown one may be needed by every job."""
    kinds = {service.kind for service in installed if service.service_id == service_id}
    return tuple(sorted(kinds)) if kinds and kinds <= set(SERVICES) else SERVICES


class ComplaintFilter:
    """Debounce and rate limit for the reports of one node. Bounded: it remembers only recent reports."""

    def __init__(self, rules: ComplaintRules) -> None:
        self._rules = rules
        self._passed: deque[tuple[float, Complaint]] = deque()

    def __len__(self) -> int:
        return len(self._passed)

    def judge(self, complaint: Complaint, at_ms: float) -> SuspendOutcome:
        """As the script will judge it, which knows what other instances heard."""
        while self._passed and self._passed[0][0] <= at_ms - self._rules.window_ms:
            self._passed.popleft()
        if any(known == complaint and at_ms - said_ms < self._rules.debounce_ms for said_ms, known in self._passed):
            return SuspendOutcome.DEBOUNCED
        if len(self._passed) >= self._rules.most:
            return SuspendOutcome.LIMITED
        self._passed.append((at_ms, complaint))
        return SuspendOutcome.SUSPENDED
