"""How every answer leaves: JSON, errors of one shape, and the id of the request it belongs to."""

import secrets
from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web

from lingua_scheduler.domain.errors import ErrorCode, HttpCode
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.telemetry import logs

_log = logs.get()

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

REQUEST_ID = web.RequestKey("request_id", str)
_HEADER = "X-Request-Id"
_MAX_ID_CHARS = 128
_HAS_BEGUN = web.RequestKey("answer_has_begun", bool)


class Problem(Exception):
    """An answer other than the wished one: a status, a code for machines, a sentence for people."""

    def __init__(self, status: int, code: str, detail: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.retry_after_s = retry_after_s


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """One shape for every error: a code, and a detail that helps."""
    request[REQUEST_ID] = _request_id(request)
    logs.bind(request_id=request[REQUEST_ID])
    try:
        return await handler(request)
    except Problem as problem:
        response = error_response(problem.status, problem.code, problem.detail)
        if problem.retry_after_s is not None:
            response.headers["Retry-After"] = str(problem.retry_after_s)
        return response
    except RedisAway as error:
        return error_response(503, ErrorCode.SCHEDULER_DEPENDENCY_DOWN, f"Redis is away: {error}")
    except web.HTTPNotFound:
        return error_response(404, HttpCode.NOT_FOUND, f"there is nothing at {request.path}; GET / lists what there is")
    except web.HTTPMethodNotAllowed as error:
        return _other_method(request, sorted(error.allowed_methods))
    except web.HTTPException as error:
        if error.status < 400:
            raise
        code = error.reason.upper().replace(" ", "_")
        return error_response(error.status, code, (error.text or error.reason).strip())
    except Exception as error:
        if request.get(_HAS_BEGUN):
            raise
        # What the request held is not logged: it may be speech.
        route = request.match_info.route.resource
        where = route.canonical if route is not None else ""
        _log.error("request.failed", method=request.method, route=where, exc_info=error)
        detail = f"something failed that should not have; the log has more, under request_id {request[REQUEST_ID]}"
        return error_response(500, ErrorCode.INTERNAL_ERROR, detail)


async def stamp(request: web.Request, response: web.StreamResponse) -> None:
    """A signal of the app, so that it reaches every kind of answer, a socket's handshake too."""
    request[_HAS_BEGUN] = True
    if REQUEST_ID in request:
        response.headers[_HEADER] = request[REQUEST_ID]


def json_response(value: object, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json", status=status)


def error_response(status: int, code: str, detail: str) -> web.Response:
    return json_response({"error": code, "detail": detail}, status)


def _other_method(request: web.Request, allowed: list[str]) -> web.Response:
    if request.method == "OPTIONS":
        response = web.Response(status=204)
    else:
        detail = f"{request.path} takes {', '.join(allowed)}"
        response = error_response(405, HttpCode.METHOD_NOT_ALLOWED, detail)
    response.headers["Allow"] = ", ".join((*allowed, "OPTIONS"))
    return response


def _request_id(request: web.Request) -> str:
    given = request.headers.get(_HEADER, "")
    is_sane = 0 < len(given) <= _MAX_ID_CHARS and given.isascii() and given.isprintable()
    return given if is_sane else secrets.token_hex(8)
