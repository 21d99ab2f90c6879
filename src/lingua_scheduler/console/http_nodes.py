"""HTTP for nodes without a WebSocket: register, heartbeat, poll or callback, and report results."""

from functools import partial
from typing import Any, NoReturn

import msgspec

from lingua_scheduler.console.forwarded import Forwarder
from lingua_scheduler.console.operations import Call, KnownProblem, Operation, Problem
from lingua_scheduler.domain.access.principals import Denied
from lingua_scheduler.domain.access.scopes import Scope
from lingua_scheduler.protocol.http import (
    AttemptSays,
    JobAcked,
    JobDone,
    JobFailed,
    NodeBeat,
    NodePoll,
    NodeRegistration,
    NodeWelcome,
    Ok,
    PollAnswer,
)
from lingua_scheduler.services.access.live import LiveCallers
from lingua_scheduler.services.attempts.peers import code_for
from lingua_scheduler.services.attempts.work import Refusal
from lingua_scheduler.services.cluster.forwarding import Unanswered
from lingua_scheduler.services.dispatch.progress import Progress
from lingua_scheduler.services.nodes.http.messages import Stranger, TooFast
from lingua_scheduler.services.nodes.http.nodes import HttpNode, HttpNodes
from lingua_sdk.domain.errors import ErrorCode, HttpCode
from lingua_sdk.protocol.bulk import OF_LISTS, OF_RESULTS
from lingua_sdk.protocol.node import JobAck, JobAssign, JobCancel, JobResult, NodeControl
from lingua_sdk.protocol.shapes import JobError

DEFAULT_POLL_MS = 10_000
RETRY_AFTER_S = 5

_TAG = "nodes over HTTP"
_UNKNOWN = KnownProblem(404, HttpCode.UNKNOWN_NODE.value, "The node is not, or no longer, registered; register again")
_CONFLICT = KnownProblem(409, ErrorCode.NODE_ID_CONFLICT.value, "Another connection now uses this id")
_TOO_FAST = KnownProblem(
    429,
    HttpCode.RATE_LIMITED.value,
    "The node changes its languages more often than `nodes.max_changes_per_min`, or its address has too many "
    "connections",
)
_STALE = KnownProblem(
    409, HttpCode.STALE_ATTEMPT.value, "The attempt has ended, or belongs to another node; nothing was changed"
)
_TAKEN = KnownProblem(409, ErrorCode.NODE_ID_CONFLICT.value, "Another node is connected with this id, and responds")
_NO_ROOM = KnownProblem(
    503, ErrorCode.NODE_UNAVAILABLE.value, "There is no room for another node, or the scheduler is stopping"
)

# What a node says of a job that went well.
_DONE = frozenset({"ok", "success", "done"})

_STATUS = {
    ErrorCode.INVALID_MESSAGE: 400,
    ErrorCode.INVALID_CAPABILITY_SCHEMA: 400,
    ErrorCode.PERMISSION_DENIED: 403,
    ErrorCode.NODE_ID_CONFLICT: 409,
    ErrorCode.NODE_UNAVAILABLE: 503,
}


