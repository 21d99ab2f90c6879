"""A node: what it announced, and the state that follows from it."""

import re
from collections.abc import Collection
from enum import StrEnum
from typing import NamedTuple

from lingua_scheduler.domain.pools.pools import Languages
from lingua_sdk.domain.vocabulary import TEXT_INPUT

NOTICED_PERCENT = 5
# Ids become parts of keys and leases.
NODE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}", re.ASCII)


class NodeState(StrEnum):
    REGISTERING = "registering"  # known, but no pair can be served yet
    READY = "ready"
    DEGRADED = "degraded"
    DRAINING = "draining"


class RestoreOutcome(StrEnum):
    RESTORED = "restored"
    KEPT = "kept"  # it has a place


class RegisterOutcome(StrEnum):
    REGISTERED = "registered"
    MOVED = "moved"  # the node stood in other pools than the caller believed
    HELD = "held"  # another process is connected with this id, and gives signs of life
    SUPERSEDED = "superseded"
    GONE = "gone"


class NodeClaimOutcome(StrEnum):
    CLAIMED = "claimed"
    TOOK = "took"  # it belonged to another principal, whose key is not bound to it
    FOREIGN = "foreign"


class BeatOutcome(StrEnum):
    ALIVE = "alive"
    GONE = "gone"
    SUPERSEDED = "superseded"
    PUT_OFF = "put_off"  # it came too fast, and is heeded later


class CheckOutcome(StrEnum):
    WHOLE = "whole"
    TORN = "torn"  # something of it is missing, or does not add up
    GONE = "gone"
    SUPERSEDED = "superseded"


class RemoveOutcome(StrEnum):
    REMOVED = "removed"
    MOVED = "moved"
    GONE = "gone"
    SUPERSEDED = "superseded"
    ALIVE = "alive"  # it was to be removed only if overdue, and is not
    BUSY = "busy"  # it was to be removed only if idle, and is not


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


class ReleaseOutcome(StrEnum):
    """Of a node's quarantine."""

    RELEASED = "released"
    KEPT = "kept"  # it was in none
    GONE = "gone"


class MachineLoad(NamedTuple):
    """Load of a node's machine as it reports it, in percent; None if it does not."""

    cpu: float | None = None
    memory: float | None = None
    gpu: float | None = None
    gpu_memory: float | None = None

    def differs(self, before: "MachineLoad") -> bool:
        """Whether the difference is large enough to be shown."""
        return any(
            (now is None) != (then is None) or abs((now or 0) - (then or 0)) >= NOTICED_PERCENT
            for now, then in zip(self, before, strict=True)
        )


class LoadLimits(NamedTuple):
    """Load limits: above any of them a node is degraded and gets no new jobs."""

    cpu: float
    memory: float
    gpu: float
    gpu_memory: float

    def exceeded_by(self, load: MachineLoad) -> bool:
        return any(said is not None and said > limit for said, limit in zip(load, self, strict=True))


class Features(NamedTuple):
    """What a node announced in `advanced_features`; existing nodes announce nothing."""

    acknowledges: bool = False  # job_ack: it asks before it starts, and answers every job
    lid: bool = False  # it takes `lid`; others fail every job that carries it
    context_text: bool = False  # it takes `context_text`
    semantic: bool = False  # it repairs text unless told not to; others do so only when asked
    turns: bool = False  # it reads the flags of a cut as we mean them, and parts of a speech share a `turn_id`
    quarantine: bool = False  # it takes the commands `quarantined` and `recovered`, for its log
    text_input: bool = False  # it takes jobs that bring text instead of audio

    def __str__(self) -> str:
        """The form stored in Redis; older releases read only the digit."""
        letters = "".join(letter for letter, is_on in zip(_FEATURE_LETTERS, self[1:], strict=True) if is_on)
        return f"{int(self.acknowledges)}{letters}"

    @classmethod
    def parse(cls, word: str) -> "Features":
        return cls(word.startswith("1"), *(letter in word for letter in _FEATURE_LETTERS))

    @classmethod
    def announced(cls, names: Collection[str]) -> "Features":
        return cls(*(name in names for name in ANNOUNCED))


# In the order of the fields of `Features`: as nodes announce them, and as Redis has them.
ANNOUNCED = ("job_ack", "lid", "context_text", "semantic", "turns", "quarantine", TEXT_INPUT)
_FEATURE_LETTERS = "lcstqi"
# The kinds of service a job may need, in the order of the fields of `PipelineTerms`.
SERVICES = ("asr", "nmt", "tts", "semantic", "tone")


class NodeService(NamedTuple):
    """A service installed on a node; several may be of the same type."""

    service_id: str
    kind: str


class ServiceOf(NamedTuple):
    """A kind of service of one node, as it is named where Redis has those that are out."""

    node_id: str
    service: str

    def __str__(self) -> str:
        return f"{self.node_id} {self.service}"

    @classmethod
    def parse(cls, text: str) -> "ServiceOf":
        """The name of a node alone stands for all of it; then the service is empty."""
        return cls(*text.partition(" ")[::2])


class Machine(NamedTuple):
    """A node's hardware as it reports it; 0 if it does not."""

    cores: float = 0
    memory_gb: float = 0
    # Of all its GPUs.
    gpu_gb: float = 0


class Profile(NamedTuple):
    """A node's announced profile; a heartbeat that changes it is more expensive than one that does not."""

    declared: Languages
    # Kinds of service the node says are not ready, and with them the languages that need them.
    down: frozenset[str]
    max_jobs: int
    features: Features
    reports_jobs: bool
    takes_jobs: bool
    boot_id: str
    version: str
    platform: str
    installed: tuple[NodeService, ...] = ()
    is_overloaded: bool = False
    machine: Machine = Machine()

    @property
    def acknowledges(self) -> bool:
        return self.features.acknowledges

    @property
    def services(self) -> tuple[str, ...]:
        return tuple(service.service_id for service in self.installed)

    @property
    def languages(self) -> Languages:
        """Its capabilities without the services that are not ready."""
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
