"""HTTP edge: one utterance to be translated, and its result."""

from lingua_scheduler.console.forwarded import Forwarder
from lingua_scheduler.console.operations import Call, KnownProblem, Operation, Problem
from lingua_scheduler.domain.access.scopes import Scope
from lingua_scheduler.protocol.http_dispatch import F2fDispatch, F2fDispatched, FetchedResult, ResultQuery
from lingua_scheduler.protocol.uploads import about_file, file_in
from lingua_scheduler.services.attempts.work import Refusal
from lingua_scheduler.services.cluster.forwarding import Unanswered
from lingua_scheduler.services.dispatch.http_calls import Calls
from lingua_sdk.domain.errors import ErrorCode, HttpCode
from lingua_sdk.protocol.shapes import LanguagesUsed

# What a refusal is as a status; a status that invites to come back says when.
_STATUS = {
    ErrorCode.INVALID_MESSAGE: 400,
    ErrorCode.PERMISSION_DENIED: 403,
    ErrorCode.PREFERRED_NODE_NOT_CAPABLE: 409,
    ErrorCode.REQUEST_CONFLICT: 409,
    ErrorCode.NO_CAPABLE_NODE: 422,
    ErrorCode.NODE_OVERLOADED: 503,
    ErrorCode.ALL_CANDIDATES_FULL_OR_FAILED: 503,
    ErrorCode.SCHEDULER_DEPENDENCY_DOWN: 503,
    ErrorCode.JOB_TIMEOUT: 504,
}
RETRY_AFTER_S = 1


def dispatching(calls: Calls, max_audio_bytes: int, forwarder: Forwarder) -> list[Operation]:
    async def dispatch(call: Call[F2fDispatch, None]) -> F2fDispatched:
        if call.body.audio is not None and len(call.body.audio) > max_audio_bytes:
            detail = f"audio has {len(call.body.audio)} bytes; at most {max_audio_bytes} are allowed"
            raise Problem(413, ErrorCode.INVALID_MESSAGE.value, detail)
        if call.body.audio and call.body.audio_format != "opus" and (kind := file_in(call.body.audio)):
            raise Problem(415, HttpCode.UNSUPPORTED_MEDIA_TYPE, about_file(kind))
        answer = await calls.dispatch(call.body, call.headers, call.principal)
        if isinstance(answer, Refusal):
            raise problem_of(answer)
        return F2fDispatched(
            job_id=answer.handle,
            node_id=answer.node_id,
            attempt_id=answer.attempt_id,
            languages_used=LanguagesUsed(src_lang=answer.src_lang, tgt_lang=answer.tgt_lang),
            note=answer.note or None,
        )

    async def result(call: Call[None, ResultQuery]) -> FetchedResult:
        job_id = call.path["job_id"]
        found = await calls.result(job_id, call.query.wait_ms, call.principal.owner_digest)
        if found is None:
            detail = (
                "unknown job, or its result has expired (calls.keep_ms); use the whole job_id of the response to "
                "POST /v1/dispatch/f2f, with what follows the dot"
            )
            raise Problem(404, "NOT_FOUND", detail)
        return found

    async def locate(call: Call[None, ResultQuery]) -> str:
        return await calls.elsewhere(call.path["job_id"], call.principal.owner_digest)

    fetch = Operation(
        method="GET",
        path="/v1/jobs/{job_id}/result",
        needs=(Scope.DISPATCH_CALL,),
        tag="dispatch",
        summary="The result of a job that was requested over HTTP; with `wait_ms` it waits for the result",
        handle=result,
        query=ResultQuery,
        is_for_apps=True,
        answer=FetchedResult,
        problems=(
            KnownProblem(400, ErrorCode.INVALID_MESSAGE.value, "`wait_ms` is not a number from 0 to 30000"),
            KnownProblem(404, "NOT_FOUND", "No such job, or its result has expired"),
            KnownProblem(
                409,
                ErrorCode.JOB_ELSEWHERE.value,
                "Another instance has the job, and one of an older release is running",
            ),
            KnownProblem(
                410, ErrorCode.RESULT_LOST.value, "The instance that had the job is gone; send the request again"
            ),
            KnownProblem(
                503, ErrorCode.SCHEDULER_DEPENDENCY_DOWN.value, "The job is unknown here, and Redis is unavailable"
            ),
        ),
    )
    return [
        Operation(
            method="POST",
            path="/v1/dispatch/f2f",
            needs=(Scope.DISPATCH_CALL,),
            tag="dispatch",
            summary="Translate one utterance; responds once the job has a slot on a node",
            handle=dispatch,
            body=F2fDispatch,
            carries_speech=True,
            is_for_apps=True,
            answer=F2fDispatched,
            problems=(
                KnownProblem(400, ErrorCode.INVALID_MESSAGE.value, "The body is invalid; the detail says why"),
                KnownProblem(
                    409,
                    ErrorCode.PREFERRED_NODE_NOT_CAPABLE.value,
                    "`options.strict` is set, and the preferred node cannot take the job",
                ),
                KnownProblem(
                    409, ErrorCode.REQUEST_CONFLICT.value, "The `request_id` was already used for a different request"
                ),
                KnownProblem(
                    413, ErrorCode.INVALID_MESSAGE.value, "The audio is larger than `sessions.max_utterance_bytes`"
                ),
                KnownProblem(
                    415,
                    HttpCode.UNSUPPORTED_MEDIA_TYPE.value,
                    "The audio is a sound file, not samples; `POST /v1/translate` accepts files",
                ),
                KnownProblem(
                    422,
                    ErrorCode.NO_CAPABLE_NODE.value,
                    "No connected node serves the language pair; the detail says why",
                ),
                KnownProblem(
                    503,
                    ErrorCode.ALL_CANDIDATES_FULL_OR_FAILED.value,
                    "No slot became free in time, or every attempt failed",
                ),
                KnownProblem(
                    503,
                    ErrorCode.NODE_OVERLOADED.value,
                    "`calls.max_jobs` jobs are unfinished, or the scheduler is stopping",
                ),
                KnownProblem(503, ErrorCode.SCHEDULER_DEPENDENCY_DOWN.value, "Redis is unavailable"),
            ),
        ),
        forwarder.anywhere(fetch, locate, _lost, lambda call: call.query.wait_ms / 1000),
    ]


def _lost(_call: Call[None, ResultQuery], owner: str, why: Unanswered) -> Problem:
    if why is Unanswered.UNABLE:
        detail = f"instance {owner} has this job; ask there for its result: an instance of an older release is running"
        return Problem(409, ErrorCode.JOB_ELSEWHERE.value, detail)
    detail = (
        f"instance {owner} had this job in its memory and is gone, and with it the result; "
        "send the same request again, and it is translated anew"
    )
    return Problem(410, ErrorCode.RESULT_LOST.value, detail)


def problem_of(refusal: Refusal, default: int = 500) -> Problem:
    """`default` is the status of a code that has none of its own."""
    status = _STATUS.get(refusal.code, default)
    return Problem(status, refusal.code.value, refusal.message, retry_after_s=RETRY_AFTER_S if status == 503 else None)
