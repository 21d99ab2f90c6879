"""What a token says, as far as it can be judged without its signature."""

import pytest

from lingua_scheduler.domain.access.claims import (
    BadToken,
    ExpiredToken,
    check_claims,
    check_expiry,
    check_shape,
    read_claims,
    read_header,
)
from tests.support.tokens import NOW_MS, NOW_S, claims, encoded


def test_a_token_has_three_parts_and_a_limit() -> None:
    assert check_shape("ab.c-_.d") == ("ab", "c-_")
    assert check_shape(f"{'a' * 4092}.b.c")[0] == "a" * 4092
    for text in ("", "a.b", "a.b.", ".b.c", "a..c", "a.b.c.d", "a.b.c\n", "a.b.é", f"{'a' * 4093}.b.c"):
        with pytest.raises(BadToken):
            check_shape(text)


def test_a_header_names_an_algorithm_and_a_key_and_nothing_critical() -> None:
    found = read_header(encoded({"alg": "EdDSA", "kid": "k" * 128, "jku": 7}))
    assert (found.alg, found.kid) == ("EdDSA", "k" * 128)
    for header in (
        {"alg": "EdDSA"},
        {"kid": "k"},
        {"alg": "a", "kid": "k" * 129},
        {"alg": "a", "kid": "k", "crit": []},
    ):
        with pytest.raises(BadToken):
            read_header(encoded(header))


def test_an_expired_token_is_told_from_a_bad_one() -> None:
    said = read_claims(encoded(claims(exp=NOW_S + 0.5)))
    check_claims(said, "lingua", 86_400_000, NOW_MS + 30_500)
    with pytest.raises(ExpiredToken):
        check_claims(said, "lingua", 86_400_000, NOW_MS + 30_501)
    with pytest.raises(BadToken, match="another audience"):
        check_claims(said, "other", 86_400_000, NOW_MS + 30_501)
    with pytest.raises(ExpiredToken):
        check_expiry(NOW_MS, NOW_MS + 30_001)


def test_the_message_of_a_bad_token_has_nothing_of_it() -> None:
    with pytest.raises(BadToken) as caught:
        read_claims(encoded(claims(lingua={"tenant": "acme", "zebrafinch": 1})))
    assert "zebrafinch" not in str(caught.value)
    assert caught.value.__cause__ is None
