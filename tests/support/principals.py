"""Callers with a credential, as the door makes them of one."""

from typing import Any

from lingua_scheduler.domain.access.principals import Principal, PrincipalKind
from lingua_scheduler.domain.access.scopes import ROLES, Role, Scope


def user(subject: str, tenant: str = "acme", **more: Any) -> Principal:
    """Of an app, with a token that its backend signed."""
    scopes = frozenset({Scope.SESSION_OPEN, Scope.DISPATCH_CALL})
    said: dict[str, Any] = {"key_id": f"key-of-{tenant}"} | more
    return Principal(kind=PrincipalKind.CLIENT, scopes=scopes, tenant=tenant, subject=subject, **said)


def service(key_id: str, tenant: str = "acme", **more: Any) -> Principal:
    scopes = frozenset({Scope.SESSION_OPEN, Scope.DISPATCH_CALL, Scope.TOKENS_MINT})
    return Principal(kind=PrincipalKind.SERVICE, scopes=scopes, tenant=tenant, key_id=key_id, **more)


def node_key(key_id: str, **more: Any) -> Principal:
    return Principal(kind=PrincipalKind.NODE, scopes=frozenset({Scope.NODE_REGISTER}), key_id=key_id, **more)


def operator(role: Role, tenant: str = "*", key_id: str = "operator") -> Principal:
    return Principal(kind=PrincipalKind.OPERATOR, scopes=ROLES[role], tenant=tenant, key_id=key_id)
