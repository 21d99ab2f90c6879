"""An operator's change is in the audit log before it happens, or it does not happen."""

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from aiohttp import web

from lingua_scheduler.console.auditing import AUDITED, action_of, audited, is_audited, told
from lingua_scheduler.console.operations import Call, Operation, Problem
from lingua_scheduler.domain.access.audit import AuditEntry, AuditOutcome, read_entry
from lingua_scheduler.domain.access.principals import Principal, PrincipalKind
from lingua_scheduler.domain.access.scopes import OF_USERS, OPEN, Needs, Role, Scope
from lingua_scheduler.domain.guards.addresses import Caller
from lingua_scheduler.services.access.auditing import Auditor
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from tests.support.audits import KEYS
from tests.support.principals import service, user
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess

OPERATOR = Principal(kind=PrincipalKind.OPERATOR, scopes=frozenset(AUDITED), key_id="abcdefghijkl")
SECRET = "what is said here stays here"


class Choice(msgspec.Struct, kw_only=True):
    kind: str = ""
    role: Role | None = None
    max_slots: int = 0
    networks: tuple[str, ...] = ()
    secret: str = ""
    note: str = ""
    is_once: bool = False


class Deed:
    """An operation that counts how often it was done, and fails if it is told so."""

    def __init__(self) -> None:
        self.calls: list[Call[Any, Any]] = []
        self.error: Exception | None = None
        self.answer: Any = None

    async def __call__(self, call: Call[Any, Any]) -> Any:
        self.calls.append(call)
        if self.error is not None:
            raise self.error
        return self.answer


def operation(
    deed: Deed, method: str = "POST", path: str = "/v1/nodes/{node_id}/drain", needs: Needs | None = None
) -> Operation:
    wanted = (Scope.FLEET_OPERATE,) if needs is None else needs
    return Operation(method=method, path=path, needs=wanted, tag="t", summary="s", handle=deed, answer=Choice)


def call(body: Any = None, *, is_forwarded: bool = False, principal: Principal = OPERATOR) -> Call[Any, Any]:
    caller = Caller("10.0.0.1", "10.0.0.1")
    return Call({"node_id": "n1"}, body, None, "r-1", caller=caller, is_forwarded=is_forwarded, principal=principal)


async def entries_of(store: Store) -> list[AuditEntry]:
    texts, _ = await store.audit.page()
    return [entry for entry in map(read_entry, texts) if entry is not None][1:]


@pytest.fixture
def deed() -> Deed:
    return Deed()


@pytest.fixture
def wrapped(store: Store, deed: Deed) -> Operation:
    (found,) = audited([operation(deed)], Auditor(store.audit, KEYS, "i-1"))
    return found


async def test_a_change_is_noted_before_it_is_made(store: Store, deed: Deed, wrapped: Operation) -> None:
    deed.answer = "done"
    assert await wrapped.handle(call()) == "done"
    (entry,) = await entries_of(store)
    assert (entry.action, entry.object, entry.outcome) == ("nodes.drain", "n1", AuditOutcome.REQUESTED)
    assert (str(entry.actor), entry.request_id) == ("operator:abcdefghijkl@10.0.0.1", "r-1")


async def test_a_change_that_fails_has_a_second_entry_with_the_code(
    store: Store, deed: Deed, wrapped: Operation
) -> None:
    deed.error = Problem(404, "UNKNOWN_NODE", SECRET)
    with pytest.raises(Problem):
        await wrapped.handle(call())
    _, failed = await entries_of(store)
    assert (failed.outcome, failed.values) == (AuditOutcome.FAILED, {"status": 404, "code": "UNKNOWN_NODE"})
    deed.error = ValueError(SECRET)
    with pytest.raises(ValueError, match=SECRET):
        await wrapped.handle(call())
    assert (await entries_of(store))[-1].values == {"status": 500, "code": "ValueError"}
    deed.error, deed.answer = None, web.Response(status=409)
    await wrapped.handle(call())
    assert (await entries_of(store))[-1].values == {"status": 409}


async def test_a_change_that_cannot_be_noted_is_refused_and_does_not_happen(deed: Deed) -> None:
    class Away:
        async def note(self, *_: object) -> None:
            raise RedisAway("gone")

    (found,) = audited([operation(deed)], Away())  # type: ignore[arg-type]
    with pytest.raises(Problem, match="nothing was changed") as raised:
        await found.handle(call())
    assert raised.value.status == 503
    assert deed.calls == []


