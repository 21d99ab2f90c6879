"""HTTP: look jobs up, ask why, cancel."""

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from lingua_scheduler.console.lists import Lists
from lingua_scheduler.console.operations import Call, KnownProblem, Operation, Problem
from lingua_scheduler.domain.access.scopes import Needs, Scope
from lingua_scheduler.domain.access.visibility import visible_to
from lingua_scheduler.domain.jobs.attempts import CancelOutcome
from lingua_scheduler.domain.watching.failures import FailureFilter
from lingua_scheduler.protocol.http_jobs import (
    FailureList,
    FailuresQuery,
    JobCancelled,
    JobExplanation,
    JobList,
    JobsQuery,
    JobView,
)
from lingua_scheduler.services.dispatch.cancelling import Cancelling
from lingua_scheduler.services.dispatch.lookup import Lookup
from lingua_scheduler.services.watching.views import Views
from lingua_scheduler.store.jobs.records import JobFilter
from lingua_sdk.domain.errors import ErrorCode, HttpCode

T = TypeVar("T")

_AWAY = KnownProblem(503, ErrorCode.SCHEDULER_DEPENDENCY_DOWN.value, "Redis is unavailable")
_BAD_QUERY = KnownProblem(400, ErrorCode.INVALID_MESSAGE.value, "A query parameter is invalid; the detail names it")
_CROWDED = KnownProblem(503, HttpCode.SERVICE_UNAVAILABLE.value, "Too many lists are requested at once")
_UNKNOWN = KnownProblem(404, ErrorCode.JOB_NOT_FOUND.value, "No such job, or its record has expired (`job.keep_ms`)")

# Operators see all jobs of their tenant, or of all; callers their own.
_OWN_OR_ALL: Needs = (Scope.FLEET_READ, Scope.DISPATCH_CALL)


