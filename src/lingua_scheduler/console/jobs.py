"""HTTP: look jobs up, ask why, cancel."""

from typing import Any

from lingua_scheduler.console.operations import Call, Known, Operation, Problem
from lingua_scheduler.domain.errors import ErrorCode
from lingua_scheduler.domain.jobs.attempts import CancelOutcome
from lingua_scheduler.protocol.http_jobs import JobCancelled, JobExplanation, JobList, JobsQuery, JobView
from lingua_scheduler.services.dispatch.cancelling import Cancelling
from lingua_scheduler.services.dispatch.lookup import Lookup

_AWAY = Known(503, ErrorCode.SCHEDULER_DEPENDENCY_DOWN.value, "Redis is away")
_UNKNOWN = Known(404, ErrorCode.JOB_NOT_FOUND.value, "there is no such job, or it is forgotten (`job.keep_ms`)")


def job_operations(lookup: Lookup, cancelling: Cancelling) -> tuple[Operation, ...]:
    async def latest(call: Call[None, JobsQuery]) -> JobList:
        query = call.query
        state = "" if query.state is None else query.state.value
        return JobList(jobs=await lookup.latest(state, query.session_id or "", query.limit))

    async def one(call: Call[None, None]) -> JobView:
        found = await lookup.find(call.path["job_id"])
        if found is None:
            raise _not_found(call)
        return found

    async def explain(call: Call[None, None]) -> JobExplanation:
        explained = await lookup.explain(call.path["job_id"])
        if explained is None:
            raise _not_found(call)
        return explained

    async def cancel(call: Call[None, None]) -> JobCancelled:
        job_id = call.path["job_id"]
        cancelled = await cancelling.cancel(job_id)
        record = cancelled.record
        if record is None or cancelled.outcome is CancelOutcome.GONE:
            raise _not_found(call)
        if cancelled.outcome is CancelOutcome.ENDED:
            detail = f"{job_id} has ended already: {cancelled.ended}; there is nothing left to cancel"
            raise Problem(409, ErrorCode.JOB_ENDED.value, detail)
        return JobCancelled(job_id=job_id, was=record.state, attempt=record.attempt, node_id=record.node_id)

    return (
        Operation(
            method="GET",
            path="/v1/jobs",
            tag="jobs",
            summary="The latest jobs, newest first; by state or session if asked",
            handle=latest,
            query=JobsQuery,
            answer=JobList,
            problems=(Known(400, ErrorCode.INVALID_MESSAGE.value, "the query is not what this takes"), _AWAY),
        ),
        Operation(
            method="GET",
            path="/v1/jobs/{job_id}",
            tag="jobs",
            summary="One job: its state, where it is or was, and its history",
            handle=one,
            answer=JobView,
            problems=(_UNKNOWN, _AWAY),
        ),
        Operation(
            method="GET",
            path="/v1/jobs/{job_id}/explain",
            tag="jobs",
            summary="Why a job waited, failed or was retried: each candidate, and why it was not taken",
            handle=explain,
            answer=JobExplanation,
            problems=(_UNKNOWN, _AWAY),
        ),
        Operation(
            method="POST",
            path="/v1/jobs/{job_id}/cancel",
            tag="jobs",
            summary="Cancel a job that waits or runs, whichever instance has it",
            handle=cancel,
            answer=JobCancelled,
            problems=(
                _UNKNOWN,
                Known(409, ErrorCode.JOB_ENDED.value, "the job has ended already; the detail names its state"),
                _AWAY,
            ),
        ),
    )


def _not_found(call: Call[Any, Any]) -> Problem:
    detail = f"there is no job {call.path['job_id'][:128]}, or it is forgotten by now; GET /v1/jobs lists the latest"
    return Problem(404, ErrorCode.JOB_NOT_FOUND.value, detail)
