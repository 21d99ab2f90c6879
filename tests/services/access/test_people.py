from lingua_scheduler.domain.access.logins import fresh_login
from lingua_scheduler.domain.access.people import ForwardedUser, Person, ProvenIdentity
from lingua_scheduler.domain.access.principals import Denied, Principal
from lingua_scheduler.services.access.people import People
from lingua_scheduler.setting_sections.access import AuthSettings, OidcSettings

ISSUER = "https://id.example"
ROLES = {"ops": "operator@acme", "eyes": "viewer@*"}


def people(issuer: str = ISSUER, **roles: str) -> People:
    return People(AuthSettings(oidc=OidcSettings(issuer=issuer, roles=roles or ROLES), login_idle_ms=7))


def test_a_person_keeps_the_group_that_counts() -> None:
    found = people().person(ProvenIdentity("alice", ("staff", "eyes", "ops"), ""))
    assert found == Person(issuer=ISSUER, subject="oidc:alice", group="ops")
    assert people().person(ProvenIdentity("alice", ("staff",), "")) is None


def test_a_login_has_the_role_that_its_group_has_now() -> None:
    login = fresh_login(Person(issuer=ISSUER, subject="oidc:alice", group="ops"), 5, 9)
    found = people().by_login(login)
    assert found is not None
    assert (found.tenant, found.subject, found.login_id) == ("acme", "oidc:alice", login.id)
    assert (found.issued_ms, found.expires_ms) == (5, 9)
    changed = people(ops="viewer@beta").by_login(login)
    assert changed is not None
    assert changed.tenant == "beta"


def test_a_login_ends_with_its_row_and_with_its_provider() -> None:
    login = fresh_login(Person(issuer=ISSUER, subject="oidc:alice", group="ops"), 5, 9)
    assert people(eyes="viewer@*").by_login(login) is None
    assert people(issuer="https://another.example").by_login(login) is None
    assert people(issuer="").by_login(login) is None
    assert people().by_login(fresh_login("k" * 12, 5, 9)) is None


def test_whom_a_proxy_names_must_come_again_after_a_while() -> None:
    found = people().by_proxy(ForwardedUser("alice", ("ops",)), now_ms=100)
    assert isinstance(found, Principal)
    assert (found.subject, found.issued_ms, found.expires_ms, found.login_id) == ("proxy:alice", 100, 107, "")


def test_whom_a_proxy_names_without_a_group_of_the_table_is_denied() -> None:
    for groups in ((), ("staff",)):
        found = people().by_proxy(ForwardedUser("alice", groups), now_ms=100)
        assert isinstance(found, Denied)
        assert found.status == 403
