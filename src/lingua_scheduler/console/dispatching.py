"""HTTP edge: one utterance to be translated, and its result."""

from lingua_scheduler.console.operations import Call, Known, Operation, Problem
from lingua_scheduler.domain.errors import ErrorCode
from lingua_scheduler.protocol.http_dispatch import F2fDispatch, F2fDispatched, FetchedResult, ResultQuery
from lingua_scheduler.services.attempts.work import Refusal
from lingua_scheduler.services.dispatch.http_calls import Calls

# What a refusal is as a status; a status that invites to come back says when.
_STATUS = {
    ErrorCode.INVALID_MESSAGE: 400,
    ErrorCode.PREFERRED_NODE_NOT_CAPABLE: 409,
    ErrorCode.REQUEST_CONFLICT: 409,
    ErrorCode.JOB_ELSEWHERE: 409,
    ErrorCode.RESULT_LOST: 410,
    ErrorCode.NO_CAPABLE_NODE: 422,
    ErrorCode.NODE_OVERLOADED: 503,
    ErrorCode.ALL_CANDIDATES_FULL_OR_FAILED: 503,
    ErrorCode.SCHEDULER_DEPENDENCY_DOWN: 503,
}
RETRY_AFTER_S = 1


def dispatching(calls: Calls, max_audio_bytes: int) -> list[Operation]:
    async def dispatch(call: Call[F2fDispatch, None]) -> F2fDispatched:
        if call.body.audio is not None and len(call.body.audio) > max_audio_bytes:
            detail = f"audio is {len(call.body.audio)} bytes, {max_audio_bytes} are allowed"
            raise Problem(413, ErrorCode.INVALID_MESSAGE.value, detail)
        answer = await calls.dispatch(call.body, call.headers)
        if isinstance(answer, Refusal):
            raise _problem(answer)
        return F2fDispatched(job_id=answer.handle, node_id=answer.node_id, attempt_id=answer.attempt_id)

    async def result(call: Call[None, ResultQuery]) -> FetchedResult:
        job_id = call.path["job_id"]
        found = await calls.result(job_id, call.query.wait_ms)
        if found is None:
            detail = "no HTTP caller's job of this id is known here; results are forgotten after a while"
            raise Problem(404, "NOT_FOUND", detail)
        if isinstance(found, Refusal):
            raise _problem(found)
        return found

    return [
        Operation(
            method="POST",
            path="/v1/dispatch/f2f",
            tag="dispatch",
            summary="Translate one utterance; answers as soon as a node has it",
            handle=dispatch,
            body=F2fDispatch,
            carries_speech=True,
            answer=F2fDispatched,
            problems=(
                Known(
                    400, ErrorCode.INVALID_MESSAGE.value, "the body cannot be read, or asks for something impossible"
                ),
                Known(409, ErrorCode.PREFERRED_NODE_NOT_CAPABLE.value, "`strict`, and the node cannot take the job"),
                Known(409, ErrorCode.REQUEST_CONFLICT.value, "the `request_id` was used for something else"),
                Known(413, ErrorCode.INVALID_MESSAGE.value, "the audio is larger than `sessions.max_utterance_bytes`"),
                Known(422, ErrorCode.NO_CAPABLE_NODE.value, "no connected node serves the pair; the detail says why"),
                Known(503, ErrorCode.ALL_CANDIDATES_FULL_OR_FAILED.value, "no slot in time, or every try failed"),
                Known(503, ErrorCode.NODE_OVERLOADED.value, "`calls.max_jobs` are under way, or the scheduler stops"),
                Known(503, ErrorCode.SCHEDULER_DEPENDENCY_DOWN.value, "Redis is away"),
            ),
        ),
        Operation(
            method="GET",
            path="/v1/jobs/{job_id}/result",
            tag="dispatch",
            summary="The result of a job that was asked for over HTTP; waits for it if wished",
            handle=result,
            query=ResultQuery,
            answer=FetchedResult,
            problems=(
                Known(400, ErrorCode.INVALID_MESSAGE.value, "`wait_ms` is not a number from 0 to 30000"),
                Known(404, "NOT_FOUND", "no such job, or its result was forgotten"),
                Known(409, ErrorCode.JOB_ELSEWHERE.value, "another instance has it; the detail says which"),
                Known(410, ErrorCode.RESULT_LOST.value, "the instance that had it is gone; send the request again"),
                Known(503, ErrorCode.SCHEDULER_DEPENDENCY_DOWN.value, "it is not known here, and Redis is away"),
            ),
        ),
    ]


def _problem(refusal: Refusal) -> Problem:
    status = _STATUS.get(refusal.code, 500)
    return Problem(status, refusal.code.value, refusal.message, retry_after_s=RETRY_AFTER_S if status == 503 else None)
