"""Callers with a credential, as the door makes them of one."""

from typing import Any, cast

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.access.principals import LOCAL, Denied, Principal, PrincipalKind, unauthenticated
from lingua_scheduler.domain.access.scopes import Needs, Role, Scope, scopes_of
from lingua_scheduler.services.access.visits import Shown, Visit


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
    scopes = scopes_of(role, is_for_all=tenant == "*")
    return Principal(kind=PrincipalKind.OPERATOR, scopes=scopes, tenant=tenant, key_id=key_id)


class FakeDoorkeeper:
    """Knows callers by a name that they show instead of a key; whoever shows none needs none."""

    def __init__(self, known: dict[str, Principal]) -> None:
        self.known = known

    def admit(self, given: Shown | None, _visit: Visit, needs: Needs) -> Principal | Denied:
        principal = LOCAL if given is None else self.known.get(given.text)
        if principal is None:
            return unauthenticated("unknown")
        if not principal.may(needs):
            return Denied(403, "PERMISSION_DENIED", "the credential lacks the scope")
        return principal

    def has_forgotten(self, _given: Shown) -> bool:
        """None of them logs in."""
        return False

    def objection(self, _principal: Principal) -> Denied | None:
        """None of them is ever revoked."""
        return None


def let_in(scheduler: Scheduler, **known: Principal) -> None:
    """From now on these are the scheduler's callers, by the name in `?access_token=` or the header."""
    scheduler._door._doorkeeper = scheduler._revoking._doorkeeper = cast("Any", FakeDoorkeeper(known))


def bearer(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}"}
