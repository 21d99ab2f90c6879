"""Principals: what is theirs, for whom they act, and what they may translate."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.domain.access.credentials import TENANT
from lingua_scheduler.domain.access.principals import (
    LOCAL,
    Denied,
    Principal,
    PrincipalKind,
    token_expired,
    unauthenticated,
)
from lingua_scheduler.domain.access.scopes import EVERYTHING, LANGUAGES, OPEN, Scope


def principal(**more: Any) -> Principal:
    return Principal(**{"kind": PrincipalKind.SERVICE, "scopes": frozenset(), "tenant": "acme", "key_id": "k1"} | more)


def test_a_caller_may_what_any_of_its_scopes_allows() -> None:
    reader = principal(scopes=frozenset({Scope.FLEET_READ}))
    assert reader.may((Scope.FLEET_READ,))
    assert reader.may(LANGUAGES)
    assert not reader.may((Scope.FLEET_OPERATE,))
    assert not reader.may((Scope.FLEET_OPERATE, Scope.KEYS_READ))
    assert principal().may(OPEN)
    assert not principal().may(LANGUAGES)


def test_who_needs_no_credential_may_everything_in_the_default_tenant() -> None:
    assert all(LOCAL.may((scope,)) for scope in EVERYTHING)
    assert LOCAL.tenant == "default"
    assert (LOCAL.owner, LOCAL.key_id, LOCAL.expires_ms) == ("", "", 0)


def test_what_belongs_to_a_user_belongs_to_no_other_and_not_to_the_key() -> None:
    assert principal(subject="ada").owner == "acme/ada"
    # Another key or token of the same user.
    assert principal(subject="ada", key_id="k2").owner == "acme/ada"
    assert principal().owner == "acme:k1"
    owners = {
        principal().owner,
        principal(key_id="k2").owner,
        principal(tenant="beta").owner,
        principal(subject="k1").owner,
        principal(subject="/k1").owner,
        principal(subject=":k1").owner,
        principal(tenant="beta", subject="k1").owner,
    }
    assert len(owners) == 7


tenants = st.from_regex(TENANT, fullmatch=True)
callers = st.builds(
    lambda tenant, subject, key_id: principal(tenant=tenant, subject=subject, key_id=key_id),
    tenants,
    st.text("/:ak1", max_size=4),
    st.sampled_from(["k1", "k2"]),
)


@given(callers, callers)
def test_no_subject_can_be_chosen_to_own_what_is_not_its_own(one: Principal, other: Principal) -> None:
    mine = (one.tenant, one.subject or None, None if one.subject else one.key_id)
    theirs = (other.tenant, other.subject or None, None if other.subject else other.key_id)
    assert (one.owner == other.owner) == (mine == theirs)


@pytest.mark.parametrize(
    ("act_for", "named", "tenant"),
    [
        ((), None, "acme"),
        ((), "", "acme"),
        ((), "beta", "acme"),
        ((), "acme", "acme"),
        (("beta",), None, "acme"),
        (("beta",), "beta", "beta"),
        (("beta",), "gamma", "acme"),
        (("*",), "gamma", "gamma"),
        (("*",), "*", "acme"),
        (("*",), "a/b", "acme"),
        (("*",), "Gamma\n", "acme"),
    ],
)
def test_a_tenant_that_is_named_counts_only_for_those_who_may(
    act_for: tuple[str, ...], named: str | None, tenant: str
) -> None:
    assert principal(act_for=act_for).tenant_for(named) == tenant


@pytest.mark.parametrize(
    ("pairs", "src", "tgt", "may"),
    [
        ((), "zh", "en", True),
        (("zh:en",), "zh", "en", True),
        (("zh:en",), "en", "zh", False),
        (("zh:en",), "zh", "fr", False),
        (("zh:en", "en:fr"), "en", "fr", True),
        (("zh:en", "en:fr"), "zh", "fr", False),
        (("*:fr",), "zh", "fr", True),
        (("*:fr",), "fr", "zh", False),
        (("zh:*",), "zh", "fr", True),
        (("*:*",), "a", "b", True),
        (("zh",), "zh", "en", False),
    ],
)
def test_pairs_restrict(pairs: tuple[str, ...], src: str, tgt: str, may: bool) -> None:
    assert principal(pairs=pairs).may_translate(src, tgt) is may


def test_a_denial_says_when_to_come_again_only_if_it_makes_sense() -> None:
    assert Denied(401, "UNAUTHENTICATED", "no").retry_after_s is None


def test_a_caller_is_told_of_expiry_and_of_no_other_cause() -> None:
    one, other = unauthenticated("unknown key"), unauthenticated("wrong signature")
    assert one[:4] == other[:4]
    assert (one.status, one.code, one.reason) == (401, "UNAUTHENTICATED", "unknown key")
    assert "unknown key" not in one.detail
    assert (token_expired().status, token_expired().code) == (401, "TOKEN_EXPIRED")
