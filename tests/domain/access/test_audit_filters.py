"""Which entries of the audit log a reader asks for, and may see."""

import pytest

from lingua_scheduler.domain.access.audit import AuditActor, AuditEntry, AuditOutcome
from lingua_scheduler.domain.access.audit_filters import AuditFilter, tenant_of_reader
from lingua_scheduler.domain.access.principals import LOCAL, Principal, PrincipalKind

ENTRY = AuditEntry(
    seq=1,
    at_ms=5_000,
    writer="i-1",
    actor=AuditActor(kind="operator", key_id="abcdefghijkl", tenant="acme", address="10.0.0.7"),
    action="keys.create",
    object="k3jPq0aZ81Ty",
    outcome=AuditOutcome.REQUESTED,
    request_id="",
    values={},
    key="",
    prev="",
)


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        (AuditFilter(), True),
        (AuditFilter(action="keys"), True),
        (AuditFilter(action="keys.create"), True),
        (AuditFilter(action="key"), False),
        (AuditFilter(actor="10.0.0"), True),
        (AuditFilter(actor="abcdef"), True),
        (AuditFilter(actor="10.0.1"), False),
        (AuditFilter(object="k3j"), True),
        (AuditFilter(object="gpu"), False),
        (AuditFilter(tenant="acme"), True),
        (AuditFilter(tenant="beta"), False),
        (AuditFilter(since_ms=5_000), True),
        (AuditFilter(since_ms=5_001), False),
        (AuditFilter(action="keys", actor="10.0.0.7", tenant="beta"), False),
    ],
)
def test_an_entry_must_fit_everything_that_is_asked_for(wanted: AuditFilter, fits: bool) -> None:
    assert wanted.fits(ENTRY) is fits


def test_a_reader_of_one_tenant_sees_what_its_callers_did() -> None:
    def reader(tenant: str) -> Principal:
        return Principal(kind=PrincipalKind.OPERATOR, scopes=frozenset(), tenant=tenant)

    assert tenant_of_reader(reader("acme")) == "acme"
    assert tenant_of_reader(reader("*")) == ""
    assert tenant_of_reader(LOCAL) == ""
