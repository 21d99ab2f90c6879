from lingua_scheduler.domain.access.people import MAX_GROUPS, OIDC, PROXY, groups_of, operator_of, subject_of
from lingua_scheduler.domain.access.role_tables import RoleGrant
from lingua_scheduler.domain.access.scopes import OF_ALL_TENANTS, ROLES, Role


def test_a_subject_says_how_the_person_is_known() -> None:
    assert subject_of(OIDC, "alice") == "oidc:alice"
    assert subject_of(PROXY, "alice") == "proxy:alice"


def test_a_subject_that_is_long_or_not_printable_is_a_digest() -> None:
    for name in ("x" * 200, "a\nb", "\ud800"):
        subject = subject_of(OIDC, name)
        assert subject.startswith("oidc:~")
        assert len(subject) <= 128
        assert subject.isprintable()
    assert subject_of(OIDC, "a\nb") != subject_of(OIDC, "a\nc")


def test_groups_are_a_list_of_strings_or_one() -> None:
    assert groups_of(["a", "b", 5, None, "", ["c"]]) == ("a", "b")
    assert groups_of("a") == ("a",)
    nothings: tuple[object, ...] = (None, 5, {}, {"a": 1}, [])
    for nothing in nothings:
        assert groups_of(nothing) == ()
    assert len(groups_of(["a"] * 10_000)) == MAX_GROUPS


def test_an_operator_without_a_key_has_the_scopes_of_the_role() -> None:
    person = operator_of("oidc:alice", RoleGrant(Role.AUDITOR, "*"), 5, 9)
    assert (person.scopes, person.tenant, person.key_id) == (ROLES[Role.AUDITOR], "*", "")
    assert person.is_person


def test_of_one_tenant_it_has_none_that_reach_further() -> None:
    person = operator_of("oidc:alice", RoleGrant(Role.ADMIN, "acme"), 5, 9)
    assert person.scopes == ROLES[Role.ADMIN] - OF_ALL_TENANTS
    assert person.limited_to == "acme"
