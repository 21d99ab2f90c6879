"""Tokens of our own: with what their minter has, signed with a key that every instance of the cluster knows."""

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from lingua_scheduler.domain.access.claims import read_claims
from lingua_scheduler.domain.access.credentials import token_name
from lingua_scheduler.domain.access.grants import Grants
from lingua_scheduler.domain.access.principals import LOCAL, Denied, Principal, PrincipalKind
from lingua_scheduler.domain.access.scopes import ROLES, Role, Scope
from lingua_scheduler.protocol.sealing import Keyring
from lingua_scheduler.services.access.signing import MintedToken, TokenSigner, signing_key_of
from lingua_scheduler.services.access.tokens import TokenReader, read_jwk
from lingua_sdk.domain.key_texts import KeyKind, fresh_key
from tests.support.tokens import NOW_MS, NOW_S, Book, claims, service, token

OLD, NEW = b"o" * 32, b"n" * 32
DAY_MS = 86_400_000
HOUR_MS = 3_600_000
KEY = fresh_key(KeyKind.SERVICE)
SERVICE = Principal(
    kind=PrincipalKind.SERVICE,
    scopes=frozenset({Scope.SESSION_OPEN, Scope.DISPATCH_CALL, Scope.TOKENS_MINT}),
    tenant="acme",
    key_id=KEY.id,
)


def signer(*keys: bytes) -> TokenSigner:
    return TokenSigner(Keyring(keys or (OLD,)), "lingua", DAY_MS)


def reader(own_keys: TokenSigner, book: Book | None = None) -> TokenReader:
    return TokenReader(book or Book(service(KEY)), "lingua", DAY_MS, own_keys)


def minted(minter: Principal = SERVICE, ttl_ms: int = HOUR_MS, **grants: Any) -> MintedToken:
    found = signer().mint(minter, "user-7", Grants(**{"tenant": "acme", **grants}), ttl_ms, NOW_MS)
    assert isinstance(found, MintedToken), found
    return found


def refusal(minter: Principal, **grants: Any) -> str:
    found = signer().mint(minter, "user-7", Grants(**{"tenant": "acme", **grants}), HOUR_MS, NOW_MS)
    assert isinstance(found, Denied), found
    assert found[:2] == (403, "PERMISSION_DENIED")
    return found.detail


def test_a_minted_token_is_read_as_what_was_asked_for() -> None:
    made = minted(pairs=("zh:en",), max_sessions=1, grants=("session", "dispatch"))
    found = reader(signer()).read(made.text, NOW_MS)
    assert found == Principal(
        kind=PrincipalKind.CLIENT,
        scopes=frozenset({Scope.SESSION_OPEN, Scope.DISPATCH_CALL}),
        tenant="acme",
        key_id=KEY.id,
        subject="user-7",
        token_id=made.token_id,
        issued_ms=NOW_MS,
        expires_ms=NOW_MS + HOUR_MS,
        pairs=("zh:en",),
        max_sessions=1,
    )
    assert made.expires_ms == NOW_MS + HOUR_MS
    said = read_claims(made.text.split(".")[1])
    assert (said.iss, said.aud) == ("lingua", "lingua")


def test_no_two_tokens_have_the_same_id() -> None:
    assert minted().token_id != minted().token_id


def test_keys_are_rotated_in_three_steps_while_every_instance_reads_every_token() -> None:
    steps = [signer(*keys) for keys in ([OLD], [OLD, NEW], [NEW, OLD], [NEW])]
    for before, after in pairwise(steps):
        for maker, other in ((before, after), (after, before)):
            made = maker.mint(SERVICE, "u", Grants(tenant="acme"), HOUR_MS, NOW_MS)
            assert isinstance(made, MintedToken)
            assert isinstance(reader(other).read(made.text, NOW_MS), Principal)
    made = steps[0].mint(SERVICE, "u", Grants(tenant="acme"), HOUR_MS, NOW_MS)
    assert isinstance(made, MintedToken)
    assert isinstance(reader(steps[-1]).read(made.text, NOW_MS), Denied)


def test_the_public_keys_are_published_and_nothing_else() -> None:
    found = signer(OLD, NEW)
    published = found.jwks()["keys"]
    assert {jwk["kid"]: read_jwk(jwk) for jwk in published} == found.public_keys
    assert len(published) == 2
    assert all("d" not in jwk and (jwk["use"], jwk["alg"]) == ("sig", "EdDSA") for jwk in published)
    assert signer(OLD).jwks()["keys"] == published[:1]


def test_the_cluster_key_itself_signs_nothing() -> None:
    direct = Ed25519PrivateKey.from_private_bytes(OLD)
    [kid] = signer().public_keys
    forged = token(claims(iss="lingua"), direct, kid=kid)
    assert isinstance(reader(signer()).read(forged, NOW_MS), Denied)


