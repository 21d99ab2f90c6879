"""A node as the scheduler sees it: what it said of itself, and the state that follows."""

import re
from collections.abc import Collection
from enum import StrEnum
from typing import NamedTuple

from lingua_scheduler.domain.pools.pools import Languages

NOTICED_PERCENT = 5
# Ids become parts of keys and leases.
NODE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}", re.ASCII)


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
    HELD = "held"  # another process is connected with this id, and gives signs of life
    SUPERSEDED = "superseded"
    GONE = "gone"


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


class Features(NamedTuple):
    """What a node announced in `advanced_features`; existing nodes announce nothing."""

    acknowledges: bool = False  # job_ack: it asks before it starts, and answers every job
    lid: bool = False  # it takes `lid`; others fail every job that carries it
    context_text: bool = False  # it takes `context_text`
    semantic: bool = False  # it repairs text unless told not to; others do so only when asked
    turns: bool = False  # it reads the flags of a cut as we mean them, and parts of a speech share a `turn_id`

    def __str__(self) -> str:
        """As Redis has it, where older releases read the digit alone."""
        letters = "".join(letter for letter, is_on in zip(_FEATURE_LETTERS, self[1:], strict=True) if is_on)
        return f"{int(self.acknowledges)}{letters}"

    @classmethod
    def parse(cls, word: str) -> "Features":
        return cls(word.startswith("1"), *(letter in word for letter in _FEATURE_LETTERS))

    @classmethod
    def announced(cls, names: Collection[str]) -> "Features":
        return cls(*(name in names for name in ANNOUNCED))


# In the order of the fields of `Features`: as nodes announce them, and as Redis has them.
ANNOUNCED = ("job_ack", "lid", "context_text", "semantic", "turns")
_FEATURE_LETTERS = "lcst"
# The kinds of service a job may need, in the order of the fields of `Pipeline`.
SERVICES = ("asr", "nmt", "tts", "semantic", "tone")


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
    features: Features
    reports_jobs: bool
    takes_jobs: bool
    boot_id: str
    version: str
    platform: str
    installed: tuple[Service, ...] = ()
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
