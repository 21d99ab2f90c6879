"""Roles as plain values: a change of what a role may do is seen here."""

from lingua_scheduler.domain.access.scopes import (
    EVERYTHING,
    LANGUAGES,
    OF_ALL_TENANTS,
    OPEN,
    ROLES,
    Role,
    Scope,
    role_of,
    scopes_of,
)


def test_what_each_role_may_do() -> None:
    assert {role.value: sorted(scope.value for scope in scopes) for role, scopes in ROLES.items()} == {
        "viewer": ["cluster:read", "fleet:read", "metrics:read"],
        "operator": ["cluster:operate", "cluster:read", "fleet:operate", "fleet:read", "metrics:read"],
        "admin": [
            "audit:read",
            "cluster:operate",
            "cluster:read",
            "fleet:operate",
            "fleet:read",
            "keys:read",
            "keys:write",
            "metrics:read",
            "tokens:mint",
        ],
        "auditor": ["audit:read", "cluster:read", "fleet:read"],
    }
    assert set(ROLES) == set(Role)


def test_an_operator_of_one_tenant_sees_nothing_of_the_cluster() -> None:
    for role in Role:
        of_one, of_all = (scopes_of(role, is_for_all=is_for_all) for is_for_all in (False, True))
        assert of_all == ROLES[role]
        assert of_all - of_one == OF_ALL_TENANTS & of_all
        assert Scope.FLEET_READ in of_one
        assert [role_of(of_one, is_for_all=False), role_of(of_all, is_for_all=True)] == [role, role]
    assert role_of(frozenset(), is_for_all=True) is None


def test_no_role_may_speak_for_a_caller_or_a_node() -> None:
    work = {Scope.SESSION_OPEN, Scope.DISPATCH_CALL, Scope.ROOM_CREATE, Scope.ROOM_JOIN}
    work |= {Scope.NODE_REGISTER, Scope.NODE_ENROL}
    assert [role for role, scopes in ROLES.items() if scopes & work] == []


def test_open_is_nothing_that_anybody_is_given() -> None:
    assert OPEN == (Scope.OPEN,)
    assert {Scope.OPEN} | EVERYTHING == set(Scope)
    assert Scope.OPEN not in EVERYTHING
    assert all(Scope.OPEN not in scopes for scopes in ROLES.values())


def test_who_may_know_which_languages_are_served() -> None:
    assert set(LANGUAGES) == {"fleet:read", "session:open", "dispatch:call"}
