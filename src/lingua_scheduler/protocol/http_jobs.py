"""What the HTTP pages about jobs take and answer. An explanation is also kept, in this form, on a job's record."""

from typing import Annotated

import msgspec
from msgspec import Meta

from lingua_scheduler.domain.jobs.jobs import JobState

LIST_MAX = 500


class JobsQuery(msgspec.Struct, frozen=True, kw_only=True):
    state: JobState | None = None
    session_id: Annotated[str, Meta(max_length=128)] | None = None
    limit: Annotated[int, Meta(ge=1, le=LIST_MAX)] = 50


class HistoryLine(msgspec.Struct, frozen=True):
    state: str
    at_ms: int
    attempt: int
    node_id: str
    reason: str


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """`times_ms` says when it was created, dispatched, accepted …, as far as it was (ms, Redis's clock)."""

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
    """Why a job is, or was, where it is: a sentence, and what was found when the nodes were looked at."""

    headline: str
    looked_at_ms: int = 0
    # How many nodes there were of each verdict; the list below may be shorter.
    counts: dict[str, int] = {}
    candidates: list[CandidateView] = []


class JobExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """`then` was found when it waited, failed or was retried; `now` is a look at this moment."""

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
