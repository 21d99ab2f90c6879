"""HTTP responses: JSON, one error format, and the request id header."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

import msgspec
from aiohttp import hdrs, web
from aiohttp.typedefs import Middleware

from lingua_scheduler.domain.access.principals import Principal
from lingua_scheduler.domain.guards.addresses import Caller
from lingua_scheduler.store.connection import RedisAway, WritesRefused
from lingua_scheduler.telemetry import logs, metrics
from lingua_sdk.domain.errors import ErrorCode, HttpCode

_log = logs.get()

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

REQUEST_ID = web.RequestKey("request_id", str)
CALLER = web.RequestKey("caller", Caller)
PRINCIPAL = web.RequestKey("principal", Principal)
# Of a body that is no longer needed.
_REST_S = 0.5
_REST_BYTES = 16_777_216
_HEADER = "X-Request-Id"
_CHALLENGE = 'Bearer error="invalid_token"'
_MAX_ID_CHARS = 128
_HAS_BEGUN = web.RequestKey("answer_has_begun", bool)


class LoginCookie(NamedTuple):
    """The cookie that may carry a login, and what it carries. Without a name it would cross a network in the clear."""

    name: str = ""
    secret: str = ""

    def __repr__(self) -> str:
        """Without the secret: a traceback may show it."""
        return f"LoginCookie({self.name})"


LOGIN_COOKIE = web.RequestKey("login_cookie", LoginCookie)


class Problem(Exception):
    """An answer other than the wished one: a status, a code for machines, a sentence for people."""

    def __init__(self, status: int, code: str, detail: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.retry_after_s = retry_after_s


class Rejection(Protocol):
    """What the door says to whom it turns away."""

    @property
    def status(self) -> int: ...
    @property
    def code(self) -> str: ...
    @property
    def detail(self) -> str: ...
    @property
    def retry_after_s(self) -> int | None: ...


class RequestJudge(Protocol):
    """Judges a request before anything of it is served."""

    def caller(self, request: web.BaseRequest) -> Caller: ...

    def principal(self, request: web.BaseRequest) -> Principal: ...

    def login_cookie(self, request: web.BaseRequest) -> str: ...

    async def judge(self, request: web.Request) -> Rejection | None: ...

    def leave(self, request: web.Request) -> None: ...


def behind(door: RequestJudge) -> Middleware:
    """Everything behind it, sockets too, is served only if the door lets it in."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        refused = await door.judge(request)
        if refused is not None:
            raise Problem(refused.status, refused.code, refused.detail, retry_after_s=refused.retry_after_s)
        request[CALLER], request[PRINCIPAL] = door.caller(request), door.principal(request)
        if request.method == hdrs.METH_POST:
            name = door.login_cookie(request)
            request[LOGIN_COOKIE] = LoginCookie(name, request.cookies.get(name, "") if name else "")
        try:
            return await handler(request)
        finally:
            door.leave(request)

    return guard


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """One shape for every error: a code, and a detail that helps."""
    response = await _answer(request, handler)
    if not request.content.is_eof():
        await _let_go(request, response)
    return response


async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    request[REQUEST_ID] = _request_id(request)
    logs.bind(request_id=request[REQUEST_ID])
    try:
        return await handler(request)
    except Problem as problem:
        return problem_response(problem)
    except RedisAway as error:
        # Where Redis is, and what it said, is for the log alone.
        _log.warning("request.unserved", request_id=request[REQUEST_ID], error=str(error))
        detail = "Redis accepts no writes" if isinstance(error, WritesRefused) else "Redis is unavailable"
        return error_response(503, ErrorCode.SCHEDULER_DEPENDENCY_DOWN, f"{detail}; try again shortly")
    except web.HTTPNotFound:
        return error_response(404, HttpCode.NOT_FOUND, f"nothing found at {request.path}; GET / lists all paths")
    except web.HTTPMethodNotAllowed as error:
        return _other_method(request, sorted(error.allowed_methods))
    except web.HTTPException as error:
        if error.status < 400:
            raise
        code = error.reason.upper().replace(" ", "_")
        return error_response(error.status, code, (error.text or error.reason).strip())
    except Exception as error:
        if request.get(_HAS_BEGUN) or (isinstance(error, ConnectionError) and request.transport is None):
            # It is too late for an answer, or the caller has disconnected: aiohttp closes the connection.
            raise
        # What the request held is not logged: it may be speech.
        route = request.match_info.route.resource
        where = route.canonical if route is not None else ""
        _log.error("request.failed", request_id=request[REQUEST_ID], method=request.method, route=where, exc_info=error)
        detail = f"internal error; see the log for request_id {request[REQUEST_ID]}"
        return error_response(500, ErrorCode.INTERNAL_ERROR, detail)


async def stamp(request: web.Request, response: web.StreamResponse) -> None:
    """A signal of the app, so that it reaches every kind of answer, a socket's handshake too."""
    request[_HAS_BEGUN] = True
    if response.status != 101:
        # It may hold speech or a secret, and a cache between us and the caller would give it to others.
        response.headers.setdefault(hdrs.CACHE_CONTROL, "no-store")
        # An error repeats what it was asked for, and no browser may take that for a page.
        response.headers.setdefault("X-Content-Type-Options", "nosniff")
    if REQUEST_ID in request:
        response.headers[_HEADER] = request[REQUEST_ID]


async def _let_go(request: web.Request, response: web.StreamResponse) -> None:
    """An answer before the end of the body. A little is still read, for callers who send all before they listen.

    aiohttp would read on for ten seconds, as fast as it comes.
    """
    read = 0
    try:
        async with asyncio.timeout(_REST_S):
            while read < _REST_BYTES:
                part = await request.content.readany()
                if not part:
                    return
                read += len(part)
    except ConnectionError:
        return  # the caller has left, and hears no answer
    except (TimeoutError, web.RequestPayloadError):
        pass
    metrics.CONNECTIONS_CUT.labels("body").inc()
    request.protocol._pause_reading_for_buffer()
    response.force_close()
    try:
        await response.prepare(request)
        await response.write_eof()
    except ConnectionError:
        return  # it has left just now
    # Closing with unread input may destroy a response that is on its way.
    await asyncio.sleep(_REST_S)
    # aiohttp takes this for the end of the time that it waits for the rest, and closes.
    request.content.set_exception(TimeoutError())


def json_response(value: object, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json", status=status)


def error_response(status: int, code: str, detail: str) -> web.Response:
    return json_response({"error": code, "detail": detail}, status)


def problem_response(problem: Problem) -> web.Response:
    response = error_response(problem.status, problem.code, problem.detail)
    if problem.retry_after_s is not None:
        response.headers["Retry-After"] = str(problem.retry_after_s)
    if problem.status == 401:
        response.headers[hdrs.WWW_AUTHENTICATE] = _CHALLENGE
    return response


def _other_method(request: web.Request, allowed: list[str]) -> web.Response:
    if request.method == "OPTIONS":
        response = web.Response(status=204)
    else:
        detail = f"{request.path} accepts only {', '.join(allowed)}"
        response = error_response(405, HttpCode.METHOD_NOT_ALLOWED, detail)
    response.headers["Allow"] = ", ".join((*allowed, "OPTIONS"))
    return response


def _request_id(request: web.Request) -> str:
    given = request.headers.get(_HEADER, "")
    is_sane = 0 < len(given) <= _MAX_ID_CHARS and given.isascii() and given.isprintable()
    return given if is_sane else secrets.token_hex(8)
