"""Requests that another instance forwarded: answered as if they had come here, and never forwarded again."""

import asyncio
from typing import Any

import msgspec
import pytest

from lingua_scheduler.console.forwarded import LETTERS_S, Forwarder
from lingua_scheduler.console.operations import Call, Operation, Problem
from lingua_scheduler.domain.access.principals import LOCAL
from lingua_scheduler.domain.access.scopes import OPEN, Scope
from lingua_scheduler.protocol.bus import ForwardedAnswer, ForwardedRequest
from lingua_scheduler.services.cluster.forwarding import Unanswered
from lingua_scheduler.store.connection import RedisAway
from tests.support.waiting import until


class Said(msgspec.Struct):
    text: str


class Asked(msgspec.Struct):
    wait_ms: int = 0


class Wire:
    """What is forwarded goes straight to an answer of the test's."""

    def __init__(self, reply: ForwardedAnswer | Unanswered) -> None:
        self.answer: Any = None
        self.reply = reply
        self.sent: list[ForwardedRequest] = []

    async def ask(self, request: ForwardedRequest, wait_s: float, is_connected: Any) -> ForwardedAnswer | Unanswered:
        self.sent.append(request)
        return self.reply


class CountedTurns:
    """A budget that lets everyone wait until the test says so."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.came = 0
        self.spent_s = 0.0

    async def come(self) -> None:
        self.came += 1
        await self.go_on.wait()

    def spend(self, spent_s: float) -> None:
        self.spent_s += spent_s


def operation(error: Exception | None = None) -> Operation:
    async def handle(call: Call[Said, Asked]) -> Said:
        if error is not None:
            raise error
        return Said(f"{call.path['name']} {call.body.text} {call.query.wait_ms} {call.caller.address}")

    return Operation(
        method="POST",
        path="/x/{name}",
        needs=OPEN,
        tag="t",
        summary="s",
        handle=handle,
        answer=Said,
        body=Said,
        query=Asked,
    )


async def elsewhere(_: Any) -> str:
    return "i-b"


def without(_call: Any, owner: str, why: Unanswered) -> Problem:
    return Problem(410, why.name, owner)


REQUEST = ForwardedRequest("r", "i-a", "POST /x/{name}", {"name": "n"}, b'{"wait_ms":5}', b'{"text":"hi"}', "1.2.3.4")
CALL: Call[Any, Any] = Call({"name": "n"}, Said("hi"), Asked(5), "r")


def forwarder(wire: Wire, error: Exception | None = None, turns: CountedTurns | None = None) -> Forwarder:
    made: Forwarder = Forwarder(wire, turns or CountedTurns())  # type: ignore[arg-type]
    made.anywhere(operation(error), elsewhere, without)
    return made


async def test_a_forwarded_request_is_answered_here_and_not_sent_on() -> None:
    wire = Wire(Unanswered.GONE)
    forwarder(wire)
    answer = await wire.answer(REQUEST, lambda: True)
    assert (answer.status, msgspec.json.decode(answer.body)) == (200, {"text": "n hi 5 1.2.3.4"})
    assert not wire.sent


@pytest.mark.expects_surprise("request.failed")
@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (Problem(409, "STALE_ATTEMPT", "over", retry_after_s=3), 409, "STALE_ATTEMPT"),
        (RedisAway("gone"), 503, "SCHEDULER_DEPENDENCY_DOWN"),
        (ValueError("secret speech"), 500, "INTERNAL_ERROR"),
    ],
)
async def test_what_goes_wrong_there_is_told_here(error: Exception, status: int, code: str) -> None:
    wire = Wire(Unanswered.GONE)
    forwarder(wire, error)
    answer = await wire.answer(REQUEST, lambda: True)
    said = msgspec.json.decode(answer.body)
    assert (answer.status, said["error"]) == (status, code)
    assert "secret" not in said["detail"]
    (there,) = forwarder(Wire(answer))._operations.values()
    with pytest.raises(Problem) as told:
        await there.handle(CALL)
    assert (told.value.status, told.value.code, told.value.retry_after_s) == (
        status,
        code,
        3 if status == 409 else None,
    )


@pytest.mark.expects_surprise("request.failed")
async def test_a_request_that_is_no_operation_of_ours_is_a_failure_of_ours() -> None:
    wire = Wire(Unanswered.GONE)
    forwarder(wire)
    strange = msgspec.structs.replace(REQUEST, operation="POST /never")
    assert (await wire.answer(strange, lambda: True)).status == 500


async def test_a_request_goes_out_as_it_came_in() -> None:
    wire = Wire(ForwardedAnswer("r", 200, b'{"text":"there"}'))
    (there,) = forwarder(wire)._operations.values()
    response = await there.handle(CALL)
    assert response.body == b'{"text":"there"}'
    (sent,) = wire.sent
    assert (sent.owner, sent.operation, sent.path) == ("i-b", REQUEST.operation, REQUEST.path)
    assert (sent.query, sent.body) == (REQUEST.query, REQUEST.body)


@pytest.mark.parametrize(
    ("why", "status"),
    [(Unanswered.GONE, 410), (Unanswered.UNABLE, 410), (Unanswered.BUSY, 503), (Unanswered.LATE, 503)],
)
async def test_no_answer_is_a_clear_error(why: Unanswered, status: int) -> None:
    (there,) = forwarder(Wire(why))._operations.values()
    with pytest.raises(Problem) as told:
        await there.handle(CALL)
    assert told.value.status == status


async def test_both_instances_count_a_forwarded_request_as_their_own() -> None:
    asking, turns = CountedTurns(), CountedTurns()
    (there,) = forwarder(Wire(ForwardedAnswer("r", 200, b"{}")), turns=asking)._operations.values()
    await there.handle(CALL)
    # Its connection has waited for its turn already.
    assert (asking.came, asking.spent_s) == (0, LETTERS_S)
    wire = Wire(Unanswered.GONE)
    forwarder(wire, turns=turns)
    turns.go_on.clear()
    answering = asyncio.create_task(wire.answer(REQUEST, lambda: True))
    await until(lambda: turns.came)
    assert not answering.done()
    assert turns.spent_s == 0
    turns.go_on.set()
    assert (await answering).status == 200
    assert turns.spent_s == LETTERS_S


async def test_what_is_served_here_is_not_counted_twice() -> None:
    async def here(_: Any) -> str:
        return ""

    turns = CountedTurns()
    made: Forwarder = Forwarder(Wire(Unanswered.GONE), turns)  # type: ignore[arg-type]
    await made.anywhere(operation(), here, without).handle(CALL)
    assert (turns.came, turns.spent_s) == (0, 0)


async def test_a_letter_has_only_the_scopes_that_its_operation_needs() -> None:
    """An instance of an older release does not know all of them, and could not read it."""
    wire = Wire(ForwardedAnswer("r", 200, b"{}"))
    made: Forwarder = Forwarder(wire, CountedTurns())  # type: ignore[arg-type]
    needing = msgspec.structs.replace(operation(), needs=(Scope.NODE_REGISTER,))
    served = made.anywhere(needing, elsewhere, without)
    await served.handle(CALL._replace(principal=LOCAL))
    (sent,) = wire.sent
    assert sent.principal == msgspec.structs.replace(LOCAL, scopes=frozenset({Scope.NODE_REGISTER}))
