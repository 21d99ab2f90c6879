"""HTTP about who the caller is."""

from collections.abc import Iterable

from lingua_scheduler.console.operations import Call, Operation
from lingua_scheduler.domain.access.principals import Principal, PrincipalKind
from lingua_scheduler.domain.access.scopes import ANYTHING, role_of
from lingua_scheduler.protocol.http_access import WhoAmI


def access_operations(auth_mode: str) -> Iterable[Operation]:
    async def who_am_i(call: Call[None, None]) -> WhoAmI:
        return seen(call.principal, auth_mode)

    return (
        Operation(
            method="GET",
            path="/v1/whoami",
            needs=ANYTHING,
            tag="access",
            summary="Tell the caller who it is by its credential, and what it may do",
            handle=who_am_i,
            answer=WhoAmI,
            # A page asks why its WebSocket was refused, which a browser does not tell it.
            is_for_apps=True,
        ),
    )


def seen(principal: Principal, auth_mode: str) -> WhoAmI:
    is_operator = principal.kind is PrincipalKind.OPERATOR
    role = role_of(principal.scopes, is_for_all=principal.limited_to is None) if is_operator else None
    return WhoAmI(
        kind=principal.kind.value,
        tenant=principal.tenant,
        key_id=principal.key_id,
        subject=principal.subject,
        role=role,
        scopes=sorted(principal.scopes),
        expires_ms=principal.expires_ms,
        is_login=bool(principal.login_id),
        auth_mode=auth_mode,
        room_code=principal.room_code,
        is_listener=principal.is_listener,
    )
