"""What may be asked of a key, and that its maker gives nothing away that it has not."""

from typing import Any

import msgspec
import pytest

from lingua_scheduler.domain.access.credentials import Credential
from lingua_scheduler.domain.access.issuers import Issuer
from lingua_scheduler.domain.access.key_wishes import KIND_NAMES, KINDS, IssuerWish, KeyWish, excess, may_see
from lingua_scheduler.domain.access.principals import LOCAL, Principal, PrincipalKind
from lingua_scheduler.domain.access.scopes import Role, Scope, scopes_of
from lingua_sdk.domain.key_texts import KeyKind


def operator(tenant: str = "acme", role: Role = Role.ADMIN) -> Principal:
    return Principal(
        kind=PrincipalKind.OPERATOR, scopes=scopes_of(role, is_for_all=tenant == "*"), tenant=tenant, key_id="k"
    )


def key(kind: KeyKind = KeyKind.SERVICE, **more: Any) -> Credential:
    return Credential(**{"id": "a" * 12, "kind": kind, "digest": "0" * 64, "tenant": "acme"} | more)


def test_every_kind_has_a_name() -> None:
    assert set(KIND_NAMES) == set(KeyKind)
    assert {KINDS[name] for name in KINDS} == set(KeyKind)


@pytest.mark.parametrize(
    ("wish", "fault"),
    [
        ({"kind": "operator", "role": "viewer"}, ""),
        ({"kind": "operator", "role": "viewer", "tenant": "*"}, ""),
        ({"kind": "service", "act_for": ["*"], "signs": True}, ""),
        ({"kind": "node", "node_id": "gpu-7", "max_slots": 4}, ""),
        ({"kind": "client", "origins": ["https://app.example"], "pairs": ["*:fr"]}, ""),
        ({"kind": "node", "labels": {"region": "eu"}}, ""),
        ({"kind": "enrol", "labels": {"owner": "ada"}, "max_slots": 4, "max_nodes": 3, "needs_approval": True}, ""),
        ({"kind": "enrol", "is_ephemeral": True, "nodes_live_ms": 1000}, ""),
        ({"kind": "client", "labels": {"region": "eu"}}, "labels is for keys of kind node or enrol"),
        ({"kind": "node", "needs_approval": True}, "needs_approval is for keys of kind enrol"),
        ({"kind": "node", "max_nodes": 2}, "max_nodes is for keys of kind enrol"),
        ({"kind": "operator"}, "an operator needs a role: viewer, operator, admin, auditor"),
        ({"kind": "service", "role": "admin"}, "role is for keys of kind operator"),
        ({"kind": "client", "act_for": ["beta"]}, "act_for is for keys of kind service"),
        ({"kind": "node", "signs": True}, "signs is for keys of kind service"),
        ({"kind": "service", "node_id": "n"}, "node_id is for keys of kind node"),
        ({"kind": "metrics", "pairs": ["zh:en"]}, "pairs is for keys of kind client"),
        ({"kind": "service", "tenant": "*"}, "tenant * is for operators; a service may have act_for *"),
        ({"kind": "service", "name": "a\nb"}, "name must be printable text"),
    ],
)
def test_a_wish_that_contradicts_itself_is_told(wish: dict[str, Any], fault: str) -> None:
    assert msgspec.convert(wish, KeyWish).fault == fault


@pytest.mark.parametrize(
    "wish",
    [
        {"kind": "service", "network": ["10.0.0.0/8"]},
        {"kind": "root"},
        {"kind": "service", "tenant": "Acme"},
        {"kind": "service", "tenant": "acme\n"},
        {"kind": "service", "act_for": ["a/b"]},
        {"kind": "node", "node_id": "-"},
        {"kind": "client", "pairs": ["zh"]},
        {"kind": "node", "labels": {"Region": "eu"}},
        {"kind": "node", "labels": {"region": "<img src=x>"}},
        {"kind": "enrol", "max_nodes": -1},
        {"kind": "client", "expires_in_ms": -1},
    ],
)
def test_a_wish_that_no_key_could_meet_is_not_read(wish: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wish, KeyWish)


