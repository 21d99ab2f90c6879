"""Which entries of the audit log a reader asks for, and may see."""

import msgspec

from lingua_scheduler.domain.access.audit import AuditEntry
from lingua_scheduler.domain.access.credentials import ALL_TENANTS
from lingua_scheduler.domain.access.principals import Principal, PrincipalKind


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """An empty text means any."""

    # One action, such as nodes.drain, or all of a noun, such as keys.
    action: str = ""
    # A part of the actor: a key id, a kind or an address.
    actor: str = ""
    # A part of what it was done to.
    object: str = ""
    # Of the actor.
    tenant: str = ""
    since_ms: int = 0

    def fits(self, entry: AuditEntry) -> bool:
        return (
            (not self.action or entry.action == self.action or entry.action.startswith(f"{self.action}."))
            and self.actor in str(entry.actor)
            and self.object in entry.object
            and self.tenant in ("", entry.actor.tenant)
            and entry.at_ms >= self.since_ms
        )


def tenant_of_reader(reader: Principal) -> str:
    """Whose entries it may see; empty = all. What the scheduler does itself is of no tenant."""
    return "" if reader.kind is PrincipalKind.LOCAL or reader.tenant == ALL_TENANTS else reader.tenant
