"""Which jobs a caller may know of."""

from lingua_scheduler.domain.access.principals import LOCAL
from lingua_scheduler.domain.access.scopes import Role, Scope
from lingua_scheduler.domain.access.visibility import EVERY_JOB, Visibility, tenant_of_job, visible_to
from tests.support.principals import operator, service, user


def test_operators_see_the_jobs_of_their_tenant_or_of_all() -> None:
    assert visible_to(operator(Role.VIEWER, "acme"), Scope.FLEET_READ) == Visibility(tenant="acme")
    assert visible_to(operator(Role.VIEWER), Scope.FLEET_READ) == EVERY_JOB
    assert visible_to(LOCAL, Scope.FLEET_READ) == EVERY_JOB


def test_callers_see_their_own() -> None:
    for caller in (user("ada"), service("k-1")):
        assert visible_to(caller, Scope.FLEET_READ) == Visibility(belongs_to=caller.owner_digest)
    # A viewer may not cancel: with that scope it would be its own jobs, of which it has none.
    viewer = operator(Role.VIEWER, "acme")
    assert visible_to(viewer, Scope.FLEET_OPERATE) == Visibility(belongs_to=viewer.owner_digest)


def test_what_is_shown() -> None:
    assert EVERY_JOB.shows("", "")
    assert EVERY_JOB.shows("d", "acme")
    assert Visibility(tenant="acme").shows("d", "acme")
    assert not Visibility(tenant="acme").shows("d", "beta")
    assert not Visibility(tenant="acme").shows("d", "")
    assert Visibility(belongs_to="d").shows("d", "")
    assert not Visibility(belongs_to="d").shows("", "acme")
    assert not Visibility(belongs_to="").shows("d", "acme")


def test_a_tenant_that_is_only_named_proves_nothing() -> None:
    assert tenant_of_job("", "acme") == tenant_of_job("", "") == "default"
    assert (tenant_of_job("d", "acme"), tenant_of_job("d", "")) == ("acme", "")
