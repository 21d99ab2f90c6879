"""What a caller may do: scopes, and the roles of operators as sets of scopes."""

from enum import StrEnum


class Scope(StrEnum):
    OPEN = "open"  # needs no credential: pages without data, health, documentation
    SESSION_OPEN = "session:open"
    DISPATCH_CALL = "dispatch:call"
    TOKENS_MINT = "tokens:mint"
    NODE_REGISTER = "node:register"
    NODE_ENROL = "node:enrol"
    FLEET_READ = "fleet:read"
    FLEET_OPERATE = "fleet:operate"
    KEYS_READ = "keys:read"
    KEYS_WRITE = "keys:write"
    AUDIT_READ = "audit:read"
    METRICS_READ = "metrics:read"


class Role(StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"
    AUDITOR = "auditor"


# What an operation needs: any one of these.
Needs = tuple[Scope, ...]

OPEN: Needs = (Scope.OPEN,)
# Which languages are served: operators, and callers who want to offer a choice.
LANGUAGES: Needs = (Scope.FLEET_READ, Scope.SESSION_OPEN, Scope.DISPATCH_CALL)

EVERYTHING = frozenset(Scope) - {Scope.OPEN}
# Any valid credential, whatever it is for.
ANYTHING: Needs = tuple(scope for scope in Scope if scope is not Scope.OPEN)

_VIEWER = frozenset({Scope.FLEET_READ, Scope.METRICS_READ})
_OPERATOR = _VIEWER | {Scope.FLEET_OPERATE}
ROLES: dict[Role, frozenset[Scope]] = {
    Role.VIEWER: _VIEWER,
    Role.OPERATOR: _OPERATOR,
    Role.ADMIN: _OPERATOR | {Scope.KEYS_READ, Scope.KEYS_WRITE, Scope.TOKENS_MINT, Scope.AUDIT_READ},
    Role.AUDITOR: frozenset({Scope.FLEET_READ, Scope.AUDIT_READ}),
}
