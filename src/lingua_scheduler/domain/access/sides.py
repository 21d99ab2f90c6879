"""What is served where, if operators have a listener of their own: apps and nodes use the public one, operators and
Prometheus the internal one."""

from enum import StrEnum, auto

from lingua_scheduler.domain.access.scopes import EVERYTHING, OPEN, Needs, Scope


class Side(StrEnum):
    WHOLE = auto()  # the only listener: it serves everything
    PUBLIC = auto()
    INTERNAL = auto()


# A backend mints tokens at either.
_OF_OPERATORS = frozenset(
    {
        Scope.FLEET_READ,
        Scope.FLEET_OPERATE,
        Scope.KEYS_READ,
        Scope.KEYS_WRITE,
        Scope.AUDIT_READ,
        Scope.METRICS_READ,
        Scope.TOKENS_MINT,
    }
)
_OF_APPS = (EVERYTHING - _OF_OPERATORS) | {Scope.TOKENS_MINT}
_METRICS = (Scope.METRICS_READ,)
# Routes that need no credential, and are of use to one side only.
_PAGES_OF_OPERATORS = ("/dashboard", "/v1/login", "/v1/logout")
_PAGES_OF_APPS = ("/talk", "/room")


def served(side: Side, path: str, needs: Needs) -> Needs:
    """What a caller of this side needs for a route; empty if the route is not served there."""
    if side is Side.WHOLE:
        return needs
    is_internal = side is Side.INTERNAL
    if needs == OPEN:
        others = _PAGES_OF_APPS if is_internal else _PAGES_OF_OPERATORS
        return () if path.startswith(others) else OPEN
    if is_internal and needs == _METRICS:
        # Figures have neither speech nor names of users, and the network is private.
        return OPEN
    own = _OF_OPERATORS if is_internal else _OF_APPS
    return tuple(scope for scope in needs if scope in own)
