"""What travels through dispatch: an utterance to be translated, the node it sticks to, and how it ended."""

from typing import NamedTuple

import msgspec

from lingua_scheduler.domain.errors import ErrorCode
from lingua_scheduler.domain.jobs import JobState
from lingua_scheduler.domain.terms import Terms
from lingua_scheduler.domain.utterances import CutReason
from lingua_scheduler.protocol.node import JobResult


class Binding:
    """The node a turn sticks to; bound when its first job is placed, rebound when the node is gone."""

    __slots__ = ("node_id", "shard")

    def __init__(self, node_id: str = "", shard: int = -1) -> None:
        self.node_id = node_id
        self.shard = shard


class Wish(NamedTuple):
    """What a caller asked about the choice of node."""

    preferred_node: str = ""
    is_strict: bool = False
    affinity_key: str = ""


class Work(msgspec.Struct, frozen=True, gc=False):
    """One utterance, with everything a node needs."""

    session_id: str
    utterance_index: int
    terms: Terms
    pools: tuple[str, ...]
    audio: bytes
    audio_format: str
    sample_rate: int
    duration_ms: int
    trace_id: str
    turn_id: str
    reason: CutReason
    padding_ms: int
    binding: Binding | None = None
    wish: Wish = Wish()
    audio_ref: str | None = None


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """How a job ended. Without a result, `error` says why."""

    state: JobState
    job_id: str
    result: JobResult | None = None
    error: ErrorCode | None = None
    detail: str = ""
