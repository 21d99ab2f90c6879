"""The failure history: one entry for each job that failed, with ids and codes, never speech or text."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.sessions.names import shown_session
from lingua_scheduler.domain.watching.picture import JobLook, Look

# Reasons are sentences of ours; a longer one is cut.
MAX_REASON_CHARS = 300
# Clients choose these; of a longer one the beginning is kept.
MAX_TENANT_CHARS = 64


class FailedJob(Look, frozen=True, kw_only=True):
    at_ms: int
    # Empty for a job that got no record: Redis was away, or there were too many.
    job_id: str
    # Shortened, as people who look at jobs are shown it.
    session_id: str
    utterance_index: int
    src: str
    tgt: str
    code: str
    # In English.
    reason: str = ""
    node_id: str = ""
    attempts: int = 0
    took_ms: int = 0
    instance_id: str = ""
    # The customer, if the client named one.
    tenant_id: str = ""
    # Whose job it was, by its credential; empty if that is not known.
    tenant: str = ""
    # Of a summary: how many failures it stands for. They were too many to record one by one, and it has no ids.
    count: int = 1


class FailureFilter(NamedTuple):
    """Empty: any."""

    since_ms: int = 0
    node_id: str = ""
    session_id: str = ""
    # As src:tgt.
    pair: str = ""
    code: str = ""
    tenant_id: str = ""
    # Whose job it was, whatever the client named.
    tenant: str = ""

    def takes(self, failure: FailedJob) -> bool:
        wanted = (
            (self.node_id, failure.node_id),
            # Compared in its shortened form: a caller that does not know the whole id learns no more of it.
            (self.session_id and shown_session(self.session_id), failure.session_id),
            (self.pair, f"{failure.src}:{failure.tgt}"),
            (self.code, failure.code),
            (self.tenant_id[:MAX_TENANT_CHARS], failure.tenant_id),
            (self.tenant, failure.tenant),
        )
        return failure.at_ms >= self.since_ms and all(asked in ("", found) for asked, found in wanted)


def look_of(failure: FailedJob) -> JobLook:
    return JobLook(
        job_id=failure.job_id,
        state=JobState.FAILED.value,
        src=failure.src,
        tgt=failure.tgt,
        node_id=failure.node_id,
        attempts=failure.attempts,
        reason=failure.code,
        ended_at_ms=failure.at_ms,
        took_ms=failure.took_ms,
        session_id=failure.session_id,
        utterance_index=failure.utterance_index,
        tenant=failure.tenant,
    )


class FailureKind(NamedTuple):
    """What failures that are only counted are counted by."""

    code: str
    src: str
    tgt: str
    node_id: str = ""
    instance_id: str = ""
    tenant: str = ""


def kind_of(failure: FailedJob) -> FailureKind:
    return FailureKind(failure.code, failure.src, failure.tgt, failure.node_id, failure.instance_id, failure.tenant)


def summaries(counts: Mapping[FailureKind, int], at_ms: int) -> Iterable[FailedJob]:
    for kind, count in counts.items():
        yield FailedJob(at_ms=at_ms, job_id="", session_id="", utterance_index=-1, count=count, **kind._asdict())


ENCODER, DECODER = msgspec.json.Encoder(), msgspec.json.Decoder(FailedJob)
