"""The values that pass through dispatch: an utterance to translate, its node affinity, and its outcome."""

from typing import NamedTuple

import msgspec

from lingua_scheduler.domain.access.principals import LOCAL, Principal
from lingua_scheduler.domain.access.visibility import tenant_of_job
from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.jobs.requests import Request
from lingua_scheduler.domain.pools.ladder import StagePlan
from lingua_scheduler.domain.pools.lanes import Whose
from lingua_scheduler.domain.sessions.pseudonyms import Pseudonyms
from lingua_scheduler.domain.sessions.result_groups import Context
from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.domain.sessions.utterances import CutReason
from lingua_scheduler.services.attempts.trails import Trail
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.protocol.node import JobResult


class Binding:
    """The node a turn sticks to; bound when its first job is placed, rebound when the node is gone."""

    __slots__ = ("node_id", "shard")

    def __init__(self, node_id: str = "", shard: int = -1) -> None:
        self.node_id = node_id
        self.shard = shard

    def __str__(self) -> str:
        """Empty where nothing is bound."""
        return f"{self.node_id} {self.shard}" if self.node_id else ""

    @classmethod
    def parse(cls, text: str) -> "Binding | None":
        """None where nothing was bound, or it cannot be read."""
        node_id, _, shard = text.partition(" ")
        return cls(node_id, int(shard)) if shard.isdecimal() else None


class Wish(NamedTuple):
    """A caller's preferences for the choice of a node."""

    preferred_node: str = ""
    is_strict: bool = False
    affinity_key: str = ""
    # Of a session that is paired with the preferred node, which is private to this tenant: no other node will do.
    paired_tenant: str = ""


NO_WISH = Wish()


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
    # Of a session: the number of its turn, from which each node gets an id of its own.
    turn_id: str
    reason: CutReason
    padding_ms: int
    # Its session was held by another instance that is gone, so nodes of that one may be on their way too.
    is_adopted: bool = False
    # How nodes know the session: other names at each of them. None for a call, which has ids that are used once.
    names: Pseudonyms | None = None
    # How nodes know a call.
    node_session_id: str = ""
    # When all of it had been said, on the clock of the process.
    said_at_s: float = 0.0
    context: Context | None = None
    binding: Binding | None = None
    wish: Wish = NO_WISH
    # Where the node finds the audio, when it does not come with the job.
    audio_ref: str | None = None
    # What is to be translated or spoken, instead of audio; only for pools whose nodes take text.
    text: str | None = None
    # Tells the jobs of one utterance apart: a node takes an utterance of a session once, and knows the session of
    # this job by another id.
    branch: str = ""
    # When no more attempts are made, on the clock of the process; None: as long after it began as any job has.
    give_up_at_s: float | None = None
    # False: the client does not want a translation by way of a third language.
    allows_pivot: bool = True
    request: Request | None = None
    # Requested over HTTP: the caller chose `session_id`, and no socket belongs to it.
    is_call: bool = False
    # The customer on whose behalf it was asked for, if the client said so.
    tenant_id: str = ""
    # Digest of the principal whose job it is; empty if it needed no credential.
    belongs_to: str = ""
    # Who asked for it: the job is cancelled when its credential is revoked.
    principal: Principal = LOCAL
    # What the caller must name to fetch the result.
    secret: str = ""
    # How long it may wait in line for a slot, when the caller said so.
    wait_s: float | None = None
    # The terms as they were asked for, if they name the languages otherwise than the node does.
    asked: Terms | None = None
    # Recorded while tracing is on.
    trail: Trail | None = None
    # What the caller is told besides its job; None if no one reads it.
    notes: list[str] | None = None

    @property
    def owning_tenant(self) -> str:
        return tenant_of_job(self.belongs_to, self.tenant_id)

    @property
    def whose(self) -> Whose:
        """Whose nodes may do it."""
        paired = self.wish.paired_tenant
        return Whose(paired, is_private_only=True) if paired else Whose(self.owning_tenant)

    @property
    def is_part(self) -> bool:
        """More parts of the same turn follow."""
        return self.reason in (CutReason.MAX_DURATION, CutReason.MAX_LENGTH)


def attributes_of(work: Work) -> dict[str, str | int]:
    """Attributes for a trace; never speech or text."""
    return {
        "lingua.session_id": work.session_id,
        "lingua.utterance_index": work.utterance_index,
        "lingua.src_lang": work.terms.src_lang,
        "lingua.tgt_lang": work.terms.tgt_lang,
        "lingua.audio_ms": work.duration_ms,
        "lingua.cut_reason": work.reason.name.lower(),
    }


class Refusal(NamedTuple):
    code: ErrorCode
    message: str


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """How a job ended. Without a result, `error` says why."""

    state: JobState
    job_id: str
    result: JobResult | None = None
    error: ErrorCode | None = None
    detail: str = ""
    # How long the attempt that ended it was away at its node.
    away_ms: float = 0.0
    # The node that had it last, which a result names itself; and how many attempts it took, under all its job ids.
    node_id: str = ""
    attempts: int = 0
    # What was given up for it, and the third language it went by; None if nothing was.
    plan: StagePlan | None = None


def cause_of(outcome: Outcome) -> tuple[ErrorCode | None, str | None]:
    """Code and sentence for an outcome without a translation; nothing for speech without text."""
    if outcome.state is JobState.CANCELLED:
        return ErrorCode.JOB_CANCELLED, outcome.detail
    return outcome.error, outcome.detail if outcome.error is not None else None