class NodeOperations:
    def __init__(self, nodes: HttpNodes, progress: Progress, forwarder: Forwarder, live: LiveCallers) -> None:
        self._live = live
        self._nodes = nodes
        self._progress = progress
        self._forwarder = forwarder

    @property
    def operations(self) -> tuple[Operation, ...]:
        register, *others = self._own()
        return (register, *(self._forwarder.anywhere(one, self._locate, _without, _wait_s) for one in others))

    async def _locate(self, call: Call[Any, Any]) -> str:
        owner = await self._nodes.elsewhere(call.body.node_id, call.body.boot_id, call.principal)
        if isinstance(owner, Stranger):
            _turn_away(call.body.node_id, owner)
        return owner

    def _own(self) -> tuple[Operation, ...]:
        return (
            Operation(
                method="POST",
                path="/v1/node/register",
                needs=(Scope.NODE_REGISTER,),
                tag=_TAG,
                summary="Register a node",
                description="Its languages decide which pairs it serves. With `callback_url` the scheduler posts "
                "messages "
                "to it; without, it polls for them.",
                handle=self._register,
                body=NodeRegistration,
                most=OF_LISTS,
                answer=NodeWelcome,
                problems=(_TAKEN, _NO_ROOM),
            ),
            Operation(
                method="POST",
                path="/v1/node/heartbeat",
                needs=(Scope.NODE_REGISTER,),
                tag=_TAG,
                summary="Heartbeat: stay registered, and report changes",
                handle=self._heartbeat,
                body=NodeBeat,
                most=OF_LISTS,
                answer=NodeWelcome,
                problems=(_UNKNOWN, _CONFLICT, _TOO_FAST),
            ),
            Operation(
                method="POST",
                path="/v1/node/poll",
                needs=(Scope.NODE_REGISTER,),
                tag=_TAG,
                summary="Poll for messages",
                description="Waits up to `wait_ms` for a message. If a node polls twice at once, the earlier poll "
                "returns empty.",
                handle=self._poll,
                body=NodePoll,
                answer=PollAnswer,
                problems=(_UNKNOWN, _CONFLICT),
            ),
            Operation(
                method="POST",
                path="/v1/job/ack",
                needs=(Scope.NODE_REGISTER,),
                tag=_TAG,
                summary="Acknowledge a job before starting it",
                description="It must arrive within the job's `start_within_ms`, or the job goes to another node.",
                handle=self._ack,
                body=JobAcked,
                answer=Ok,
                problems=(_UNKNOWN, _CONFLICT, _STALE),
            ),
            Operation(
                method="POST",
                path="/v1/job/done",
                needs=(Scope.NODE_REGISTER,),
                tag=_TAG,
                summary="Report the result of a job",
                handle=self._done,
                body=JobDone,
                most=OF_RESULTS,
                carries_speech=True,
                answer=Ok,
                problems=(_UNKNOWN, _CONFLICT, _STALE),
            ),
            Operation(
                method="POST",
                path="/v1/job/fail",
                needs=(Scope.NODE_REGISTER,),
                tag=_TAG,
                summary="Report that a job failed",
                description="The error code decides whether the job is retried on another node; see docs/errors.md.",
                handle=self._fail,
                body=JobFailed,
                most=OF_RESULTS,
                answer=Ok,
                problems=(_UNKNOWN, _CONFLICT, _STALE),
            ),
        )

    async def _register(self, call: Call[NodeRegistration, None]) -> NodeWelcome:
        node = await self._nodes.register(call.body, call.caller, call.principal)
        if isinstance(node, Refusal):
            _refuse(node)
        if node.box.is_open:
            ticket = self._live.enter(call.principal, partial(_end, node))
            node.on_gone = partial(self._live.leave, ticket)
        return self._welcome(node)

    async def _heartbeat(self, call: Call[NodeBeat, None]) -> NodeWelcome:
        node = self._find(call)
        complaint = await self._nodes.heartbeat(node, call.body)
        if isinstance(complaint, Refusal):
            _refuse(complaint)
        if isinstance(complaint, Stranger):
            _turn_away(call.body.node_id, complaint)
        if isinstance(complaint, TooFast):
            detail = "the node changes its languages too often (nodes.max_changes_per_min); the change is ignored"
            raise Problem(429, HttpCode.RATE_LIMITED, detail, retry_after_s=complaint.retry_after_s)
        return self._welcome(node)

    async def _poll(self, call: Call[NodePoll, None]) -> PollAnswer:
        node = self._find(call)
        mail = await self._nodes.poll(node, _wait_s(call), call.is_connected)
        if isinstance(mail, Stranger):
            _turn_away(call.body.node_id, mail)
        return PollAnswer(
            assignments=[message for message in mail if isinstance(message, JobAssign)],
            cancels=[message for message in mail if isinstance(message, JobCancel)],
            controls=[message for message in mail if isinstance(message, NodeControl)],
        )

    async def _ack(self, call: Call[JobAcked, None]) -> Ok:
        body = call.body
        message = JobAck(
            job_id=body.job_id, attempt_id=body.attempt_id, node_id=body.node_id, session_id="", trace_id=""
        )
        return _judged(body, await self._progress.ack(self._find(call).link, message))

    async def _done(self, call: Call[JobDone, None]) -> Ok:
        body = call.body
        if body.error is not None or (body.status or "ok").lower() not in _DONE:
            return await self._fail(call)
        said = msgspec.structs.asdict(body)
        for name in ("boot_id", "status", "reason", "error"):
            del said[name]
        return await self._result(call, JobResult(**said, success=True, **_NOT_SAID))

    async def _fail(self, call: Call[JobFailed, None] | Call[JobDone, None]) -> Ok:
        body = call.body
        message = JobResult(
            job_id=body.job_id,
            attempt_id=body.attempt_id,
            node_id=body.node_id,
            success=False,
            error=body.error or _error_of(body.reason or ""),
            processing_time_ms=body.processing_time_ms,
            **_NOT_SAID,
        )
        return await self._result(call, message)

    async def _result(self, call: Call[Any, None], message: JobResult) -> Ok:
        return _judged(call.body, await self._progress.result(self._find(call).link, message))

    def _find(self, call: Call[Any, None]) -> HttpNode:
        node = self._nodes.find(call.body.node_id, call.body.boot_id, call.caller, call.principal)
        if isinstance(node, Stranger):
            _turn_away(call.body.node_id, node)
        return node

    def _welcome(self, node: HttpNode) -> NodeWelcome:
        link = node.link
        return NodeWelcome(
            ok=True,
            node_id=link.node_id,
            state=link.profile.state(bool(link.pools)).value,
            heartbeat_interval_ms=self._nodes.interval_ms(link),
            hint=self._nodes.hint_about(link),
        )