def job_operations(lookup: Lookup, cancelling: Cancelling, views: Views) -> tuple[Operation, ...]:
    lists = Lists()

    async def latest(call: Call[None, JobsQuery]) -> JobList:
        query = call.query
        asked = JobFilter(
            "" if query.state is None else query.state.value,
            query.session_id or "",
            query.node_id or "",
            query.pair or "",
            _since_ms(query.since_s),
            visible_to(call.principal, Scope.FLEET_READ),
        )
        read = _read(call, views, query.node_id, partial(lookup.latest, asked, query.limit, _named(call, views)))
        return JobList(jobs=await lists.make(read, call.is_connected))

    async def failures(call: Call[None, FailuresQuery]) -> FailureList:
        query = call.query
        asked = FailureFilter(
            _since_ms(query.since_s),
            query.node_id or "",
            query.session_id or "",
            query.pair or "",
            query.code or "",
            query.tenant_id or "",
            call.principal.limited_to or "",
        )
        read = _read(call, views, query.node_id, partial(lookup.failures, asked, query.limit, _named(call, views)))
        return FailureList(failures=await lists.make(read, call.is_connected))

    async def one(call: Call[None, None]) -> JobView:
        found = await lookup.find(
            call.path["job_id"], visible_to(call.principal, Scope.FLEET_READ), _named(call, views)
        )
        if found is None:
            raise _not_found(call)
        return found

    async def explain(call: Call[None, None]) -> JobExplanation:
        visible = visible_to(call.principal, Scope.FLEET_READ)
        explained = await lookup.explain(call.path["job_id"], visible, views.nodes_of(call.principal.limited_to))
        if explained is None:
            raise _not_found(call)
        return explained

    async def cancel(call: Call[None, None]) -> JobCancelled:
        job_id = call.path["job_id"]
        cancelled = await cancelling.cancel(job_id, visible_to(call.principal, Scope.FLEET_OPERATE))
        record = cancelled.record
        if record is None or cancelled.outcome is CancelOutcome.GONE:
            raise _not_found(call)
        if cancelled.outcome is CancelOutcome.ENDED:
            detail = f"{job_id} has already ended ({cancelled.ended}) and cannot be cancelled"
            raise Problem(409, ErrorCode.JOB_ENDED.value, detail)
        node_id = _known(call, views, record.node_id)
        return JobCancelled(job_id=job_id, was=record.state, attempt=record.attempt, node_id=node_id)

    return (
        Operation(
            method="GET",
            path="/v1/jobs",
            needs=_OWN_OR_ALL,
            tag="jobs",
            summary="List the latest jobs, newest first; optionally filtered",
            handle=latest,
            query=JobsQuery,
            answer=JobList,
            problems=(_BAD_QUERY, _CROWDED, _AWAY),
        ),
        Operation(
            method="GET",
            path="/v1/failures",
            needs=(Scope.FLEET_READ,),
            tag="jobs",
            summary="The failure history of the fleet, newest first",
            description="One entry for each failed job, with ids, language pair, code, reason and node, never text. It "
            "outlives the job's record and a restart: `job.failures_keep_ms`, `job.failures_max`. An entry whose "
            "`count` is above 1 is a summary of failures that were too many to record one by one.",
            handle=failures,
            query=FailuresQuery,
            answer=FailureList,
            problems=(_BAD_QUERY, _CROWDED, _AWAY),
        ),
        Operation(
            method="GET",
            path="/v1/jobs/{job_id}",
            needs=_OWN_OR_ALL,
            tag="jobs",
            summary="One job: its state, its node and its history",
            handle=one,
            answer=JobView,
            problems=(_UNKNOWN, _AWAY),
        ),
        Operation(
            method="GET",
            path="/v1/jobs/{job_id}/explain",
            needs=_OWN_OR_ALL,
            tag="jobs",
            summary="Why a job waited, failed or was retried: each candidate node, and why it was not chosen",
            handle=explain,
            answer=JobExplanation,
            problems=(_UNKNOWN, _AWAY),
        ),
        Operation(
            method="POST",
            path="/v1/jobs/{job_id}/cancel",
            needs=(Scope.FLEET_OPERATE, Scope.DISPATCH_CALL),
            tag="jobs",
            summary="Cancel a job that is waiting or running, on any instance",
            handle=cancel,
            is_for_apps=True,
            answer=JobCancelled,
            problems=(
                _UNKNOWN,
                KnownProblem(409, ErrorCode.JOB_ENDED.value, "The job has already ended; the detail names its state"),
                _AWAY,
            ),
        ),
    )


def _named(call: Call[Any, Any], views: Views) -> set[str] | None:
    """The nodes whose names the caller may know; None: all. Callers learn where their own jobs are."""
    return views.nodes_of(call.principal.limited_to) if call.principal.may((Scope.FLEET_READ,)) else None


def _is_unknown(call: Call[Any, Any], views: Views, node_id: str | None) -> bool:
    nodes = _named(call, views)
    return node_id is not None and nodes is not None and node_id not in nodes


def _read(
    call: Call[Any, Any], views: Views, node_id: str | None, read: Callable[[], Awaitable[list[T]]]
) -> Callable[[], Awaitable[list[T]]]:
    """What is asked of a node that the caller may not know is nothing, as of one that is not there."""
    return _nothing if _is_unknown(call, views, node_id) else read


async def _nothing() -> list[Any]:
    return []


def _known(call: Call[Any, Any], views: Views, node_id: str) -> str:
    return "" if _is_unknown(call, views, node_id) else node_id


def _since_ms(since_s: int | None) -> int:
    return 0 if since_s is None else int((time.time() - since_s) * 1000)


def _not_found(call: Call[Any, Any]) -> Problem:
    detail = f"there is no job {call.path['job_id'][:128]}, or its record has expired; GET /v1/jobs lists the latest"
    return Problem(404, ErrorCode.JOB_NOT_FOUND.value, detail)
