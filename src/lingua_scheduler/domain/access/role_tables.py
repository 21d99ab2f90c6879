"""Which group of people has which role: a table that operators write."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from lingua_scheduler.domain.access.credentials import ALL_TENANTS, is_tenant
from lingua_scheduler.domain.access.scopes import Role


class RoleGrant(NamedTuple):
    role: Role
    tenant: str


def read_grant(text: str) -> RoleGrant | None:
    """`role@tenant`, with the tenant `*` for all; None if it is anything else."""
    role, at, tenant = text.partition("@")
    if not at or role not in set(Role) or not (tenant == ALL_TENANTS or is_tenant(tenant)):
        return None
    return RoleGrant(Role(role), tenant)


class RoleTable:
    """Rows that cannot be read give no role."""

    def __init__(self, rows: Mapping[str, str]) -> None:
        self._grants = {group: grant for group, text in rows.items() if (grant := read_grant(text)) is not None}

    def first(self, groups: Collection[str]) -> str | None:
        """Of several groups the one whose row stands first: a person has one role in one place."""
        own = frozenset(groups)
        return next((group for group in self._grants if group in own), None)

    def grant(self, group: str) -> RoleGrant | None:
        return self._grants.get(group)
