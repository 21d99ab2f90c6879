"""Bodies about jobs. An explanation is also stored in this form in the job's record."""

from typing import Annotated

import msgspec
from msgspec import Meta

from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.watching.failures import FailedJob

LIST_MAX = 500

_Pair = Annotated[str, Meta(max_length=64, pattern="^[^:]+:[^:]+$", description="A language pair, such as en:de")]
_SinceS = Annotated[int, Meta(ge=1, le=30 * 86_400, description="Only what happened in the last so many seconds")]


class JobsQuery(msgspec.Struct, frozen=True, kw_only=True):
    state: JobState | None = None
    session_id: Annotated[str, Meta(max_length=128)] | None = None
    node_id: Annotated[str, Meta(max_length=128)] | None = None
    pair: _Pair | None = None
    since_s: _SinceS | None = None
    limit: Annotated[int, Meta(ge=1, le=LIST_MAX)] = 50


class FailuresQuery(msgspec.Struct, frozen=True, kw_only=True):
    since_s: _SinceS | None = None
    node_id: Annotated[str, Meta(max_length=128)] | None = None
    session_id: Annotated[str, Meta(max_length=128)] | None = None
    pair: _Pair | None = None
    code: Annotated[str, Meta(max_length=64)] | None = None
    tenant_id: Annotated[str, Meta(max_length=256)] | None = None
    limit: Annotated[int, Meta(ge=1, le=LIST_MAX)] = 50


class FailureList(msgspec.Struct, frozen=True, kw_only=True):
    # The newest first.
    failures: list[FailedJob]


class HistoryLine(msgspec.Struct, frozen=True):
    state: str
    at_ms: int
    attempt: int
    node_id: str
    reason: str


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """`times_ms` has the times at which the job entered each state (ms, Redis's clock)."""

    job_id: str
    state: str
    attempt: int
    node_id: str
    src_lang: str
    tgt_lang: str
    pools: list[str]
    session_id: str
    utterance_index: int
    owner: str
    shard: int
    reason: str
    detail: str
    times_ms: dict[str, int]
    history: list[HistoryLine]


class JobList(msgspec.Struct, frozen=True, kw_only=True):
    jobs: list[JobView]


class CandidateView(msgspec.Struct, frozen=True):
    node_id: str
    verdict: str
    detail: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job is or was in its state: a headline, and the verdict on each candidate node."""

    headline: str
    looked_at_ms: int = 0
    # How many nodes there were of each verdict; the list below may be shorter.
    counts: dict[str, int] = {}
    candidates: list[CandidateView] = []
    # Of one of several jobs of an utterance: which rung of the ladder, and the jobs before it.
    ladder: str = ""


class JobExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """`then` was recorded when the job waited, failed or was retried; `now` is the present situation."""

    job_id: str
    state: str
    headline: str
    then: Explanation | None = None
    now: Explanation | None = None


class JobCancelled(msgspec.Struct, frozen=True, kw_only=True):
    job_id: str
    # The state it was in, and where.
    was: str
    attempt: int
    node_id: str