async def test_a_request_that_another_instance_took_is_not_noted_twice(
    store: Store, deed: Deed, wrapped: Operation
) -> None:
    await wrapped.handle(call(is_forwarded=True))
    assert len(deed.calls) == 1
    assert await entries_of(store) == []


@pytest.mark.parametrize(
    ("method", "needs", "expected"),
    [
        ("POST", (Scope.FLEET_OPERATE,), True),
        ("DELETE", (Scope.KEYS_WRITE,), True),
        ("POST", (Scope.FLEET_READ, Scope.KEYS_WRITE), True),
        ("POST", (Scope.CLUSTER_OPERATE,), True),
        ("POST", (Scope.TOKENS_MINT,), True),
        ("GET", (Scope.FLEET_OPERATE,), False),
        ("POST", (Scope.DISPATCH_CALL,), False),
        ("POST", OPEN, False),
    ],
)
def test_changes_of_operators_are_noted_and_nothing_else(
    deed: Deed, method: str, needs: Needs, expected: bool, store: Store
) -> None:
    one = operation(deed, method, needs=needs)
    assert is_audited(one) is expected
    (found,) = audited([one], Auditor(store.audit, KEYS, "i-1"))
    assert (found.handle is not deed) is expected


@pytest.mark.parametrize(
    ("method", "path", "action"),
    [
        ("POST", "/v1/nodes/{node_id}/drain", "nodes.drain"),
        ("POST", "/v1/dead-letters/purge", "dead-letters.purge"),
        ("POST", "/v1/alarms", "alarms.create"),
        ("DELETE", "/v1/keys/{key_id}", "keys.delete"),
        ("PUT", "/other", "other.set"),
    ],
)
def test_an_action_is_named_after_the_path(deed: Deed, method: str, path: str, action: str) -> None:
    assert action_of(operation(deed, method, path)) == action


def test_numbers_choices_and_named_texts_are_told_and_other_texts_are_not() -> None:
    body = Choice(kind="node", role=Role.ADMIN, max_slots=4, networks=("10.0.0.0/8", "::1"), secret=SECRET, note=SECRET)
    assert told(call(body)) == {
        "kind": "node",
        "role": "admin",
        "max_slots": 4,
        "networks": "10.0.0.0/8 ::1",
        "is_once": False,
    }


@pytest.mark.parametrize("caller", [user("ann"), service("k")])
async def test_callers_who_are_no_operators_cannot_fill_the_log(
    store: Store, deed: Deed, wrapped: Operation, caller: Principal
) -> None:
    """Some operations are for both: everyone may cancel their own jobs. The oldest entries make room for new ones."""
    deed.error = Problem(404, "NOT_FOUND", "")
    with pytest.raises(Problem):
        await wrapped.handle(call(principal=caller))
    assert len(deed.calls) == 1
    assert await entries_of(store) == []


async def test_all_that_roles_may_change_is_noted(server: RedisProcess) -> None:
    """Whatever is open to a role and to no app changes something, or makes a credential."""
    of_apps = OF_USERS | {Scope.NODE_REGISTER, Scope.NODE_ENROL, Scope.OPEN}
    async with scheduler_on(server.url) as (scheduler, _):
        changes = [one for one in scheduler.operations if one.method != "GET" and not of_apps.issuperset(one.needs)]
    # It makes a code for the key that asks, which is of no use to another.
    assert {one.path for one in changes if not is_audited(one)} == {"/v1/login/codes"}


async def test_every_operators_change_of_a_scheduler_is_noted(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, store):
        changes = [one for one in scheduler.operations if is_audited(one)]
        assert len(changes) >= 8
        for change in changes:
            before = len(await entries_of(store))
            path = dict.fromkeys(change.names, "nothing")
            body = None if change.body is None else msgspec.convert(_least(change), type=change.body)
            with suppress(Problem):
                await change.handle(Call(path, body, None, "r-1", principal=OPERATOR))
            noted = (await entries_of(store))[before:]
            assert [entry.outcome for entry in noted][:1] == [AuditOutcome.REQUESTED], change.path
            assert noted[0].action == action_of(change)


def _least(change: Operation) -> dict[str, str]:
    """The smallest body that it takes."""
    return {
        "/v1/alarms": {"alarm": "redis.full", "action": "reset"},
        "/v1/keys": {"kind": "metrics"},
        "/v1/tokens": {"subject": "ann"},
        "/v1/issuers": {"id": "app", "issuer": "https://app.example", "public_key": "PEM"},
    }.get(change.path, {})
