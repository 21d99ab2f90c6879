"""One HTTP operation as a value: what it takes, what it answers, what may go wrong. Routes and docs are made of it."""

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from aiohttp import web
from multidict import CIMultiDict

from lingua_scheduler.console.answers import (
    CALLER,
    LOGIN_COOKIE,
    PRINCIPAL,
    REQUEST_ID,
    LoginCookie,
    Problem,
    json_response,
)
from lingua_scheduler.console.bodies import invalid, read_body
from lingua_scheduler.console.cors import add_preflight
from lingua_scheduler.console.queries import query_reader
from lingua_scheduler.domain.access.principals import ANONYMOUS, Principal
from lingua_scheduler.domain.access.scopes import OPEN, Needs
from lingua_scheduler.domain.guards.addresses import NOBODY, Caller
from lingua_scheduler.protocol.http import LANGUAGE, MAX_LANGUAGE_CHARS, NODE_ID
from lingua_sdk.domain.errors import ErrorCode, HttpCode
from lingua_sdk.protocol.bulk import OF_CALLERS, Bulk
from lingua_sdk.protocol.codec import UnreadableFrame, decode_body

__all__ = ["OPERATIONS", "Call", "KnownProblem", "Operation", "Problem", "add_operations"]

B = TypeVar("B")
Q = TypeVar("Q")

_IN_BRACES = re.compile(r"{(\w+)}")
_JSON = "application/json"
_CLAIMS = "x-lingua-"


class Call(NamedTuple, Generic[B, Q]):
    """One request, read and checked. An operation without a body or a query has None there."""

    path: Mapping[str, str]
    body: B
    query: Q
    request_id: str
    # For long waits: whether the caller is still connected.
    is_connected: Callable[[], bool] = lambda: True
    headers: Mapping[str, str] = MappingProxyType({})
    caller: Caller = NOBODY
    # Another instance took the request, and this one has what it is about.
    is_forwarded: bool = False
    # Who asks, by its credential.
    principal: Principal = ANONYMOUS
    login_cookie: LoginCookie = LoginCookie()


class KnownProblem(NamedTuple):
    """A problem an operation may answer with, as the docs list it."""

    status: int
    code: str
    when: str


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """`path` may hold `{names}`; `answer` is the struct of a 200, which `handle` gives, or has encoded already."""

    method: str
    path: str
    # Scopes, any of which its caller must have. No default, so that none is open by mistake.
    needs: Needs
    tag: str
    summary: str
    handle: Callable[[Call[Any, Any]], Awaitable[Any]]
    answer: type
    body: type | None = None
    # The most its body may hold; one that carries speech may have `server.max_body_bytes` with it.
    most: Bulk = OF_CALLERS
    carries_speech: bool = False
    # A body that is not JSON: `body` is bytes then, of one of these media types, and at most so many.
    media: tuple[str, ...] = ()
    max_bytes: int = 0
    max_bytes_setting: str = ""
    # What it may answer instead of JSON.
    answer_media: tuple[str, ...] = ()
    # Web pages of allowed origins may call it and read the answer (CORS).
    is_for_apps: bool = False
    query: type | None = None
    problems: tuple[KnownProblem, ...] = ()
    description: str = ""

    @property
    def names(self) -> list[str]:
        return _IN_BRACES.findall(self.path)

    @property
    def all_problems(self) -> tuple[KnownProblem, ...]:
        """Its own, and those that come with being an operation."""
        told = {(known.status, known.code): known for known in (*_shared_problems(self), *self.problems)}
        return tuple(sorted(told.values()))


class Parameter(NamedTuple):
    """What may stand for a `{name}` in a path."""

    pattern: str
    max_length: int
    meaning: str
    example: str


