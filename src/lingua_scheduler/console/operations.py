"""One HTTP operation as a value: what it takes, what it answers, what may go wrong. Routes and docs are made of it."""

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from aiohttp import web

from lingua_scheduler.console.answers import CALLER, REQUEST_ID, Problem, json_response
from lingua_scheduler.console.bodies import invalid, read_body
from lingua_scheduler.domain.errors import ErrorCode, HttpCode
from lingua_scheduler.domain.guards.addresses import NOBODY, Caller
from lingua_scheduler.protocol.bulk import OF_CALLERS, Bulk
from lingua_scheduler.protocol.codec import UnreadableFrame, decode_body
from lingua_scheduler.protocol.http import LANGUAGE, MAX_LANGUAGE_CHARS, NODE_ID

__all__ = ["OPERATIONS", "Call", "Known", "Operation", "Problem", "add_operations"]

B = TypeVar("B")
Q = TypeVar("Q")

_IN_BRACES = re.compile(r"{(\w+)}")
_JSON = "application/json"


class Call(NamedTuple, Generic[B, Q]):
    """One request, read and checked. An operation without a body or a query has None there."""

    path: Mapping[str, str]
    body: B
    query: Q
    request_id: str
    # For those who wait long: whether the caller is still there.
    is_connected: Callable[[], bool] = lambda: True
    headers: Mapping[str, str] = MappingProxyType({})
    caller: Caller = NOBODY


class Known(NamedTuple):
    """A problem an operation may answer with, as the docs list it."""

    status: int
    code: str
    when: str


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """`path` may hold `{names}`; `answer` is the struct of a 200, which `handle` gives, or has encoded already."""

    method: str
    path: str
    tag: str
    summary: str
    handle: Callable[[Call[Any, Any]], Awaitable[Any]]
    answer: type
    body: type | None = None
    # The most its body may hold; one that carries speech may have `server.max_body_bytes` with it.
    most: Bulk = OF_CALLERS
    carries_speech: bool = False
    query: type | None = None
    problems: tuple[Known, ...] = ()
    description: str = ""

    @property
    def names(self) -> list[str]:
        return _IN_BRACES.findall(self.path)

    @property
    def all_problems(self) -> tuple[Known, ...]:
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
    "node_id": Parameter(NODE_ID, 64, "A node's id; GET /v1/nodes lists them", "node-1A2B3C4D"),
    "src": Parameter(LANGUAGE, MAX_LANGUAGE_CHARS, "The language that is spoken", "en"),
    "tgt": Parameter(LANGUAGE, MAX_LANGUAGE_CHARS, "The language to translate into", "zh"),
    "job_id": Parameter(r"^[A-Za-z0-9._:-]{1,128}$", 128, "A job's id", "job-0-i-1a2b3c4d-1"),
}
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


def _shared_problems(operation: Operation) -> Iterator[Known]:
    # A query that an operation does not know is refused, so this may happen to all of them.
    invalid = "The path, the query or the body is not what this takes; the detail names the part"
    yield Known(400, ErrorCode.INVALID_MESSAGE.value, invalid)
    yield Known(
        421, HttpCode.MISDIRECTED.value, "The Host header is no name of this scheduler (`server.allowed_hosts`)"
    )
    if operation.method not in ("GET", "HEAD"):
        foreign = "A web page of another origin asks, which `server.allowed_origins` does not list"
        yield Known(403, HttpCode.ORIGIN_NOT_ALLOWED.value, foreign)
    crowded = "The caller's address has too many connections (`server.max_sockets_per_address`), or opens them too fast"
    yield Known(429, HttpCode.RATE_LIMITED.value, crowded)
    if operation.body is not None:
        late = "The body did not arrive within `server.body_timeout_ms`"
        yield Known(408, HttpCode.REQUEST_TIMEOUT.value, late)
        most = "`server.max_body_bytes`" if operation.carries_speech else f"{operation.most.size} bytes"
        yield Known(413, HttpCode.BODY_TOO_LARGE.value, f"The body has more than {most}")
        yield Known(
            415,
            HttpCode.UNSUPPORTED_MEDIA_TYPE.value,
            f"The body is not sent as {_JSON}, or packed other than as gzip or deflate",
        )
        crowd = "All callers together send more than `server.max_unfinished_bytes` at once, and this one most"
        yield Known(503, HttpCode.SERVICE_UNAVAILABLE.value, crowd)
    yield Known(503, ErrorCode.SCHEDULER_DEPENDENCY_DOWN.value, "Redis is away; try again shortly")


def _handler(operation: Operation) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Whatever the operation says is looked up here, once, and not with every request."""
    read_path, read_query, read_body = _path_reader(operation), _query_reader(operation), _body_reader(operation)

    async def handle(request: web.Request) -> web.Response:
        path, query = read_path(request), read_query(request)
        body = await read_body(request)
        caller = request.get(CALLER, NOBODY)
        call = Call(path, body, query, request[REQUEST_ID], lambda: _is_connected(request), request.headers, caller)
        answer = await operation.handle(call)
        return answer if isinstance(answer, web.Response) else json_response(answer)

    return handle


def _is_connected(request: web.Request) -> bool:
    return request.transport is not None and not request.transport.is_closing()


def _path_reader(operation: Operation) -> Callable[[web.Request], Mapping[str, str]]:
    parameters = [(name, parameter(name)) for name in operation.names]

    def read(request: web.Request) -> Mapping[str, str]:
        for name, allowed in parameters:
            value = request.match_info[name]
            if len(value) > allowed.max_length or not re.fullmatch(allowed.pattern, value):
                raise invalid(f'"{name}" in the path is none: it matches {allowed.pattern}, e.g. {allowed.example}')
        return request.match_info

    return read


def _query_reader(operation: Operation) -> Callable[[web.Request], Any]:
    known = [field.encode_name for field in msgspec.structs.fields(operation.query)] if operation.query else []

    def read(request: web.Request) -> Any:
        given = _given(request, known) if request.query_string else {}
        if operation.query is None:
            return None
        try:
            return msgspec.convert(given, type=operation.query, strict=False)
        except msgspec.ValidationError as error:
            refusal = invalid(f"the query is not what this takes: {error}".replace("`", '"').replace("$.", ""))
        try:
            raise refusal
        finally:
            # Its traceback holds this frame, so a variable here would hold it for ever.
            del refusal

    return read


def _given(request: web.Request, known: list[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for name, value in request.query.items():
        if name not in known:
            raise invalid(_about_unknown(name, known))
        if name in given:
            raise invalid(f'"{name}" is given twice in the query')
        given[name] = value
    return given


def _about_unknown(name: str, known: Iterable[str]) -> str:
    nearest = get_close_matches(name[:64], list(known), n=1, cutoff=0.4)
    takes = ", ".join(known) or "nothing"
    step = f'did you mean "{nearest[0]}"?' if nearest else f"the query takes {takes}"
    return f'there is no "{name[:64]}" in the query of this; {step}'


def _body_reader(operation: Operation) -> Callable[[web.Request], Awaitable[Any]]:
    if operation.body is None:
        return _nothing
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(operation.body)

    async def read(request: web.Request) -> Any:
        if request.content_type != _JSON:
            detail = f"the body is sent as {request.content_type[:64]}; send JSON, and the header Content-Type: {_JSON}"
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


async def _nothing(_: web.Request) -> None:
    return None
