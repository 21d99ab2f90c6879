"""Issuers speak for their tenant, for those that they may act for, and until they end."""

import pytest

from lingua_scheduler.domain.access.issuers import Issuer


@pytest.mark.parametrize(
    ("act_for", "tenant", "expected"),
    [
        ((), "acme", True),
        ((), "beta", False),
        (("beta",), "beta", True),
        (("beta",), "gamma", False),
        (("*",), "gamma", True),
    ],
)
def test_an_issuer_speaks_for_its_tenants(act_for: tuple[str, ...], tenant: str, expected: bool) -> None:
    assert Issuer(id="a", issuer="a", tenant="acme", act_for=act_for).speaks_for(tenant) is expected


def test_an_issuer_ends_when_it_expires_or_is_revoked() -> None:
    assert Issuer(id="a", issuer="a").is_live(1)
    assert Issuer(id="a", issuer="a", expires_ms=10).is_live(9)
    assert not Issuer(id="a", issuer="a", expires_ms=10).is_live(10)
    assert not Issuer(id="a", issuer="a", revoked_ms=10).is_live(9)
