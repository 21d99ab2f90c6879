"""One HTTP operation as a value: what it takes, what it answers, what may go wrong. Routes and docs are made of it."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from aiohttp import web

from lingua_scheduler.domain.errors import ErrorCode

B = TypeVar("B")
Q = TypeVar("Q")


class Problem(Exception):
    """An answer other than the wished one: a status, a code for machines, a sentence for people."""

    def __init__(self, status: int, code: str, detail: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.retry_after_s = retry_after_s


class Call(NamedTuple, Generic[B, Q]):
    """One request, read and checked. An operation without a body or a query has None there."""

    path: Mapping[str, str]
    body: B
    query: Q
    request_id: str


class Known(NamedTuple):
    """A problem an operation may answer with, as the docs list it."""

    status: int
    code: str
    when: str


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """`path` may hold `{names}`; `answer` is the struct of a 200."""

    method: str
    path: str
    tag: str
    summary: str
    handle: Callable[[Call[Any, Any]], Awaitable[Any]]
    answer: type
    body: type | None = None
    query: type | None = None
    problems: tuple[Known, ...] = ()


def add_operations(app: web.Application, operations: Iterable[Operation]) -> None:
    for operation in operations:
        app.router.add_route(operation.method, operation.path, _handler(operation))


def _handler(operation: Operation) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        call = Call(
            path=request.match_info,
            body=await _body(operation, request),
            query=_query(operation, request),
            request_id=request.headers.get("X-Request-Id", ""),
        )
        return web.Response(body=msgspec.json.encode(await operation.handle(call)), content_type="application/json")

    return handle


async def _body(operation: Operation, request: web.Request) -> Any:
    if operation.body is None:
        return None
    try:
        return msgspec.json.decode(await request.read(), type=operation.body)
    except msgspec.DecodeError as error:
        raise Problem(400, ErrorCode.INVALID_MESSAGE.value, f"the body is not what this takes: {error}") from None


def _query(operation: Operation, request: web.Request) -> Any:
    if operation.query is None:
        return None
    try:
        return msgspec.convert(dict(request.query), type=operation.query, strict=False)
    except msgspec.ValidationError as error:
        raise Problem(400, ErrorCode.INVALID_MESSAGE.value, f"the query is not what this takes: {error}") from None
