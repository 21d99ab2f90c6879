"""Keys and issuers are made as they were asked for, or not at all."""

from typing import Any

import pytest

from lingua_scheduler.domain.access.credentials import Credential
from lingua_scheduler.domain.access.key_wishes import KINDS, IssuerWish, KeyWish
from lingua_scheduler.domain.access.scopes import Role
from lingua_scheduler.services.access.key_making import BadWish, KeyMaker, issuer_of, key_of, successor_of
from lingua_scheduler.services.access.signing import signing_key_of
from lingua_sdk.domain.key_texts import KeyKind, fresh_key
from tests.support.tokens import ED25519, P256, pem

MAKER = KeyMaker("lk_op_me", "acme", 1_000_000)


def made(wish: KeyWish) -> Credential:
    return key_of(wish, fresh_key(KINDS[wish.kind]), MAKER)


def test_a_key_has_what_was_asked_for_and_the_tenant_of_its_maker() -> None:
    key = fresh_key(KeyKind.SERVICE)
    wish = KeyWish(kind="service", name="gateway", act_for=("beta",), signs=True, networks=("10.0.0.0/8",))
    assert key_of(wish, key, MAKER) == Credential(
        id=key.id,
        kind=KeyKind.SERVICE,
        digest=key.digest,
        name="gateway",
        tenant="acme",
        act_for=("beta",),
        networks=("10.0.0.0/8",),
        created_ms=1_000_000,
        created_by="lk_op_me",
        signing_key=signing_key_of(key.secret),
    )
    assert made(KeyWish(kind="operator", role=Role.VIEWER, tenant="beta")).tenant == "beta"
    assert made(KeyWish(kind="node", node_id="n", max_slots=3, expires_in_ms=500)).expires_ms == 1_000_500
    assert made(KeyWish(kind="service")).signing_key == ""


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        (KeyWish(kind="service", networks=("10.0.0.0/99",)), "networks: "),
        (KeyWish(kind="client", origins=("app.example",)), "origins: 'app.example' is none"),
        (KeyWish(kind="operator"), "an operator needs a role"),
    ],
    ids=["network", "origin", "role"],
)
def test_a_key_that_could_not_be_used_is_not_made(wish: KeyWish, told: str) -> None:
    with pytest.raises(BadWish, match=told):
        made(wish)


def test_a_successor_has_the_same_rights_another_secret_and_a_life_as_long() -> None:
    before = made(KeyWish(kind="service", act_for=("beta",), signs=True, expires_in_ms=700))
    key = fresh_key(KeyKind.SERVICE)
    later = KeyMaker("lk_op_other", "*", 5_000_000)
    after = successor_of(before, key, later)
    assert (after.id, after.digest, after.signing_key) == (key.id, key.digest, signing_key_of(key.secret))
    assert (after.tenant, after.act_for, after.scopes) == (before.tenant, before.act_for, before.scopes)
    assert (after.created_ms, after.created_by, after.expires_ms) == (5_000_000, "lk_op_other", 5_000_700)
    assert successor_of(before, key, later, 10).expires_ms == 5_000_010
    assert successor_of(made(KeyWish(kind="client")), key, later).expires_ms == 0


ISSUER: dict[str, Any] = {"id": "app", "issuer": "https://app.example"}


def test_an_issuer_is_made_of_a_public_key_or_an_address() -> None:
    found = issuer_of(IssuerWish(**ISSUER, public_key=pem(ED25519), expires_in_ms=5), MAKER)
    assert (found.id, found.tenant, found.created_by, found.expires_ms) == ("app", "acme", "lk_op_me", 1_000_005)
    assert issuer_of(IssuerWish(**ISSUER, jwks_url="https://idp.example/jwks"), MAKER).jwks_url


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        ({"public_key": "nonsense"}, "public_key is no PEM of a key that is fit for EdDSA"),
        ({"public_key": pem(P256)}, "fit for EdDSA"),
        ({"public_key": pem(ED25519), "issuer": "lingua"}, "made by this scheduler itself"),
        ({"jwks_url": "http://idp.example/jwks"}, "must be an https"),
        ({"jwks_url": "https://u:p@idp.example"}, "must be an https"),
        ({"jwks_url": "https://[x/"}, "must be an https"),
        ({}, "either a public_key or a jwks_url"),
    ],
    ids=["no pem", "other algorithm", "ours", "no tls", "password", "no address", "neither"],
)
def test_an_issuer_whose_tokens_could_never_count_is_not_made(wish: dict[str, Any], told: str) -> None:
    with pytest.raises(BadWish, match=told):
        issuer_of(IssuerWish(**ISSUER | wish), MAKER)
