"""Callers: what they may do, what belongs to them, and what one that is refused is told."""

import pytest

from lingua_scheduler.domain.access.principals import (
    LOCAL,
    Principal,
    PrincipalKind,
    token_expired,
    unauthenticated,
)
from lingua_scheduler.domain.access.scopes import OPEN, Scope

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
    assert owners == ["acme//k", "acme/u", "beta/u", ""]


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
