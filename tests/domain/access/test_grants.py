"""The claim `lingua`, and what language pairs allow."""

import pytest

from lingua_scheduler.domain.access.grants import Grants, are_within
from lingua_scheduler.domain.access.scopes import Scope


def test_grants_are_scopes() -> None:
    assert Grants(tenant="a").scopes == {Scope.SESSION_OPEN}
    assert Grants(tenant="a", grants=("session", "dispatch")).scopes == {Scope.SESSION_OPEN, Scope.DISPATCH_CALL}
    assert Grants(tenant="a", grants=()).scopes == frozenset()


@pytest.mark.parametrize(
    ("pairs", "limits", "expected"),
    [
        ((), (), True),
        (("*:*",), (), True),
        ((), ("zh:en",), True),
        (("zh:en",), ("zh:en",), True),
        (("zh:en",), ("zh:*",), True),
        (("zh:en",), ("*:en",), True),
        (("zh:*",), ("*:*",), True),
        (("zh:en", "en:zh"), ("en:*", "zh:*"), True),
        (("zh:*",), ("zh:en",), False),
        (("*:en",), ("zh:en",), False),
        (("zh:en", "zh:fr"), ("zh:en",), False),
        (("en:zh",), ("zh:en",), False),
    ],
)
def test_pairs_are_within_limits(pairs: tuple[str, ...], limits: tuple[str, ...], expected: bool) -> None:
    assert are_within(pairs, limits) is expected
