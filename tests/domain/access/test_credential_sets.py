"""Sets of credentials: joined in any order, and forgotten when nothing depends on an entry any more."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.domain.access.credential_sets import CredentialSet, TooManyCredentials, check_room
from lingua_scheduler.domain.access.credentials import KEEP_ENDED_MS, Revocation, subject_name, tenant_name, token_name
from lingua_scheduler.domain.access.issuers import Issuer
from tests.support.credentials import key

NOW_MS = 10**12


def issuer(name: str, **more: Any) -> Issuer:
    return Issuer(id=name, issuer="https://acme.example", **more)


names = st.sampled_from("abc")
ends = st.integers(0, 3)
sets = st.builds(
    CredentialSet,
    st.dictionaries(names, ends).map(
        lambda found: {key(name).id: key(name, revoked_ms=ms) for name, ms in found.items()}
    ),
    st.dictionaries(names, ends).map(lambda found: {name: issuer(name, expires_ms=ms) for name, ms in found.items()}),
    st.dictionaries(names, st.builds(Revocation, ends, ends)),
)


@given(sets, sets, sets)
def test_sets_are_joined_in_any_order(one: CredentialSet, two: CredentialSet, three: CredentialSet) -> None:
    assert one.joined(two) == two.joined(one)
    assert one.joined(two).joined(three) == one.joined(two.joined(three))
    assert one.joined(one) == one
    assert one.joined(CredentialSet()) == one


@given(sets, sets)
def test_what_one_lacks_makes_it_whole(one: CredentialSet, other: CredentialSet) -> None:
    whole = one.joined(other)
    lacking = whole.without(one)
    assert one.joined(lacking) == whole
    assert bool(lacking) == (whole != one)
    for entries, had in zip(lacking, one, strict=True):
        assert all(had.get(name) != entry for name, entry in entries.items())


def test_an_empty_set_is_false() -> None:
    assert not CredentialSet()
    assert CredentialSet(revocations={"tenant/a": Revocation(1, 2)})


@pytest.mark.parametrize("field", ["revoked_ms", "expires_ms"])
def test_ended_entries_are_kept_for_a_while(field: str) -> None:
    for age_ms, is_kept in ((0, True), (KEEP_ENDED_MS, True), (KEEP_ENDED_MS + 1, False)):
        end = {field: NOW_MS - age_ms}
        known = CredentialSet({"a": key("a", **end)}, {"b": issuer("b", **end)})
        assert known.kept_at(NOW_MS) == (known if is_kept else CredentialSet({}, {}))


def test_what_has_no_end_or_was_revoked_in_a_file_is_kept_for_ever() -> None:
    known = CredentialSet(
        {"a": key("a"), "b": key("b", revoked_ms=1, in_file=True)},
        {"a": issuer("a"), "b": issuer("b", revoked_ms=1, in_file=True)},
    )
    assert known.kept_at(NOW_MS) == known


def test_revocations_are_forgotten_after_their_time() -> None:
    known = CredentialSet(revocations={"tenant/a": Revocation(1, NOW_MS - 1), "tenant/b": Revocation(1, NOW_MS)})
    assert set(known.kept_at(NOW_MS).revocations) == {"tenant/b"}


def keys_of(tenant: str, count: int) -> dict[str, Any]:
    found = (key(f"{tenant[0]}{number}", tenant=tenant) for number in range(count))
    return {one.id: one for one in found}


def room_for(known: CredentialSet, more: CredentialSet) -> str:
    try:
        check_room(known.joined(more), known)
    except TooManyCredentials as error:
        return str(error)
    return ""


def test_one_tenant_leaves_room_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lingua_scheduler.domain.access.credential_sets.MAX_CREDENTIALS", 10)
    greedy, others = CredentialSet(keys_of("greedy", 8)), CredentialSet(keys_of("other", 2))
    assert not room_for(CredentialSet(), greedy)
    assert "tenant greedy has 8 keys already" in room_for(greedy, CredentialSet(keys_of("greedy", 9)))
    assert not room_for(greedy, others)
    assert "there are 10 keys already" in room_for(greedy.joined(others), CredentialSet(keys_of("other", 3)))
    # One that is there can still be ended.
    ended = {name: msgspec.structs.replace(one, revoked_ms=1) for name, one in greedy.credentials.items()}
    assert not room_for(greedy, CredentialSet(ended))


def test_one_tenant_keeps_no_other_from_revoking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lingua_scheduler.domain.access.credential_sets.MAX_CREDENTIALS", 10)
    signer = key("s", tenant="greedy")

    def void(*names: str) -> CredentialSet:
        return CredentialSet(revocations=dict.fromkeys(names, Revocation(1, 2)))

    of_users = [subject_name("greedy", f"user-{number}") for number in range(4)]
    of_tokens = [token_name(signer.id, f"token-{number}") for number in range(4)]
    full = CredentialSet({signer.id: signer}).joined(void(*of_users, *of_tokens))
    assert "tenant greedy has 8 revocations already" in room_for(full, void(subject_name("greedy", "one more")))
    assert "tenant greedy has 8 revocations already" in room_for(full, void(token_name(signer.id, "one more")))
    assert not room_for(full, void(subject_name("other", "user")))
    # Of all the others that it made, at once.
    assert not room_for(full, void(tenant_name("greedy")))
