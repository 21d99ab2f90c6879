"""Who holds a key, and from where it may be used."""

import pytest

from lingua_scheduler.domain.access.principals import PrincipalKind, holder_of
from lingua_scheduler.domain.access.scopes import ROLES, Role
from lingua_scheduler.services.access.keyholders import misplaced
from lingua_sdk.domain.key_texts import KeyKind
from tests.support.access import made_key


@pytest.mark.parametrize("kind", list(KeyKind))
def test_every_kind_of_key_has_a_holder(kind: KeyKind) -> None:
    key = made_key(kind, tenant="acme", expires_ms=7).credential
    found = holder_of(key)
    assert (found.tenant, found.key_id, found.expires_ms, found.login_id) == ("acme", key.id, 7, "")


def test_an_operator_has_the_scopes_of_its_role() -> None:
    found = holder_of(made_key(KeyKind.OPERATOR, tenant="*", role=Role.VIEWER).credential)
    assert (found.kind, found.scopes) == (PrincipalKind.OPERATOR, ROLES[Role.VIEWER])


@pytest.mark.parametrize(
    ("address", "is_right"), [("10.1.2.3", True), ("11.1.2.3", False), ("", False), ("fe80::1", False)]
)
def test_a_key_is_for_its_networks(address: str, is_right: bool) -> None:
    key = made_key(KeyKind.SERVICE, networks=("10.0.0.0/8",)).credential
    assert (misplaced(key, address, None) is None) is is_right


def test_networks_that_cannot_be_read_are_nowhere() -> None:
    assert misplaced(made_key(KeyKind.SERVICE, networks=("rubbish",)).credential, "10.1.2.3", None) is not None


@pytest.mark.parametrize(
    ("origin", "is_right"), [("https://app.example", True), ("https://evil.example", False), (None, False)]
)
def test_a_clients_key_is_for_its_pages(origin: str | None, is_right: bool) -> None:
    key = made_key(KeyKind.CLIENT, origins=("https://app.example",)).credential
    assert (misplaced(key, "10.1.2.3", origin) is None) is is_right
