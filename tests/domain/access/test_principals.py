"""Callers: what they may do, what belongs to them, and what one that is refused is told."""

import pytest

from lingua_scheduler.domain.access.principals import (
    ANONYMOUS,
    LOCAL,
    Principal,
    PrincipalKind,
    token_expired,
    unauthenticated,
)
from lingua_scheduler.domain.access.scopes import OPEN, Scope
from tests.support.principals import service, user

CLIENT = Principal(
    kind=PrincipalKind.CLIENT,
    scopes=frozenset({Scope.SESSION_OPEN}),
    tenant="acme",
    key_id="k",
    pairs=("zh:en", "*:fr"),
)


def test_one_of_the_needed_scopes_is_enough() -> None:
    assert CLIENT.may((Scope.FLEET_READ, Scope.SESSION_OPEN))
    assert not CLIENT.may((Scope.FLEET_READ, Scope.DISPATCH_CALL))
    assert CLIENT.may(OPEN)
    assert all(LOCAL.may((scope,)) for scope in Scope)


def test_what_belongs_to_a_user_belongs_to_no_other_user_and_not_to_the_key() -> None:
    owners = [
        CLIENT.owner,
        Principal(kind=PrincipalKind.CLIENT, scopes=frozenset(), tenant="acme", key_id="k", subject="u").owner,
        Principal(kind=PrincipalKind.CLIENT, scopes=frozenset(), tenant="beta", key_id="k", subject="u").owner,
        LOCAL.owner,
    ]
    assert owners == ["acme#k", "acme/u", "beta/u", ""]


def test_a_tenant_is_named_only_by_who_may_act_for_it() -> None:
    service = Principal(kind=PrincipalKind.SERVICE, scopes=frozenset(), tenant="acme", act_for=("beta",))
    assert [service.tenant_for(named) for named in (None, "", "beta", "gamma")] == ["acme", "acme", "beta", "acme"]
    everyone = Principal(kind=PrincipalKind.SERVICE, scopes=frozenset(), tenant="acme", act_for=("*",))
    assert everyone.tenant_for("gamma") == "gamma"


@pytest.mark.parametrize(
    ("src", "tgt", "expected"), [("zh", "en", True), ("zh", "fr", True), ("en", "zh", False), ("en", "de", False)]
)
def test_a_caller_translates_its_pairs(src: str, tgt: str, expected: bool) -> None:
    assert CLIENT.may_translate(src, tgt) is expected
    assert LOCAL.may_translate(src, tgt)


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
    assert LOCAL.owner_digest == ANONYMOUS.owner_digest == ""


@pytest.mark.parametrize("subject", ["k1", "/k1", "#k1", "//k1"])
def test_a_user_whose_name_looks_like_a_key_is_not_that_key(subject: str) -> None:
    assert user(subject).owner != service("k1").owner


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
