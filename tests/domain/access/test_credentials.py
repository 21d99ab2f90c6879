"""Credentials only ever end, so copies can be joined in any order."""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.domain.access import credentials
from lingua_scheduler.domain.access.credentials import (
    Credential,
    Revocation,
    is_revocation_name,
    is_tenant,
    joined,
    joined_revocation,
    subject_name,
    tenant_name,
    token_name,
)
from lingua_scheduler.domain.access.scopes import OF_ALL_TENANTS, ROLES, Role, Scope
from lingua_sdk.domain.key_texts import KeyKind
from tests.support.credentials import key

times = st.integers(0, 10**15 - 1)
copies = st.builds(
    lambda expires_ms, revoked_ms, successor, in_file: key(
        "a", expires_ms=expires_ms, revoked_ms=revoked_ms, successor=successor, in_file=in_file
    ),
    times,
    times,
    st.sampled_from(["", "a" * 12, "b" * 12]),
    st.booleans(),
)
revocations = st.builds(Revocation, times, times)


@given(copies, copies, copies)
def test_copies_are_joined_in_any_order(one: Credential, two: Credential, three: Credential) -> None:
    assert joined(one, two) == joined(two, one)
    assert joined(joined(one, two), three) == joined(one, joined(two, three))
    assert joined(one, one) == one
    assert joined(joined(one, two), two) == joined(one, two)


@given(copies, copies, times)
def test_what_has_ended_in_one_copy_has_ended(one: Credential, other: Credential, now_ms: int) -> None:
    assert joined(one, other).is_live(now_ms) == (one.is_live(now_ms) and other.is_live(now_ms))


@given(revocations, revocations, revocations)
def test_revocations_are_joined_in_any_order(one: Revocation, two: Revocation, three: Revocation) -> None:
    assert joined_revocation(one, two) == joined_revocation(two, one)
    assert joined_revocation(joined_revocation(one, two), three) == joined_revocation(
        one, joined_revocation(two, three)
    )
    assert joined_revocation(one, one) == one
    assert joined_revocation(one, two).before_ms == max(one.before_ms, two.before_ms)


def test_a_credential_lives_until_it_expires_or_is_revoked() -> None:
    assert key("a").is_live(10**14)
    assert key("a", expires_ms=10).is_live(9)
    assert not key("a", expires_ms=10).is_live(10)
    assert not key("a", revoked_ms=10).is_live(5)


@pytest.mark.parametrize(
    ("expires_ms", "revoked_ms", "ended_ms"), [(0, 0, 0), (5, 0, 5), (0, 7, 7), (5, 7, 5), (9, 7, 7)]
)
def test_the_earlier_end_counts(expires_ms: int, revoked_ms: int, ended_ms: int) -> None:
    assert key("a", expires_ms=expires_ms, revoked_ms=revoked_ms).ended_ms() == ended_ms


def test_the_scopes_of_each_kind() -> None:
    found = {kind: key("a", kind=kind).scopes for kind in KeyKind}
    assert found == {
        KeyKind.CLIENT: {"session:open", "room:create", "room:join"},
        KeyKind.SERVICE: {"session:open", "dispatch:call", "room:create", "room:join", "tokens:mint"},
        KeyKind.NODE: {"node:register"},
        KeyKind.ENROLMENT: {"node:enrol"},
        KeyKind.OPERATOR: set(),
        KeyKind.METRICS: {"metrics:read"},
    }


@pytest.mark.parametrize("role", Role)
def test_an_operator_has_the_scopes_of_its_role_and_no_other_kind_has(role: Role) -> None:
    assert key("a", kind=KeyKind.OPERATOR, role=role, tenant="*").scopes == ROLES[role]
    assert key("a", kind=KeyKind.OPERATOR, role=role).scopes == ROLES[role] - OF_ALL_TENANTS
    assert key("a", kind=KeyKind.CLIENT, role=role).scopes == {Scope.SESSION_OPEN, Scope.ROOM_CREATE, Scope.ROOM_JOIN}


def changed(**more: object) -> bytes:
    return msgspec.json.encode(msgspec.to_builtins(key("a")) | more)


