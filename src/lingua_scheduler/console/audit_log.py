"""HTTP: read the audit log."""

from collections.abc import Callable
from functools import partial

from lingua_scheduler.console.lists import Lists
from lingua_scheduler.console.operations import Call, KnownProblem, Operation
from lingua_scheduler.domain.access.audit import AuditEntry
from lingua_scheduler.domain.access.audit_filters import AuditFilter, tenant_of_reader
from lingua_scheduler.domain.access.scopes import Scope
from lingua_scheduler.protocol.http_audit import AuditActorView, AuditEntryView, AuditList, AuditQuery
from lingua_scheduler.services.access.audit_reading import AuditReader
from lingua_sdk.domain.errors import ErrorCode, HttpCode


class AuditOperations:
    def __init__(self, reader: AuditReader, now_ms: Callable[[], int]) -> None:
        self._reader = reader
        self._now_ms = now_ms
        self._lists = Lists()

    @property
    def operations(self) -> tuple[Operation, ...]:
        return (
            Operation(
                method="GET",
                path="/v1/audit",
                needs=(Scope.AUDIT_READ,),
                tag="access",
                summary="List the entries of the audit log, newest first; optionally filtered",
                description="Of one tenant: what its own callers did. Whether entries were changed or removed, "
                "`lingua audit verify` tells.",
                handle=self._list,
                query=AuditQuery,
                answer=AuditList,
                problems=(
                    KnownProblem(503, HttpCode.SERVICE_UNAVAILABLE.value, "Too many lists are requested at once"),
                    KnownProblem(503, ErrorCode.SCHEDULER_DEPENDENCY_DOWN.value, "Redis is unavailable"),
                ),
            ),
        )

    async def _list(self, call: Call[None, AuditQuery]) -> AuditList:
        query = call.query
        wanted = AuditFilter(
            action=query.action,
            actor=query.actor,
            object=query.object,
            tenant=tenant_of_reader(call.principal),
            since_ms=self._now_ms() - query.since_s * 1000 if query.since_s else 0,
        )
        read = partial(self._reader.page, wanted, query.limit, query.before)
        page = await self._lists.make(read, call.is_connected)
        return AuditList(entries=[_seen(entry) for entry in page.entries], next_before=page.next_before)


def _seen(entry: AuditEntry) -> AuditEntryView:
    actor = entry.actor
    return AuditEntryView(
        seq=entry.seq,
        at_ms=entry.at_ms,
        actor=AuditActorView(kind=actor.kind, key_id=actor.key_id, tenant=actor.tenant, address=actor.address),
        action=entry.action,
        object=entry.object,
        outcome=entry.outcome.value,
        request_id=entry.request_id,
        values=entry.values,
    )
