"""What a caller may do: scopes, and the roles of operators as sets of scopes."""

from enum import StrEnum


class Scope(StrEnum):
    OPEN = "open"  # needs no credential: pages without data, health, documentation
    SESSION_OPEN = "session:open"
    DISPATCH_CALL = "dispatch:call"
    ROOM_CREATE = "room:create"
    ROOM_JOIN = "room:join"
    TOKENS_MINT = "tokens:mint"
    NODE_REGISTER = "node:register"
    NODE_ENROL = "node:enrol"
    FLEET_READ = "fleet:read"
    FLEET_OPERATE = "fleet:operate"
    KEYS_READ = "keys:read"
    KEYS_WRITE = "keys:write"
    AUDIT_READ = "audit:read"
    METRICS_READ = "metrics:read"
    # What belongs to no tenant: instances, Redis, dead letters.
    CLUSTER_READ = "cluster:read"
    CLUSTER_OPERATE = "cluster:operate"


class Role(StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"
    AUDITOR = "auditor"


# What an app gives its users: sessions, jobs, rooms.
OF_USERS = frozenset({Scope.SESSION_OPEN, Scope.DISPATCH_CALL, Scope.ROOM_CREATE, Scope.ROOM_JOIN})

# What an operation needs: any one of these.
Needs = tuple[Scope, ...]

OPEN: Needs = (Scope.OPEN,)
# Which languages are served: operators, and callers who want to offer a choice.
LANGUAGES: Needs = (Scope.FLEET_READ, Scope.SESSION_OPEN, Scope.DISPATCH_CALL)

EVERYTHING = frozenset(Scope) - {Scope.OPEN}
# Any valid credential, whatever it is for.
ANYTHING: Needs = tuple(scope for scope in Scope if scope is not Scope.OPEN)

_VIEWER = frozenset({Scope.FLEET_READ, Scope.METRICS_READ, Scope.CLUSTER_READ})
_OPERATOR = _VIEWER | {Scope.FLEET_OPERATE, Scope.CLUSTER_OPERATE}
# An operator of one tenant has none of these: they would show, or change, what is not its tenant's.
OF_ALL_TENANTS = frozenset({Scope.METRICS_READ, Scope.CLUSTER_READ, Scope.CLUSTER_OPERATE})
# Of all tenants.
ROLES: dict[Role, frozenset[Scope]] = {
    Role.VIEWER: _VIEWER,
    Role.OPERATOR: _OPERATOR,
    Role.ADMIN: _OPERATOR | {Scope.KEYS_READ, Scope.KEYS_WRITE, Scope.TOKENS_MINT, Scope.AUDIT_READ},
    Role.AUDITOR: frozenset({Scope.FLEET_READ, Scope.CLUSTER_READ, Scope.AUDIT_READ}),
}


def scopes_of(role: Role, *, is_for_all: bool) -> frozenset[Scope]:
    """What an operator may do: one of all tenants, or of one tenant alone."""
    return ROLES[role] if is_for_all else ROLES[role] - OF_ALL_TENANTS


def role_of(scopes: frozenset[Scope], *, is_for_all: bool) -> Role | None:
    return next((role for role in Role if scopes_of(role, is_for_all=is_for_all) == scopes), None)
