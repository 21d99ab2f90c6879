"""Roles as plain values: a change of what a role may do is seen here."""

from lingua_scheduler.domain.access.scopes import EVERYTHING, LANGUAGES, OPEN, ROLES, Role, Scope


def test_what_each_role_may_do() -> None:
    assert {role.value: sorted(scope.value for scope in scopes) for role, scopes in ROLES.items()} == {
        "viewer": ["fleet:read", "metrics:read"],
        "operator": ["fleet:operate", "fleet:read", "metrics:read"],
        "admin": [
            "audit:read",
            "fleet:operate",
            "fleet:read",
            "keys:read",
            "keys:write",
            "metrics:read",
            "tokens:mint",
        ],
        "auditor": ["audit:read", "fleet:read"],
    }
    assert set(ROLES) == set(Role)


def test_no_role_may_speak_for_a_caller_or_a_node() -> None:
    work = {Scope.SESSION_OPEN, Scope.DISPATCH_CALL, Scope.NODE_REGISTER, Scope.NODE_ENROL}
    assert [role for role, scopes in ROLES.items() if scopes & work] == []


def test_open_is_nothing_that_anybody_is_given() -> None:
    assert OPEN == (Scope.OPEN,)
    assert {Scope.OPEN} | EVERYTHING == set(Scope)
    assert Scope.OPEN not in EVERYTHING
    assert all(Scope.OPEN not in scopes for scopes in ROLES.values())


def test_who_may_know_which_languages_are_served() -> None:
    assert set(LANGUAGES) == {"fleet:read", "session:open", "dispatch:call"}
