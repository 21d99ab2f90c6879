"""A node as the scheduler sees it: what it said of itself, and the state that follows."""

from enum import StrEnum
from typing import NamedTuple

from lingua_scheduler.domain.pools import Languages

NOTICED_PERCENT = 5


class NodeState(StrEnum):
    REGISTERING = "registering"  # known, but no pair can be served yet
    READY = "ready"
    DEGRADED = "degraded"
    DRAINING = "draining"
    OFFLINE = "offline"


class RestoreOutcome(StrEnum):
    RESTORED = "restored"
    KEPT = "kept"  # it has a place


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


class DrainOutcome(StrEnum):
    DRAINED = "drained"
    RESUMED = "resumed"
    KEPT = "kept"  # it was so already
    MOVED = "moved"
    GONE = "gone"


class Load(NamedTuple):
    """How busy a node says its machine is, in percent; None where it does not say."""

    cpu: float | None = None
    memory: float | None = None
    gpu: float | None = None
    gpu_memory: float | None = None

    def differs(self, before: "Load") -> bool:
        """Whether somebody who looks at it would notice."""
        return any(
            (now is None) != (then is None) or abs((now or 0) - (then or 0)) >= NOTICED_PERCENT
            for now, then in zip(self, before, strict=True)
        )


class LoadLimits(NamedTuple):
    """Above any of these a node gets no new work until it has recovered."""

    cpu: float
    memory: float
    gpu: float
    gpu_memory: float

    def exceeded_by(self, load: Load) -> bool:
        return any(said is not None and said > limit for said, limit in zip(load, self, strict=True))


class Service(NamedTuple):
    """Something installed on a node; several may be of one kind."""

    service_id: str
    kind: str


class Machine(NamedTuple):
    """What a node said of its hardware; 0 where it did not."""

    cores: float = 0
    memory_gb: float = 0
    # Of all its GPUs.
    gpu_gb: float = 0


class Profile(NamedTuple):
    """What a node says of itself; only a change of this costs more than a beat."""

    declared: Languages
    # Kinds of service the node says are not ready, and with them the languages that need them.
    down: frozenset[str]
    max_jobs: int
    acknowledges: bool
    reports_jobs: bool
    takes_jobs: bool
    boot_id: str
    version: str
    platform: str
    installed: tuple[Service, ...] = ()
    is_overloaded: bool = False
    machine: Machine = Machine()

    @property
    def services(self) -> tuple[str, ...]:
        return tuple(service.service_id for service in self.installed)

    @property
    def languages(self) -> Languages:
        """What it can do right now."""
        declared, nothing = self.declared, frozenset[str]()
        return Languages(
            asr=nothing if "asr" in self.down else declared.asr,
            semantic=nothing if "semantic" in self.down else declared.semantic,
            tts=nothing if "tts" in self.down else declared.tts,
            translations=frozenset() if "nmt" in self.down else declared.translations,
        )

    def state(self, serves_pairs: bool) -> NodeState:
        if not self.takes_jobs:
            return NodeState.DRAINING
        if not serves_pairs:
            return NodeState.REGISTERING
        return NodeState.DEGRADED if self.is_overloaded else NodeState.READY
