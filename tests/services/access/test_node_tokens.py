"""Tokens that nodes sign themselves: the node that has the key is let in, once with each (attack 40)."""

from typing import Any

import jwt
import pytest

from lingua_scheduler.domain.access.claims import LEEWAY_MS
from lingua_scheduler.domain.access.credentials import tenant_name
from lingua_scheduler.domain.access.node_claims import cluster_audience
from lingua_scheduler.domain.access.principals import Denied, Principal, PrincipalKind
from lingua_scheduler.domain.access.scopes import Scope
from lingua_scheduler.services.access import node_tokens
from lingua_scheduler.services.access.node_tokens import NodeTokens
from lingua_scheduler.services.access.tokens import TokenReader
from lingua_sdk.domain.key_texts import KeyKind
from lingua_sdk.domain.vocabulary import NODE_TOKEN
from lingua_sdk.identity import KeyPair
from tests.support.joining import CLUSTER, identity_of, joined_credential
from tests.support.tokens import NOW_MS, NOW_S, Book, issuer, token

PAIR, OTHER = KeyPair(), KeyPair()
NODE = joined_credential(PAIR, tenant="acme", max_slots=4)
ME = identity_of(NODE.id, PAIR)


def reader(*known: Any) -> NodeTokens:
    return reader_of(Book(*(known or (NODE,))))


def reader_of(book: Book) -> NodeTokens:
    return NodeTokens(book, CLUSTER, TokenReader(book, "lingua", 86_400_000))


def reason(found: Principal | Denied) -> str:
    assert isinstance(found, Denied), found
    assert (found.status, found.code) in ((401, "UNAUTHENTICATED"), (401, "TOKEN_EXPIRED"))
    return found.reason


def forged(key: KeyPair = PAIR, headers: dict[str, Any] | None = None, **claims: Any) -> str:
    said = {"iss": NODE.id, "aud": CLUSTER, "iat": NOW_S, "exp": NOW_S + 60, "jti": "j" * 24} | claims
    return jwt.encode(said, key.key, "EdDSA", headers={"kid": NODE.id, "typ": NODE_TOKEN} | (headers or {}))


def test_a_node_is_known_by_its_signature_and_has_the_rights_of_its_credential() -> None:
    found = reader().read(ME.signed(NOW_S), NOW_MS)
    assert found == Principal(
        kind=PrincipalKind.NODE,
        scopes=frozenset({Scope.NODE_REGISTER}),
        tenant="acme",
        key_id=NODE.id,
        node_id="gpu-7",
        max_slots=4,
    )


def test_a_connection_outlives_the_minute_of_its_token() -> None:
    found = reader(joined_credential(PAIR, expires_ms=NOW_MS + 5_000_000)).read(ME.signed(NOW_S), NOW_MS)
    assert isinstance(found, Principal)
    assert found.expires_ms == NOW_MS + 5_000_000


def test_40_a_token_counts_once() -> None:
    tokens, text = reader(), ME.signed(NOW_S)
    assert isinstance(tokens.read(text, NOW_MS), Principal)
    for later_ms in (0, 30_000, 60_000 + LEEWAY_MS):
        assert reason(tokens.read(text, NOW_MS + later_ms)) == "used before"
    assert isinstance(tokens.read(ME.signed(NOW_S), NOW_MS), Principal)


def test_40_a_token_does_not_count_after_its_minute() -> None:
    assert reason(reader().read(ME.signed(NOW_S), NOW_MS + 60_001 + LEEWAY_MS)) == "token expired"


@pytest.mark.parametrize("audience", ["lingua", cluster_audience("lingua", "lingua:v2")])
def test_40_a_token_for_another_cluster_does_not_count(audience: str) -> None:
    assert reason(reader().read(identity_of(NODE.id, PAIR, audience).signed(NOW_S), NOW_MS)) == "for another cluster"


def test_another_key_signs_in_vain() -> None:
    assert reason(reader().read(forged(OTHER), NOW_MS)) == "wrong signature"
    # And what it could not sign is not used up by it.
    assert isinstance(reader().read(forged(), NOW_MS), Principal)


