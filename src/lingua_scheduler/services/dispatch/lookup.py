"""Job queries: one job, the latest jobs, and why a job is in its state."""

import msgspec

from lingua_scheduler.domain.jobs.jobs import ENDED, JobState
from lingua_scheduler.domain.pools.names import asked_pair
from lingua_scheduler.domain.sessions.names import shown_session
from lingua_scheduler.domain.watching.failures import FailedJob, FailureFilter
from lingua_scheduler.protocol.http_jobs import Explanation, HistoryLine, JobExplanation, JobView
from lingua_scheduler.services.dispatch.explaining import Explainer
from lingua_scheduler.store.jobs.records import JobFilter, JobRecord
from lingua_scheduler.store.store import Store

_WENT_WELL = (JobState.DONE, JobState.NO_TEXT)

_EXPLANATION = msgspec.json.Decoder(Explanation)


class Lookup:
    def __init__(self, store: Store, explainer: Explainer) -> None:
        self._jobs = store.jobs
        self._failures = store.failures
        self._explainer = explainer

    async def find(self, job_id: str, only_of: str | None = None) -> JobView | None:
        """`only_of`: the digest of a principal that sees its own jobs alone; another's is as unknown to it as none."""
        record = await self._jobs.find(job_id)
        return _view(record) if record is not None and record.is_for(only_of) else None

    async def latest(self, asked: JobFilter, limit: int) -> list[JobView]:
        return [_view(record) for record in await self._jobs.latest(asked, limit)]

    async def failures(self, asked: FailureFilter, limit: int) -> list[FailedJob]:
        """Failed jobs of the whole fleet, newest first, also those whose record has expired or never was."""
        return await self._failures.latest(asked, limit)

    async def explain(self, job_id: str, only_of: str | None = None) -> JobExplanation | None:
        """The explanation recorded when it waited, failed or was retried, and a current one if it has not ended."""
        record = await self._jobs.find(job_id)
        if record is None or not record.is_for(only_of):
            return None
        kept = record.explanation
        then = _EXPLANATION.decode(kept) if kept else None
        found_nobody = record.state == JobState.FAILED and record.attempt == 0
        now = None
        if record.pools and (found_nobody or record.state not in ENDED):
            holder = record.node_id if record.is_live else ""
            now = await self._explainer.survey(record.pools, _tried(record), holder=holder)
        return JobExplanation(
            job_id=record.job_id, state=record.state, headline=_headline(record, then, now), then=then, now=now
        )


def _headline(record: JobRecord, then: Explanation | None, now: Explanation | None) -> str:
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
    where = f"attempt {record.attempt} on {record.node_id}"
    if record.attempt > 1:
        before = f"; before that: {then.headline}" if then else ""
        return f"it was retried, {where}{before}"
    if then is not None:
        return f"it waited, then was sent to {record.node_id}; when it began to wait: {then.headline}"
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
