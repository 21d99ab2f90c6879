"""Credentials only ever end: copies of two instances are joined in any order to the same."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.domain.access.credentials import (
    Credential,
    Revocation,
    is_tenant,
    joined,
    joined_revocation,
    subject_name,
    tenant_name,
    token_name,
)
from lingua_scheduler.domain.access.key_texts import KeyKind
from lingua_scheduler.domain.access.scopes import ROLES, Role, Scope

KEY = Credential(id="k" * 12, kind=KeyKind.SERVICE, digest="0" * 64)
TIMES = st.sampled_from([0, 1, 5, 9])
COPIES = st.builds(
    lambda expires_ms, revoked_ms, successor: msgspec.structs.replace(
        KEY, expires_ms=expires_ms, revoked_ms=revoked_ms, successor=successor
    ),
    TIMES,
    TIMES,
    st.sampled_from(["", "next"]),
)


@given(COPIES, COPIES, COPIES)
def test_copies_are_joined_in_any_order_and_never_come_back_to_life(
    one: Credential, other: Credential, third: Credential
) -> None:
    assert joined(one, other) == joined(other, one)
    assert joined(joined(one, other), third) == joined(one, joined(other, third))
    assert joined(one, one) == one
    for now_ms in range(12):
        assert joined(one, other).is_live(now_ms) <= (one.is_live(now_ms) and other.is_live(now_ms))


def test_a_credential_ends_at_the_earlier_of_its_ends() -> None:
    def ended(**ends: int) -> int:
        return msgspec.structs.replace(KEY, **ends).ended_ms()

    assert (ended(), ended(expires_ms=5), ended(revoked_ms=3)) == (0, 5, 3)
    assert ended(expires_ms=5, revoked_ms=3) == ended(expires_ms=3, revoked_ms=5) == 3


def test_of_two_revocations_the_wider_counts() -> None:
    assert joined_revocation(Revocation(1, 9), Revocation(5, 6)) == Revocation(5, 9)


@pytest.mark.parametrize("kind", KeyKind)
def test_the_kind_of_a_key_says_what_it_may(kind: KeyKind) -> None:
    key = msgspec.structs.replace(KEY, kind=kind)
    assert (Scope.SESSION_OPEN in key.scopes) is (kind in (KeyKind.CLIENT, KeyKind.SERVICE))
    assert (Scope.TOKENS_MINT in key.scopes) is (kind is KeyKind.SERVICE)
    assert not key.scopes & {Scope.KEYS_WRITE, Scope.FLEET_OPERATE, Scope.AUDIT_READ}


def test_an_operator_may_what_its_role_may() -> None:
    operator = msgspec.structs.replace(KEY, kind=KeyKind.OPERATOR)
    assert operator.scopes == frozenset()
    assert msgspec.structs.replace(operator, role=Role.ADMIN).scopes == ROLES[Role.ADMIN]


@pytest.mark.parametrize("text", ["", "*", "-a", "A", "a/b", "a" * 64, "a\n"])
def test_what_is_no_tenant_is_told(text: str) -> None:
    assert not is_tenant(text)
    assert is_tenant("acme-2")


def test_names_of_what_is_revoked_are_not_mixed_up() -> None:
    names = [tenant_name("a"), subject_name("a", "b"), token_name("a", "b"), subject_name("a", "b/c")]
    assert len(set(names)) == len(names)
