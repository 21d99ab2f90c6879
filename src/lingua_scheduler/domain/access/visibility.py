"""What of the jobs a caller may know of: all, those of its tenant, or its own."""

from typing import NamedTuple

from lingua_scheduler.domain.access.credentials import DEFAULT_TENANT
from lingua_scheduler.domain.access.principals import Principal
from lingua_scheduler.domain.access.scopes import Scope


class Visibility(NamedTuple):
    """None: not limited by it."""

    # Digest of the principal whose jobs they are.
    belongs_to: str | None = None
    tenant: str | None = None

    def shows(self, belongs_to: str, tenant: str) -> bool:
        return self.belongs_to in (None, belongs_to) and self.tenant in (None, tenant)


EVERY_JOB = Visibility()


def visible_to(principal: Principal, to_see_others: Scope) -> Visibility:
    """With this scope those of its tenant, or of all; without it its own."""
    if principal.may((to_see_others,)):
        return Visibility(tenant=principal.limited_to)
    return Visibility(belongs_to=principal.owner_digest)


def tenant_of_job(belongs_to: str, noted: str) -> str:
    """The tenant whose job it is; empty if that is not known: a release before noted none.

    What a caller without a credential names as its tenant proves nothing: its jobs are of the default one.
    """
    return noted if belongs_to else DEFAULT_TENANT