@pytest.mark.parametrize(
    ("wish", "fault"),
    [
        ({"public_key": "PEM"}, ""),
        ({"jwks_url": "https://idp.example/jwks"}, ""),
        ({}, "an issuer has either a public_key or a jwks_url"),
        ({"public_key": "PEM", "jwks_url": "https://idp.example"}, "an issuer has either a public_key or a jwks_url"),
        ({"public_key": "PEM", "tenant": "*"}, "an issuer is of one tenant; for others it may act_for them, or for *"),
        ({"public_key": "PEM", "issuer": "a\x1b"}, "issuer must be printable text"),
    ],
)
def test_an_issuer_has_one_tenant_and_one_source_of_keys(wish: dict[str, Any], fault: str) -> None:
    assert msgspec.convert({"id": "app", "issuer": "https://app.example"} | wish, IssuerWish).fault == fault


def test_a_private_key_is_sent_back() -> None:
    wish = IssuerWish(id="app", issuer="x", public_key="-----BEGIN PRIVATE KEY-----")
    assert "private key, which stays with the app" in wish.fault


def test_an_operator_of_one_tenant_sees_that_one_alone() -> None:
    assert may_see(operator("acme"), "acme")
    assert not may_see(operator("acme"), "beta")
    assert not may_see(operator("acme"), "*")
    assert may_see(operator("*"), "beta")
    assert may_see(operator("*"), "*")
    assert may_see(LOCAL, "default")
    assert not may_see(LOCAL, "acme")


@pytest.mark.parametrize(
    "given",
    [
        key(tenant="beta"),
        key(act_for=("acme", "beta")),
        key(act_for=("*",)),
        key(KeyKind.OPERATOR, role=Role.VIEWER, tenant="*"),
        Issuer(id="i", issuer="x", tenant="beta"),
        Issuer(id="i", issuer="x", tenant="acme", act_for=("*",)),
    ],
    ids=["foreign", "acts for another", "acts for all", "operator of all", "foreign issuer", "issuer for all"],
)
def test_an_admin_of_one_tenant_gives_nothing_of_another(given: Credential | Issuer) -> None:
    assert "may give no rights of tenant" in excess(operator("acme"), given)
    assert excess(operator("*"), given) == ""


def test_what_an_admin_has_it_may_give() -> None:
    given = [key(kind, role=Role.ADMIN, tenant="acme") for kind in KeyKind]
    assert [excess(operator("*"), one) for one in given] == [""] * len(KeyKind)
    assert excess(operator(), key(act_for=("acme",))) == ""
    assert excess(LOCAL, key(KeyKind.METRICS, tenant=LOCAL.tenant)) == ""
    assert excess(LOCAL, key(KeyKind.NODE, tenant=LOCAL.tenant)) == ""


@pytest.mark.parametrize("kind", [KeyKind.NODE, KeyKind.ENROLMENT])
def test_an_admin_of_one_tenant_lets_no_node_hear_the_others(kind: KeyKind) -> None:
    assert excess(operator("acme"), key(kind)).startswith("is_private must be set")
    assert excess(operator("acme"), key(kind, is_private=True)) == ""


def test_an_admin_of_one_tenant_gives_no_figures_of_all() -> None:
    assert "what is of all tenants" in excess(operator("acme"), key(KeyKind.METRICS))


def test_no_role_is_given_by_who_has_less() -> None:
    fewer = Principal(kind=PrincipalKind.OPERATOR, scopes=frozenset({Scope.KEYS_WRITE}), tenant="acme", key_id="k")
    for role in Role:
        assert excess(fewer, key(KeyKind.OPERATOR, role=role)).startswith("this credential has less than the role")