def test_a_refused_token_leaves_nothing_in_memory() -> None:
    tokens = reader()
    for _ in range(10):
        tokens.read(forged(OTHER), NOW_MS)
    assert not tokens._used


@pytest.mark.parametrize(
    ("headers", "claims", "why"),
    [
        ({"kid": "unknown00000"}, {"iss": "unknown00000"}, "no such node"),
        ({}, {"iss": "another00000"}, "no such node"),
        ({}, {"exp": NOW_S + 61}, "its lifetime is too long or negative"),
        ({}, {"lingua": {"tenant": "beta"}}, "a claim is missing, unknown or malformed"),
        ({"crit": ["x"]}, {}, "crit in the header"),
    ],
)
def test_what_a_node_may_not_say_refuses_its_token(headers: dict[str, Any], claims: dict[str, Any], why: str) -> None:
    assert reason(reader().read(forged(headers=headers, **claims), NOW_MS)) == why


def test_a_key_without_a_public_key_has_no_tokens_of_its_own() -> None:
    assert reason(reader(joined_credential(PAIR, public_key="")).read(forged(), NOW_MS)) == "no such node"
    assert reason(reader(joined_credential(PAIR, kind=KeyKind.OPERATOR)).read(forged(), NOW_MS)) == "wrong signature"


def test_the_algorithm_is_the_keys_own() -> None:
    said = {"iss": NODE.id, "aud": CLUSTER, "iat": NOW_S, "exp": NOW_S + 60, "jti": "j" * 24}
    text = jwt.encode(said, bytes.fromhex(PAIR.public_text), "HS256", headers={"kid": NODE.id, "typ": NODE_TOKEN})
    assert reason(reader().read(text, NOW_MS)) == "alg is not the key's own"


def test_tokens_of_apps_are_read_as_before_and_are_no_nodes() -> None:
    app = issuer()
    assert isinstance(reader(app, NODE).read(token(), NOW_MS), Principal)
    # The same claims under the type of the other kind.
    assert reason(reader(app, NODE).read(token(typ=NODE_TOKEN), NOW_MS)) == "a claim is missing, unknown or malformed"
    assert reason(reader(app, NODE).read(forged(headers={"typ": "JWT"}), NOW_MS))


@pytest.mark.parametrize("ended", [{"revoked_ms": NOW_MS - 1}, {"expires_ms": NOW_MS}])
def test_a_node_whose_credential_has_ended_is_refused(ended: dict[str, int]) -> None:
    assert reason(reader(joined_credential(PAIR, **ended)).read(ME.signed(NOW_S), NOW_MS)) == "key revoked or expired"


def test_a_node_of_a_revoked_tenant_is_refused() -> None:
    book = Book(NODE)
    book.voids[tenant_name("acme")] = NOW_MS
    assert reason(reader_of(book).read(ME.signed(NOW_S), NOW_MS)) == "tenant revoked"


def test_a_node_that_waits_for_approval_is_told_so() -> None:
    book = Book(joined_credential(PAIR, needs_approval=True))
    tokens = reader_of(book)
    found = tokens.read(ME.signed(NOW_S), NOW_MS)
    assert isinstance(found, Denied)
    assert (found.status, found.code) == (403, "NODE_NOT_APPROVED")
    book.change(NODE.id, approved_ms=NOW_MS)
    assert isinstance(tokens.read(ME.signed(NOW_S), NOW_MS), Principal)


def test_memory_is_bounded_and_forgets_what_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_tokens, "MAX_REMEMBERED", 3)
    tokens = reader()
    for _ in range(5):
        assert isinstance(tokens.read(ME.signed(NOW_S), NOW_MS), Principal)
    assert len(tokens._used) == 3
    later_s = NOW_S + 200
    assert isinstance(tokens.read(ME.signed(later_s), later_s * 1000), Principal)
    assert len(tokens._used) == 1


@pytest.mark.parametrize("text", ["", "a.b.c", "..", "x" * 5_000, "lingua-join_abc"])
def test_rubbish_is_refused(text: str) -> None:
    assert reason(reader().read(text, NOW_MS))
