"""`GET /v1/whoami`: how the scheduler sees a caller."""

import pytest

from lingua_scheduler.console.access import seen
from lingua_scheduler.domain.access.principals import LOCAL, Principal, PrincipalKind
from lingua_scheduler.domain.access.scopes import ROLES, Role, Scope
from tests.support.peers import Field


@pytest.mark.parametrize("role", list(Role))
def test_an_operator_has_the_role_of_its_scopes(role: Role) -> None:
    found = seen(Principal(kind=PrincipalKind.OPERATOR, scopes=ROLES[role], tenant="*", key_id="k"), "auto")
    assert (found.role, found.tenant, found.key_id) == (role, "*", "k")
    assert found.scopes == sorted(ROLES[role])


def test_others_have_none() -> None:
    scopes = frozenset({Scope.SESSION_OPEN})
    found = seen(Principal(kind=PrincipalKind.CLIENT, scopes=scopes, subject="anna", expires_ms=5), "auto")
    assert (found.kind, found.role, found.subject, found.expires_ms) == ("client", None, "anna", 5)
    assert seen(LOCAL, "off").role is None


def test_a_token_for_one_room_says_which_and_whether_it_only_listens() -> None:
    scopes = frozenset({Scope.SESSION_OPEN, Scope.ROOM_JOIN})
    token = Principal(kind=PrincipalKind.CLIENT, scopes=scopes, room_code="483920", is_listener=True)
    found = seen(token, "required")
    assert (found.room_code, found.is_listener) == ("483920", True)
    assert (seen(LOCAL, "off").room_code, seen(LOCAL, "off").is_listener) == ("", False)


async def test_a_local_caller_needs_no_key(peers: Field) -> None:
    status, told = await peers.get("/v1/whoami")
    assert (status, told["kind"], told["key_id"]) == (200, "local", "")
