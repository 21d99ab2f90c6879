import pytest

from lingua_scheduler.domain.access.role_tables import RoleGrant, RoleTable, read_grant
from lingua_scheduler.domain.access.scopes import Role


def test_a_row_gives_a_role_for_one_tenant_or_for_all() -> None:
    assert read_grant("operator@acme") == RoleGrant(Role.OPERATOR, "acme")
    assert read_grant("admin@*") == RoleGrant(Role.ADMIN, "*")


@pytest.mark.parametrize(
    "text", ["", "admin", "admin@", "@acme", "root@acme", "Admin@acme", "admin@Acme", "admin@a b", "admin@a@b", "a@**"]
)
def test_anything_else_gives_none(text: str) -> None:
    assert read_grant(text) is None
    assert RoleTable({"group": text}).first(["group"]) is None


def test_the_first_row_counts_whatever_the_order_of_the_groups() -> None:
    table = RoleTable({"admins": "admin@*", "viewers": "viewer@*"})
    assert table.first(["viewers", "x", "admins"]) == "admins"
    assert table.first(["viewers"]) == "viewers"
    assert table.first(["x"]) is None
    assert table.first([]) is None
    assert table.grant("viewers") == RoleGrant(Role.VIEWER, "*")
    assert table.grant("x") is None