# A job's session is known here; only what the node adds to it counts.
_NOT_SAID: dict[str, Any] = {"session_id": "", "utterance_index": 0, "trace_id": ""}


def _end(node: HttpNode, denied: Denied) -> None:
    """Its credential has ended."""
    node.box.close(code_for(denied), denied.detail)


def _error_of(reason: str) -> JobError:
    code = reason if reason in ErrorCode.__members__ else ErrorCode.PROCESSING_ERROR.value
    return JobError(code=code, message=reason)


def _judged(body: AttemptSays, is_current: bool) -> Ok:
    if not is_current:
        detail = f"attempt {body.attempt_id} of {body.job_id} is not, or no longer, {body.node_id}'s; drop the job"
        raise Problem(409, HttpCode.STALE_ATTEMPT, detail)
    return Ok()


def _refuse(refusal: Refusal) -> NoReturn:
    status = _STATUS[refusal.code]
    raise Problem(status, refusal.code, refusal.message, retry_after_s=RETRY_AFTER_S if status == 503 else None)


def _wait_s(call: Call[Any, Any]) -> float:
    if not isinstance(call.body, NodePoll):
        return 0.0
    return (DEFAULT_POLL_MS if call.body.wait_ms is None else call.body.wait_ms) / 1000


def _without(call: Call[Any, Any], _owner: str, _why: Unanswered) -> Problem:
    """The node registers again, with any instance."""
    return _unknown(call.body.node_id)


def _unknown(node_id: str) -> Problem:
    detail = f"{node_id} is not, or no longer, registered; register again with POST /v1/node/register"
    return Problem(404, HttpCode.UNKNOWN_NODE, detail)


def _turn_away(node_id: str, stranger: Stranger) -> NoReturn:
    if stranger is Stranger.UNKNOWN:
        raise _unknown(node_id)
    if stranger is Stranger.FOREIGN:
        raise Problem(403, HttpCode.PERMISSION_DENIED, f"{node_id} belongs to another credential")
    detail = f"another connection now uses {node_id}; register again with POST /v1/node/register, or stop this process"
    raise Problem(409, ErrorCode.NODE_ID_CONFLICT, detail)
