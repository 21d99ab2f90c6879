"""Job queries: one job, the latest jobs, and why a job is in its state."""

from collections.abc import Collection

import msgspec

from lingua_scheduler.domain.access.visibility import EVERY_JOB, Visibility
from lingua_scheduler.domain.jobs.jobs import ENDED, JobState
from lingua_scheduler.domain.pools.candidates import CandidateVerdict
from lingua_scheduler.domain.pools.names import asked_pair
from lingua_scheduler.domain.sessions.names import shown_session
from lingua_scheduler.domain.watching.failures import FailedJob, FailureFilter
from lingua_scheduler.domain.watching.narrowing import A_NODE, failure_for, without_names
from lingua_scheduler.protocol.http_jobs import Explanation, HistoryLine, JobExplanation, JobView
from lingua_scheduler.services.dispatch.explaining import Explainer
from lingua_scheduler.store.jobs.records import JobFilter, JobRecord
from lingua_scheduler.store.store import Store

_WENT_WELL = (JobState.DONE, JobState.NO_TEXT)

# Verdicts on nodes that need not serve the pool at all.
_UNRELATED = (CandidateVerdict.NOT_IN_POOL, CandidateVerdict.DRAINING)

_EXPLANATION = msgspec.json.Decoder(Explanation)


class Lookup:
    def __init__(self, store: Store, explainer: Explainer) -> None:
        self._jobs = store.jobs
        self._failures = store.failures
        self._explainer = explainer

    async def find(
        self, job_id: str, visible: Visibility = EVERY_JOB, nodes: Collection[str] | None = None
    ) -> JobView | None:
        """A job that is not `visible` is as unknown as none. `nodes`: those whose names the caller may know."""
        record = await self._jobs.find(job_id)
        return _view(_known_nodes(record, nodes)) if record is not None and record.is_for(visible) else None

    async def latest(self, asked: JobFilter, limit: int, nodes: Collection[str] | None = None) -> list[JobView]:
        return [_view(_known_nodes(record, nodes)) for record in await self._jobs.latest(asked, limit)]

    async def failures(self, asked: FailureFilter, limit: int, nodes: Collection[str] | None = None) -> list[FailedJob]:
        """Failed jobs of the whole fleet, newest first, also those whose record has expired or never was."""
        found = await self._failures.latest(asked, limit)
        return found if nodes is None else [failure_for(failure, nodes) for failure in found]

    async def explain(
        self, job_id: str, visible: Visibility = EVERY_JOB, nodes: Collection[str] | None = None
    ) -> JobExplanation | None:
        """The explanation recorded when it waited, failed or was retried, and a current one if it has not ended."""
        record = await self._jobs.find(job_id)
        if record is None or not record.is_for(visible):
            return None
        kept = record.explanation
        then = _EXPLANATION.decode(kept) if kept else None
        found_nobody = record.state == JobState.FAILED and record.attempt == 0
        now = None
        if record.pools and (found_nobody or record.state not in ENDED):
            holder = record.node_id if record.is_live else ""
            now = await self._explainer.survey(record.pools, _tried(record), holder=holder)
        if nodes is not None:
            if visible.belongs_to is not None:
                # A caller learns where its own jobs are.
                nodes = {*nodes, *_nodes_of(record)}
            unknown = _nodes_of(record).difference(nodes)
            then, now = (one and _known_candidates(one, nodes, unknown) for one in (then, now))
            record = _known_nodes(record, nodes)
        return JobExplanation(
            job_id=record.job_id, state=record.state, headline=_headline(record, then, now), then=then, now=now
        )


def _nodes_of(record: JobRecord) -> set[str]:
    return {record.node_id, *(step.node_id for step in record.history)} - {""}


def _known_nodes(record: JobRecord, nodes: Collection[str] | None) -> JobRecord:
    """With the names of these nodes alone."""
    if nodes is None or not (unknown := _nodes_of(record).difference(nodes)):
        return record
    return record._replace(
        node_id="" if record.node_id in unknown else record.node_id,
        history=tuple(step._replace(node_id="") if step.node_id in unknown else step for step in record.history),
        detail=without_names(record.detail, unknown),
        reason=without_names(record.reason, unknown),
    )


def _known_candidates(told: Explanation, nodes: Collection[str], unknown: Collection[str]) -> Explanation:
    """The others are in the counts, unless they do not serve the pool: they may be private to another tenant."""
    unknown = {*unknown, *(one.node_id for one in told.candidates if one.node_id not in nodes)}
    return msgspec.structs.replace(
        told,
        headline=without_names(told.headline, unknown),
        counts={verdict: count for verdict, count in told.counts.items() if verdict not in _UNRELATED},
        candidates=[one for one in told.candidates if one.node_id in nodes],
    )


def _headline(record: JobRecord, then: Explanation | None, now: Explanation | None) -> str:
    if then is not None and then.ladder:
        return f"{_course(record, then if then.headline else None, now)}; {then.ladder}"
    return _course(record, then, now)


def _course(record: JobRecord, then: Explanation | None, now: Explanation | None) -> str:
    if record.state == JobState.FAILED:
        why = record.detail or record.reason or "it failed"
        if record.attempt and record.node_id:
            return f"{why}; see the log of node {record.node_id} for {record.job_id}"
        return why
    if record.state == JobState.CANCELLED:
        return "it was cancelled"
    if record.state in (JobState.CREATED, JobState.RETRYING):
        waits = "its first node" if record.attempt == 0 else f"attempt {record.attempt + 1}"
        return f"it is waiting for {waits}: {now.headline}" if now else f"it is waiting for {waits}"
    where = f"attempt {record.attempt} on {record.node_id or A_NODE}"
    if record.attempt > 1:
        before = f"; before that: {then.headline}" if then else ""
        return f"it was retried, {where}{before}"
    if then is not None:
        return f"it waited, then was sent to {record.node_id or A_NODE}; when it began to wait: {then.headline}"
    how = "it was dispatched without waiting" if record.state in _WENT_WELL else "it is in progress"
    return f"{how}: {where}"


def _tried(record: JobRecord) -> list[str]:
    """The nodes it may not go back to, as far as its history tells; where it failed last is known in any case."""
    lost = [step.node_id for step in record.history if step.state is JobState.RETRYING]
    if record.state == JobState.RETRYING:
        lost.append(record.node_id)
    return [node_id for node_id in dict.fromkeys(lost) if node_id]


def _view(record: JobRecord) -> JobView:
    src, tgt = asked_pair(record.pools)
    return JobView(
        job_id=record.job_id,
        state=record.state,
        attempt=record.attempt,
        node_id=record.node_id,
        src_lang=src,
        tgt_lang=tgt,
        pools=list(record.pools),
        session_id=shown_session(record.session_id),
        utterance_index=record.utterance_index,
        owner=record.owner,
        shard=record.shard,
        reason=record.reason,
        detail=record.detail,
        times_ms=record.times_ms,
        history=[HistoryLine(*step) for step in record.history],
    )
