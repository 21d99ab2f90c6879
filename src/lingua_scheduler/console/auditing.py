"""Operators' changes in the audit log: one whose entry cannot be written does not happen."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from enum import Enum
from typing import Any

import msgspec
from aiohttp import web

from lingua_scheduler.console.operations import Call, Operation, Problem
from lingua_scheduler.domain.access.audit import AuditOutcome, Value
from lingua_scheduler.domain.access.principals import PrincipalKind
from lingua_scheduler.domain.access.scopes import Scope
from lingua_scheduler.services.access.auditing import Auditor
from lingua_scheduler.store.connection import RedisAway
from lingua_sdk.domain.errors import ErrorCode

AnyCall = Call[Any, Any]

AUDITED = frozenset({Scope.FLEET_OPERATE, Scope.CLUSTER_OPERATE, Scope.KEYS_WRITE, Scope.TOKENS_MINT})
# Apps and their users may do some of it to what is their own. They are many: their entries would push others out.
_NOTED = (PrincipalKind.OPERATOR, PrincipalKind.LOCAL)
_READS = ("GET", "HEAD")
_VERBS = {"POST": "create", "PUT": "set", "PATCH": "change", "DELETE": "delete"}
# Texts of a body that an entry tells. All others are left out: they may be secret, or what a person wrote.
_NAMES = ("act_for", "action", "alarm", "issuer", "jwks_url", "kind", "labels", "letter_ids", "name", "networks")
_TOLD = frozenset((*_NAMES, "node_id", "origins", "pairs", "role", "scopes", "successor", "tenant", "tenant_id"))
_BAD_STATUS = 400


def is_audited(operation: Operation) -> bool:
    return operation.method not in _READS and not AUDITED.isdisjoint(operation.needs)


def audited(operations: Iterable[Operation], auditor: Auditor) -> Iterator[Operation]:
    """The same operations; those that change something write an entry before they do, and one more if they fail."""
    for operation in operations:
        yield _audited(operation, auditor) if is_audited(operation) else operation


def _audited(operation: Operation, auditor: Auditor) -> Operation:
    action = action_of(operation)

    async def note(call: AnyCall, outcome: AuditOutcome, **more: Value) -> None:
        thing = "/".join(call.path.values())
        values = {**told(call), **more}
        await auditor.note(call.principal, call.caller.address, action, thing, outcome, values, call.request_id)

    async def handle(call: AnyCall) -> Any:
        # What is forwarded was noted by the instance that took it.
        if call.is_forwarded or call.principal.kind not in _NOTED:
            return await operation.handle(call)
        try:
            await note(call, AuditOutcome.REQUESTED)
        except RedisAway:
            detail = "the audit log cannot be written, so nothing was changed; try again shortly"
            raise Problem(503, ErrorCode.SCHEDULER_DEPENDENCY_DOWN, detail) from None
        try:
            answer = await operation.handle(call)
        except Exception as error:
            with suppress(RedisAway):
                await note(call, AuditOutcome.FAILED, **_fault(error))
            raise
        if isinstance(answer, web.Response) and answer.status >= _BAD_STATUS:
            with suppress(RedisAway):
                await note(call, AuditOutcome.FAILED, status=answer.status)
        return answer

    return msgspec.structs.replace(operation, handle=handle)


def action_of(operation: Operation) -> str:
    """`noun.verb`: nodes.drain for `POST /v1/nodes/{node_id}/drain`, keys.delete for `DELETE /v1/keys/{key_id}`."""
    words = [word for word in operation.path.split("/") if word and not word.startswith("{")]
    noun, *rest = words[1:] if words[0] == "v1" else words
    verb = rest[-1] if rest else _VERBS.get(operation.method, operation.method.lower())
    return f"{noun}.{verb}"


def told(call: AnyCall) -> dict[str, Value]:
    """What an entry says of a call: numbers, choices, and texts by name."""
    found: dict[str, Value] = {}
    for part in (call.query, call.body):
        if not isinstance(part, msgspec.Struct):
            continue
        for field in msgspec.structs.fields(part):
            value = _shown(getattr(part, field.name), is_told=field.encode_name in _TOLD)
            if value is not None:
                found[field.encode_name] = value
    return found


def _shown(value: Any, *, is_told: bool) -> Value | None:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, bool | int):
        return value
    if isinstance(value, str) and is_told:
        return value or None
    if isinstance(value, dict) and is_told:
        return " ".join(f"{name}={text}" for name, text in value.items()) or None
    if isinstance(value, list | tuple | frozenset | set) and is_told:
        return " ".join(str(one.value if isinstance(one, Enum) else one) for one in value) or None
    return None


def _fault(error: Exception) -> dict[str, Value]:
    """Its code, never its words: these may quote what was sent."""
    if isinstance(error, Problem):
        return {"status": error.status, "code": str(error.code)}
    return {"status": 500, "code": type(error).__name__}
