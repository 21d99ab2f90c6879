"""The table of requirements."""

import pytest

from lingua_scheduler.conformance.checks import CLIENT_CHECKS, NODE_CHECKS, Check


@pytest.mark.parametrize("checks", [NODE_CHECKS, CLIENT_CHECKS])
def test_each_has_a_name_of_its_own_and_a_sentence(checks: tuple[Check, ...]) -> None:
    assert len({one.name for one in checks}) == len(checks)
    assert [one.name for one in checks if not one.must.endswith(".")] == []
