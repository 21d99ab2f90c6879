"""A node as the scheduler sees it: what it said of itself, and the state that follows."""

from enum import StrEnum
from typing import NamedTuple

from lingua_scheduler.domain.pools import Languages


class NodeState(StrEnum):
    REGISTERING = "registering"  # known, but no pair can be served yet
    READY = "ready"
    DEGRADED = "degraded"
    DRAINING = "draining"
    OFFLINE = "offline"


class RegisterOutcome(StrEnum):
    REGISTERED = "registered"
    MOVED = "moved"  # the node stood in other pools than the caller believed
    SUPERSEDED = "superseded"
    GONE = "gone"


class BeatOutcome(StrEnum):
    ALIVE = "alive"
    GONE = "gone"
    SUPERSEDED = "superseded"


class RemoveOutcome(StrEnum):
    REMOVED = "removed"
    MOVED = "moved"
    GONE = "gone"
    SUPERSEDED = "superseded"
    ALIVE = "alive"  # it was to be removed only if overdue, and is not


class PlaceOutcome(StrEnum):
    PLACED = "placed"
    KEPT = "kept"
    WORLD_FULL = "world_full"


class Profile(NamedTuple):
    """What a node says of itself; only a change of this costs more than a beat."""

    languages: Languages
    max_jobs: int
    acknowledges: bool
    takes_jobs: bool
    boot_id: str
    version: str
    platform: str
    services: tuple[str, ...] = ()

    def state(self, serves_pairs: bool) -> NodeState:
        if not self.takes_jobs:
            return NodeState.DRAINING
        return NodeState.READY if serves_pairs else NodeState.REGISTERING
