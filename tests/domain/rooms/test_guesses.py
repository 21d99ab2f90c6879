"""Tenants in which codes are being guessed."""

import pytest

from lingua_scheduler.domain.rooms import guesses
from lingua_scheduler.domain.rooms.guesses import ALARM_S, GuessedTenants


def test_a_tenant_is_news_once_and_keeps_its_highest_number_until_it_was_quiet_for_long() -> None:
    tenants = GuessedTenants()
    assert tenants.saw("acme", 60, 0.0)
    assert not tenants.saw("acme", 90, 1.0)
    assert not tenants.saw("acme", 61, 100.0)
    assert tenants.saw("beta", 60, 100.0)
    assert tenants.at(100.0 + ALARM_S - 1) == {"acme": 90, "beta": 60}
    assert tenants.at(100.0 + ALARM_S) == {}
    assert tenants.saw("acme", 60, 100.0 + ALARM_S)
    assert tenants.at(100.0 + ALARM_S) == {"acme": 60}


def test_what_is_known_of_tenants_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guesses, "MAX_TENANTS", 2)
    tenants = GuessedTenants()
    for tenant in ("a", "b", "a", "c"):
        tenants.saw(tenant, 1, 0.0)
    assert tenants.at(0.0) == {"a": 1, "c": 1}
