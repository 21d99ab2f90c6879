"""Claims of the tokens that nodes sign themselves."""

import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest

from lingua_scheduler.domain.access.claims import LEEWAY_MS, BadToken, ExpiredToken
from lingua_scheduler.domain.access.node_claims import (
    NodeTokenClaims,
    check_node_claims,
    cluster_audience,
    read_node_claims,
)
from lingua_sdk.domain.vocabulary import MAX_NODE_TOKEN_S

NOW_S = 1_800_000_000
HERE = cluster_audience("lingua", "lingua:v1")
SAID: dict[str, Any] = {"iss": "k3jPq0aZ81Ty", "aud": HERE, "iat": NOW_S, "exp": NOW_S + 60, "jti": "j" * 24}


def part(**changed: Any) -> str:
    said = {name: value for name, value in (SAID | changed).items() if value is not None}
    return urlsafe_b64encode(json.dumps(said).encode()).rstrip(b"=").decode()


def claims(**changed: Any) -> NodeTokenClaims:
    return read_node_claims(part(**changed))


def test_claims_are_read() -> None:
    assert claims() == NodeTokenClaims(**SAID)
    check_node_claims(claims(), HERE, NOW_S * 1000)


@pytest.mark.parametrize("name", ["iss", "aud", "iat", "exp", "jti"])
def test_none_may_be_missing(name: str) -> None:
    with pytest.raises(BadToken, match="missing"):
        claims(**{name: None})


@pytest.mark.parametrize(
    "changed",
    [
        {"lingua": {"tenant": "acme"}},
        {"sub": "x"},
        {"jti": "short"},
        {"jti": "j" * 65},
        {"exp": 1e9},
        {"exp": -1},
        {"aud": [HERE]},
        {"iss": "k" * 65},
    ],
)
def test_what_is_unknown_or_malformed_refuses_the_token(changed: dict[str, Any]) -> None:
    with pytest.raises(BadToken):
        claims(**changed)


def test_it_is_for_one_cluster() -> None:
    for other in ("lingua", cluster_audience("lingua", "lingua:v2"), cluster_audience("other", "lingua:v1")):
        with pytest.raises(BadToken, match="another cluster"):
            check_node_claims(claims(), other, NOW_S * 1000)


@pytest.mark.parametrize("exp", [NOW_S, NOW_S - 1, NOW_S + MAX_NODE_TOKEN_S + 1])
def test_it_lives_a_minute_at_most(exp: int) -> None:
    with pytest.raises(BadToken, match="lifetime"):
        check_node_claims(claims(exp=exp), HERE, NOW_S * 1000)


def test_clocks_may_differ_a_little() -> None:
    end_ms = (NOW_S + 60) * 1000 + LEEWAY_MS
    check_node_claims(claims(), HERE, end_ms)
    with pytest.raises(ExpiredToken):
        check_node_claims(claims(), HERE, end_ms + 1)
    check_node_claims(claims(), HERE, NOW_S * 1000 - LEEWAY_MS)
    with pytest.raises(BadToken, match="not valid yet"):
        check_node_claims(claims(), HERE, NOW_S * 1000 - LEEWAY_MS - 1)