def test_a_credential_is_read_as_it_was_written() -> None:
    full = key("a", tenant="acme", act_for=("b",), origins=("https://a.example",), signing_key="0" * 64, created_ms=1)
    assert msgspec.json.decode(msgspec.json.encode(full), type=Credential) == full


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": "short"},
        {"id": "a" * 12 + "\n"},
        {"id": "a" * 11 + "/"},
        {"digest": "0" * 63},
        {"digest": "0" * 64 + "\n"},
        {"digest": "G" * 64},
        {"kind": "xx"},
        {"role": "root"},
        {"tenant": ""},
        {"tenant": "Acme"},
        {"tenant": "acme\n"},
        {"tenant": "a/b"},
        {"tenant": "**"},
        {"tenant": "a" * 64},
        {"name": "x" * 129},
        {"origins": ["x"] * 65},
        {"networks": ["x" * 257]},
        {"expires_ms": -1},
        {"revoked_ms": 10**15},
        {"max_slots": -1},
        {"signing_key": "0" * 63},
        {"successor": "x" * 13},
    ],
    ids=str,
)
def test_what_is_out_of_bounds_is_no_credential(wrong: dict[str, object]) -> None:
    msgspec.json.decode(changed(), type=Credential)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(changed(**wrong), type=Credential)


@pytest.mark.parametrize("text", ["a", "acme", "0-1", "a" * 63])
def test_a_tenant(text: str) -> None:
    assert is_tenant(text)


@pytest.mark.parametrize("text", ["", "*", "-a", "A", "a_b", "a/b", "a:b", "a" * 64, "acme\n", "ä"])
def test_no_tenant(text: str) -> None:
    assert not is_tenant(text)


tenants = st.from_regex(credentials.TENANT, fullmatch=True)


@given(tenants, st.text(max_size=128), tenants, st.text(max_size=128))
def test_two_subjects_never_share_a_revocation(tenant: str, subject: str, other_tenant: str, other: str) -> None:
    is_same = (tenant, subject) == (other_tenant, other)
    assert (subject_name(tenant, subject) == subject_name(other_tenant, other)) == is_same


@pytest.mark.parametrize(
    "make", [lambda: subject_name("a", "b"), lambda: tenant_name("a"), lambda: token_name("k1", "t")]
)
def test_revocations_have_names_of_their_own(make: Callable[[], str]) -> None:
    assert is_revocation_name(make())
    assert not is_revocation_name(make() + "x" * credentials.MAX_REVOCATION_CHARS)
    assert not is_revocation_name(make()[1:])


def test_the_names_of_kinds_do_not_meet() -> None:
    assert len({subject_name("a", "b"), tenant_name("a/b"), token_name("a", "b")}) == 3


def test_an_approval_is_never_lost_and_does_not_undo_an_end() -> None:
    pending = key("n", kind=KeyKind.NODE, needs_approval=True)
    approved = msgspec.structs.replace(pending, approved_ms=5)
    ended = msgspec.structs.replace(pending, revoked_ms=7)
    assert pending.is_pending
    assert not approved.is_pending
    for one, other in ((approved, ended), (ended, approved)):
        both = joined(one, other)
        assert (both.is_pending, both.is_live(9)) == (False, False)
    # Of an enrolment key it says what its nodes need.
    assert not key("e", kind=KeyKind.ENROLMENT, needs_approval=True).is_pending


@pytest.mark.parametrize(
    "labels",
    [
        {"Region": "eu"},
        {"": "eu"},
        {"region": ""},
        {"region": "e" * 65},
        {"region": "eu\n"},
        {"a b": "c"},
        {"x": "<b>"},
        {f"l{number}": "x" for number in range(17)},
    ],
)
def test_labels_are_few_and_short(labels: dict[str, str]) -> None:
    fields = msgspec.to_builtins(key("n", kind=KeyKind.NODE))
    few = {"region": "eu-1", "owner": "A. B."}
    assert msgspec.convert(fields | {"labels": few}, Credential).labels == few
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(fields | {"labels": labels}, Credential)