def test_a_minted_token_ends_with_the_key_that_asked_for_it() -> None:
    book = Book(service(KEY))
    known = reader(signer(), book)
    made = minted()
    assert isinstance(known.read(made.text, NOW_MS), Principal)
    book.change(KEY.id, revoked_ms=NOW_MS)
    assert isinstance(known.read(made.text, NOW_MS), Denied)
    assert isinstance(reader(signer(), Book()).read(made.text, NOW_MS), Denied)


def test_a_minted_token_is_revoked_by_its_id() -> None:
    book = Book(service(KEY))
    made, other = minted(), minted()
    book.voids[token_name(KEY.id, made.token_id)] = NOW_MS
    assert isinstance(reader(signer(), book).read(made.text, NOW_MS), Denied)
    assert isinstance(reader(signer(), book).read(other.text, NOW_MS), Principal)


def test_a_minted_token_lives_no_longer_than_a_token_or_its_minter_may() -> None:
    assert minted(ttl_ms=10 * DAY_MS).expires_ms == NOW_MS + DAY_MS
    ending = msgspec.structs.replace(SERVICE, expires_ms=NOW_MS + 5_500)
    assert minted(ending).expires_ms == NOW_MS + 5_000
    assert minted(ending, ttl_ms=2_000).expires_ms == NOW_MS + 2_000


@pytest.mark.parametrize(("subject", "ttl_ms"), [("", HOUR_MS), ("u" * 129, HOUR_MS), ("u", 999), ("u", -1)])
def test_a_token_that_could_not_be_read_is_not_made(subject: str, ttl_ms: int) -> None:
    with pytest.raises(ValueError, match="a token needs"):
        signer().mint(SERVICE, subject, Grants(tenant="acme"), ttl_ms, NOW_MS)


def test_a_minter_gives_no_more_than_it_has() -> None:
    def like(**changed: Any) -> Principal:
        return msgspec.structs.replace(SERVICE, **changed)

    assert "may not make tokens" in refusal(like(scopes=frozenset({Scope.SESSION_OPEN})))
    assert "tenant" in refusal(SERVICE, tenant="beta")
    assert "tenant" in refusal(like(act_for=("beta",)), tenant="gamma")
    assert "grant" in refusal(like(scopes=frozenset({Scope.TOKENS_MINT, Scope.SESSION_OPEN})), grants=("dispatch",))
    assert "language pair" in refusal(like(pairs=("zh:en",)), pairs=("zh:fr",))
    assert "language pair" in refusal(like(pairs=("zh:en",)), pairs=("*:en",))
    assert "sessions" in refusal(like(max_sessions=2), max_sessions=3)


def test_a_minter_that_acts_for_others_makes_their_tokens() -> None:
    for act_for in (("beta",), ("*",)):
        minter = msgspec.structs.replace(SERVICE, act_for=act_for)
        found = reader(signer()).read(minted(minter, tenant="beta").text, NOW_MS)
        assert isinstance(found, Principal)
        assert found.tenant == "beta"


def test_what_a_token_leaves_open_is_limited_as_its_minter_is() -> None:
    minter = msgspec.structs.replace(SERVICE, pairs=("zh:en",), max_sessions=2)
    found = reader(signer()).read(minted(minter).text, NOW_MS)
    assert isinstance(found, Principal)
    assert (found.pairs, found.max_sessions) == (("zh:en",), 2)


def test_an_admin_makes_tokens_for_sessions_because_it_could_make_a_key_for_them() -> None:
    admin = Principal(kind=PrincipalKind.OPERATOR, scopes=ROLES[Role.ADMIN], tenant="*", key_id=KEY.id)
    assert minted(admin, grants=("session", "dispatch"), tenant="beta")
    for role in (Role.VIEWER, Role.OPERATOR, Role.AUDITOR):
        assert "may not make tokens" in refusal(msgspec.structs.replace(admin, scopes=ROLES[role]))


def test_without_any_key_tokens_are_made_and_read_in_local_mode() -> None:
    found = reader(signer(), Book()).read(minted(LOCAL, tenant="default").text, NOW_MS)
    assert isinstance(found, Principal)
    assert (found.key_id, found.owner) == ("", "default/user-7")
    assert "tenant" in refusal(LOCAL, tenant="acme")


def test_a_signing_key_is_derived_and_stays_what_it_is() -> None:
    """Backends derive it by themselves: HKDF-SHA256, no salt, info `lingua jwt`, 32 bytes."""
    found = signing_key_of("s" * 43)
    assert found == EXPECTED
    assert found != signing_key_of("t" * 43)


EXPECTED = "c9227775a77f37803b0d5bc109d277d7ae3df2fdbf589665e8e462cf214f37ee"


def test_times_are_whole_seconds() -> None:
    found = signer().mint(SERVICE, "u", Grants(tenant="acme"), 1_999, NOW_MS + 700)
    assert isinstance(found, MintedToken)
    said = read_claims(found.text.split(".")[1])
    assert (said.iat, said.exp, found.expires_ms) == (NOW_S, NOW_S + 1, NOW_MS + 1_000)
