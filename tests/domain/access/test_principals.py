"""Principals: what is theirs, for whom they act, and what they may translate."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.domain.access.credentials import TENANT
from lingua_scheduler.domain.access.principals import (
    ANONYMOUS,
    LOCAL,
    Denied,
    Principal,
    PrincipalKind,
    token_expired,
    unauthenticated,
)
from lingua_scheduler.domain.access.scopes import EVERYTHING, LANGUAGES, OPEN, Scope
from tests.support.principals import service, user


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


def test_the_digest_of_an_owner_is_its_own_and_names_nobody() -> None:
    owners = [user("ada"), user("bob"), user("ada", "beta"), service("k1"), service("k2")]
    digests = {one.owner_digest for one in owners}
    assert len(digests) == len(owners)
    assert all(len(digest) == 32 and digest.isalnum() for digest in digests)
    # Another token, or another key that signed it, is still the same person.
    assert user("ada", key_id="other", token_id="t2").owner_digest == user("ada").owner_digest
    assert len(user("\ud800").owner_digest) == 32
    assert LOCAL.owner_digest == ANONYMOUS.owner_digest == ""


@pytest.mark.parametrize(
    ("named", "counts", "is_allowed"),
    [(None, "acme", True), ("", "acme", True), ("acme", "acme", True), ("beta", "acme", False)],
)
def test_a_tenant_of_work_is_named_only_by_who_may_act_for_it(named: str | None, counts: str, is_allowed: bool) -> None:
    assert (user("ada").work_tenant(named), user("ada").may_name(named)) == (counts, is_allowed)
    for act_for in (("beta",), ("*",)):
        gateway = service("k", act_for=act_for)
        assert gateway.work_tenant(named) == (named or "acme")
        assert gateway.may_name(named)


def test_without_a_credential_any_tenant_is_only_noted() -> None:
    assert [LOCAL.work_tenant(named) for named in (None, "", "beta")] == ["", "", "beta"]
    assert LOCAL.may_name("beta")


@pytest.mark.parametrize(
    ("pairs", "src", "tgt", "is_allowed"),
    [
        ((), "en", "fr", True),
        (("zh:en",), "zh", "en", True),
        (("zh:en",), "en", "zh", False),
        (("zh:en", "*:fr"), "de", "fr", True),
        (("zh:*",), "zh-TW", "en", True),
        (("zh-tw:en",), "zh-TW", "en", True),
        (("zh-TW:en",), "zh", "en", False),
        (("zh:en",), "zhx", "en", False),
    ],
)
def test_pairs_allow_a_language_with_its_variants(pairs: tuple[str, ...], src: str, tgt: str, is_allowed: bool) -> None:
    assert user("ada", pairs=pairs).may_translate(src, tgt) is is_allowed