_PARAMETERS = {
    "node_id": Parameter(NODE_ID, 64, "Id of a node; `GET /v1/nodes` lists them", "node-1A2B3C4D"),
    "src": Parameter(LANGUAGE, MAX_LANGUAGE_CHARS, "Source language", "en"),
    "tgt": Parameter(LANGUAGE, MAX_LANGUAGE_CHARS, "Target language", "zh"),
    "key_id": Parameter(r"^[0-9A-Za-z]{12}$", 12, "Id of a key; `GET /v1/keys` lists them", "k3jPq0aZ81Ty"),
    "issuer_id": Parameter(r"^[0-9A-Za-z._-]{1,64}$", 64, "Id of an issuer; `GET /v1/issuers` lists them", "app-1"),
    "room_id": Parameter(
        r"^[0-9A-Za-z-]{1,64}$", 64, "Id of a room; `GET /v1/rooms` lists them", "9b2d6c0e-6f0e-4c55-8b0a-3f0f7a1f0a11"
    ),
    "job_id": Parameter(r"^[A-Za-z0-9._:-]{1,128}$", 128, "Id of a job", "job-0-1a2b3c4d-1"),
}
_FORM_OF_FILES = "multipart/form-data"
_NOT_THE_FILE = "the body is a form; send the file itself as the body (with curl: --data-binary @FILE, not -F)"
_NO_FILE = "the body is empty; send a sound file (with curl: --data-binary @FILE)"
_ANY_PARAMETER = Parameter(r"^[A-Za-z0-9._:-]{1,128}$", 128, "", "1")

OPERATIONS: web.AppKey[list[Operation]] = web.AppKey("operations", list[Operation])


def parameter(name: str) -> Parameter:
    return _PARAMETERS.get(name, _ANY_PARAMETER)


def add_operations(app: web.Application, operations: Iterable[Operation]) -> None:
    """Serve them, and remember them for the documents."""
    known = app.setdefault(OPERATIONS, [])
    for operation in operations:
        known.append(operation)
        handle = _handler(operation)
        if operation.method == "GET":
            app.router.add_get(operation.path, handle)  # and HEAD
        else:
            app.router.add_route(operation.method, operation.path, handle)
        if operation.is_for_apps:
            add_preflight(app, operation.path, operation.method)


def _shared_problems(operation: Operation) -> Iterator[KnownProblem]:
    # A query that an operation does not know is refused, so this may happen to all of them.
    invalid = "The path, a query parameter or the body is invalid; the detail names it"
    yield KnownProblem(400, ErrorCode.INVALID_MESSAGE.value, invalid)
    yield KnownProblem(
        421, HttpCode.MISDIRECTED.value, "The `Host` header does not name this scheduler (`server.allowed_hosts`)"
    )
    if operation.method not in ("GET", "HEAD"):
        foreign = "The request comes from a web page whose origin is not in `server.allowed_origins`"
        yield KnownProblem(403, HttpCode.ORIGIN_NOT_ALLOWED.value, foreign)
    if operation.needs != OPEN:
        yield KnownProblem(
            401, HttpCode.UNAUTHENTICATED.value, "There is no credential, or it is not valid; callers may need none"
        )
        yield KnownProblem(401, HttpCode.TOKEN_EXPIRED.value, "The credential has expired")
        scopes = " or ".join(f"`{scope.value}`" for scope in operation.needs)
        yield KnownProblem(403, HttpCode.PERMISSION_DENIED.value, f"The credential lacks the scope {scopes}")
    crowded = (
        "The caller's address has too many connections (`server.max_sockets_per_address`), opens them too fast, or "
        "has sent too many wrong credentials"
    )
    yield KnownProblem(429, HttpCode.RATE_LIMITED.value, crowded)
    if operation.body is not None:
        late = "The body did not arrive within `server.body_timeout_ms`"
        yield KnownProblem(408, HttpCode.REQUEST_TIMEOUT.value, late)
        most = "`server.max_body_bytes`" if operation.carries_speech else f"{operation.most.size} bytes"
        most = f"`{operation.max_bytes_setting}`" if operation.media else most
        yield KnownProblem(413, HttpCode.BODY_TOO_LARGE.value, f"The body is larger than {most}")
        yield KnownProblem(
            415,
            HttpCode.UNSUPPORTED_MEDIA_TYPE.value,
            f"The body is not {_kinds(operation)}, or is compressed other than with gzip or deflate",
        )
        crowd = "All callers together are sending more than `server.max_unfinished_bytes`, and this body is the largest"
        yield KnownProblem(503, HttpCode.SERVICE_UNAVAILABLE.value, crowd)
    yield KnownProblem(503, ErrorCode.SCHEDULER_DEPENDENCY_DOWN.value, "Redis is unavailable; try again shortly")


