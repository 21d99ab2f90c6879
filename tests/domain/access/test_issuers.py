"""Issuers of tokens: for whom they speak, and until when."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.domain.access.issuers import Issuer, joined_issuer

ACME = Issuer(id="k1", tenant="acme", issuer="https://acme.example")
times = st.integers(0, 10**15 - 1)
copies = st.builds(
    lambda expires_ms, revoked_ms, in_file: msgspec.structs.replace(
        ACME, expires_ms=expires_ms, revoked_ms=revoked_ms, in_file=in_file
    ),
    times,
    times,
    st.booleans(),
)


def test_an_issuer_speaks_for_its_tenant_and_those_it_may_act_for() -> None:
    assert ACME.speaks_for("acme")
    assert not ACME.speaks_for("beta")
    assert not ACME.speaks_for("")
    for_beta = msgspec.structs.replace(ACME, act_for=("beta",))
    assert for_beta.speaks_for("acme")
    assert for_beta.speaks_for("beta")
    assert not for_beta.speaks_for("gamma")
    assert msgspec.structs.replace(ACME, act_for=("*",)).speaks_for("gamma")


def test_it_lives_until_it_expires_or_is_revoked() -> None:
    assert ACME.is_live(10**14)
    assert ACME.ended_ms() == 0
    expiring = msgspec.structs.replace(ACME, expires_ms=10)
    assert expiring.is_live(9)
    assert not expiring.is_live(10)
    assert expiring.ended_ms() == 10
    assert not msgspec.structs.replace(ACME, revoked_ms=10).is_live(5)


@given(copies, copies, copies, times)
def test_copies_are_joined_in_any_order(one: Issuer, two: Issuer, three: Issuer, now_ms: int) -> None:
    assert joined_issuer(one, two) == joined_issuer(two, one)
    assert joined_issuer(joined_issuer(one, two), three) == joined_issuer(one, joined_issuer(two, three))
    assert joined_issuer(one, one) == one
    assert joined_issuer(one, two).is_live(now_ms) == (one.is_live(now_ms) and two.is_live(now_ms))


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": ""},
        {"id": "a/b"},
        {"id": "k1\n"},
        {"id": "x" * 65},
        {"issuer": ""},
        {"issuer": "x" * 513},
        {"algorithm": "none"},
        {"algorithm": "HS256"},
        {"tenant": "acme\n"},
        {"public_key": "x" * 8193},
        {"jwks_url": "x" * 1025},
        {"expires_ms": -1},
    ],
    ids=str,
)
def test_what_is_out_of_bounds_is_no_issuer(wrong: dict[str, object]) -> None:
    right = msgspec.to_builtins(ACME)
    assert msgspec.convert(right, Issuer) == ACME
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(right | wrong, Issuer)
