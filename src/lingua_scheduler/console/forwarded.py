"""HTTP through any instance: a request about a node or a job of another instance is answered by that one."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec
from aiohttp import web

from lingua_scheduler.console.operations import Call, Operation, Problem
from lingua_scheduler.console.queries import query_of
from lingua_scheduler.domain.access.principals import ANONYMOUS, Principal
from lingua_scheduler.domain.guards.addresses import Caller
from lingua_scheduler.protocol.bus import ForwardedAnswer, ForwardedRequest
from lingua_scheduler.services.cluster.forwarding import Forwarding, Unanswered, new_request_id
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.telemetry import logs
from lingua_sdk.domain.errors import ErrorCode, HttpCode

_log = logs.get()

RETRY_AFTER_S = 1
# Time that a forwarded request takes of the event loop beside its handler, about, on each of the two instances: a
# letter is sealed and posted, one is read.
LETTERS_S = 0.0002

AnyCall = Call[Any, Any]
# The other instance that has what a call is about; empty if it is served here.
Locate = Callable[[AnyCall], Awaitable[str]]
# What a caller is told when that instance is gone, or of an older release.
Without = Callable[[AnyCall, str, Unanswered], Problem]

_PROBLEM = msgspec.json.Decoder(dict[str, str])


class Turns(Protocol):
    """The budget of time that all HTTP requests of an instance share."""

    async def come(self) -> None: ...

    def spend(self, spent_s: float) -> None: ...


class Forwarder:
    """Sends calls to the instance they concern, and answers those that others send.

    Both instances count them as their own requests: otherwise a flood would cost least where it is held back, and most
    at the instance that owns what it asks for.
    """

    def __init__(self, forwarding: Forwarding, turns: Turns) -> None:
        self._forwarding = forwarding
        # By name. A letter can ask for no other: those of operators are never forwarded.
        self._operations: dict[str, Operation] = {}
        self._turns = turns
        forwarding.answer = self.answer

    def anywhere(
        self,
        operation: Operation,
        locate: Locate,
        without: Without,
        wait_s: Callable[[AnyCall], float] = lambda _: 0.0,
    ) -> Operation:
        """The same operation, served by every instance."""

        async def handle(call: AnyCall) -> Any:
            owner = "" if call.is_forwarded else await locate(call)
            if not owner:
                return await operation.handle(call)
            self._turns.spend(LETTERS_S)
            request = ForwardedRequest(
                new_request_id(),
                owner,
                _name(operation),
                dict(call.path),
                msgspec.json.encode(call.query),
                msgspec.json.encode(call.body),
                call.caller.address,
                _narrowed(call.principal, operation),
            )
            answer = await self._forwarding.ask(request, wait_s(call), call.is_connected)
            match answer:
                case Unanswered.GONE | Unanswered.UNABLE:
                    raise without(call, owner, answer)
                case Unanswered():
                    raise _busy(owner)
            return _response(answer)

        served = self._operations[_name(operation)] = msgspec.structs.replace(operation, handle=handle)
        return served

    async def answer(self, request: ForwardedRequest, is_connected: Callable[[], bool]) -> ForwardedAnswer:
        """As if it had come here, when it is its turn; its sender has judged its caller."""
        await self._turns.come()
        self._turns.spend(LETTERS_S)
        try:
            operation = self._operations[request.operation]
            body = None if operation.body is None else msgspec.json.decode(request.body, type=operation.body)
            query = query_of(operation.query, msgspec.json.decode(request.query))
            caller = Caller(request.address, "")
            call = Call(
                request.path,
                body,
                query,
                request.request_id,
                is_connected,
                caller=caller,
                is_forwarded=True,
                principal=request.principal or ANONYMOUS,
            )
            return ForwardedAnswer(request.request_id, 200, msgspec.json.encode(await operation.handle(call)))
        except Problem as problem:
            return _told(request, problem)
        except RedisAway:
            away = "Redis is unavailable; try again shortly"
            return _told(request, Problem(503, ErrorCode.SCHEDULER_DEPENDENCY_DOWN, away))
        except Exception as error:
            # What the request held is not logged: it may be speech.
            _log.error("request.failed", operation=request.operation, exc_info=error)
            return _told(request, Problem(500, ErrorCode.INTERNAL_ERROR, "internal error; see the log"))


def _narrowed(principal: Principal, operation: Operation) -> Principal:
    """With the scopes that the operation needs: an instance of an older release cannot read a letter with others."""
    return msgspec.structs.replace(principal, scopes=principal.scopes.intersection(operation.needs))


def _name(operation: Operation) -> str:
    return f"{operation.method} {operation.path}"


def _told(request: ForwardedRequest, problem: Problem) -> ForwardedAnswer:
    body = msgspec.json.encode({"error": problem.code, "detail": problem.detail})
    return ForwardedAnswer(request.request_id, problem.status, body, problem.retry_after_s or 0)


def _response(answer: ForwardedAnswer) -> web.Response:
    if answer.status == 200:
        return web.Response(body=answer.body, content_type="application/json")
    said = _PROBLEM.decode(answer.body)
    raise Problem(answer.status, said["error"], said["detail"], retry_after_s=answer.retry_after_s or None)


def _busy(owner: str) -> Problem:
    detail = f"instance {owner} has this, and did not answer in time; try again shortly"
    return Problem(503, HttpCode.SERVICE_UNAVAILABLE, detail, retry_after_s=RETRY_AFTER_S)
