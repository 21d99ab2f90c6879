"""HTTP about who the caller is."""

from collections.abc import Iterable

from lingua_scheduler.console.operations import Call, Operation
from lingua_scheduler.domain.access.principals import Principal, PrincipalKind
from lingua_scheduler.domain.access.scopes import ANYTHING, ROLES
from lingua_scheduler.protocol.http_access import WhoAmI


def access_operations() -> Iterable[Operation]:
    async def who_am_i(call: Call[None, None]) -> WhoAmI:
        return seen(call.principal)

    return (
        Operation(
            method="GET",
            path="/v1/whoami",
            needs=ANYTHING,
            tag="access",
            summary="Tell the caller who it is by its credential, and what it may do",
            handle=who_am_i,
            answer=WhoAmI,
        ),
    )


def seen(principal: Principal) -> WhoAmI:
    is_operator = principal.kind is PrincipalKind.OPERATOR
    role = next((role for role, scopes in ROLES.items() if scopes == principal.scopes), None) if is_operator else None
    return WhoAmI(
        kind=principal.kind.value,
        tenant=principal.tenant,
        key_id=principal.key_id,
        subject=principal.subject,
        role=role,
        scopes=sorted(principal.scopes),
        expires_ms=principal.expires_ms,
    )