def _kinds(operation: Operation) -> str:
    return "a sound file of a supported format" if operation.media else _JSON


def _handler(operation: Operation) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Properties of the operation are looked up here once, not with every request."""
    read_path, read_query, read_body = _path_reader(operation), query_reader(operation.query), _body_reader(operation)

    async def handle(request: web.Request) -> web.Response:
        path, query = read_path(request), read_query(request)
        body = await read_body(request)
        call = Call(
            path,
            body,
            query,
            request[REQUEST_ID],
            lambda: _is_connected(request),
            _without_claims(request.headers),
            request.get(CALLER, NOBODY),
            principal=request.get(PRINCIPAL, ANONYMOUS),
            login_cookie=request.get(LOGIN_COOKIE, LoginCookie()),
        )
        answer = await operation.handle(call)
        return answer if isinstance(answer, web.Response) else json_response(answer)

    return handle


def _without_claims(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Without what a caller could say about itself that only the door may say."""
    if not any(name[: len(_CLAIMS)].lower() == _CLAIMS for name in headers):
        return headers
    return CIMultiDict((name, value) for name, value in headers.items() if not name.lower().startswith(_CLAIMS))


def _is_connected(request: web.Request) -> bool:
    return request.transport is not None and not request.transport.is_closing()


def _path_reader(operation: Operation) -> Callable[[web.Request], Mapping[str, str]]:
    parameters = [(name, parameter(name)) for name in operation.names]

    def read(request: web.Request) -> Mapping[str, str]:
        for name, allowed in parameters:
            value = request.match_info[name]
            if len(value) > allowed.max_length or not re.fullmatch(allowed.pattern, value):
                raise invalid(
                    f'invalid "{name}" in the path: must match {allowed.pattern}, for example {allowed.example}'
                )
        return request.match_info

    return read


def _body_reader(operation: Operation) -> Callable[[web.Request], Awaitable[Any]]:
    if operation.body is None:
        return _nothing
    if operation.media:
        return _media_reader(operation)
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(operation.body)
    required = ", ".join(f'"{field.encode_name}"' for field in msgspec.structs.fields(operation.body) if field.required)
    empty = f"the body is empty; send a JSON object{f' with {required}' if required else ''}"

    async def read(request: web.Request) -> Any:
        if not request.body_exists:
            raise invalid(empty)
        if request.content_type != _JSON:
            detail = f"unsupported Content-Type {request.content_type[:64]}; send JSON, with Content-Type: {_JSON}"
            raise Problem(415, HttpCode.UNSUPPORTED_MEDIA_TYPE, detail)
        most = request.client_max_size
        if not operation.carries_speech:
            most = min(most, operation.most.size)
        try:
            return await read_body(request, most, lambda raw: decode_body(raw, decoder, operation.most))
        except UnreadableFrame as error:
            refusal = invalid(str(error))
        try:
            raise refusal
        finally:
            # Its traceback holds this frame, so a variable here would hold it for ever.
            del refusal

    return read


def _media_reader(operation: Operation) -> Callable[[web.Request], Awaitable[bytes]]:
    async def read(request: web.Request) -> bytes:
        if not request.body_exists:
            raise invalid(_NO_FILE)
        if request.content_type == _FORM_OF_FILES:
            raise Problem(415, HttpCode.UNSUPPORTED_MEDIA_TYPE, _NOT_THE_FILE)
        if request.content_type not in operation.media:
            detail = f"unsupported Content-Type {request.content_type[:64]}; send one of {', '.join(operation.media)}"
            raise Problem(415, HttpCode.UNSUPPORTED_MEDIA_TYPE, detail)
        body = await read_body(request, operation.max_bytes, bytes)
        if not body:
            raise invalid(_NO_FILE)
        return body

    return read


async def _nothing(_: web.Request) -> None:
    return None
