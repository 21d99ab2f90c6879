"""Keys that end soon and are still in use."""

from typing import Any

import pytest

from lingua_scheduler.domain.access.expiring import IN_USE_MS, SOON_MS, expiring
from lingua_sdk.domain.key_texts import KeyKind
from tests.support.credentials import key

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("about", "used_ms", "is_told"),
    [
        ({"expires_ms": NOW_MS + SOON_MS}, NOW_MS, True),
        ({"expires_ms": NOW_MS + 1}, NOW_MS - IN_USE_MS + 1, True),
        ({"expires_ms": NOW_MS + SOON_MS + 1}, NOW_MS, False),
        ({"expires_ms": NOW_MS + 1}, NOW_MS - IN_USE_MS, False),
        ({"expires_ms": NOW_MS + 1}, 0, False),
        ({"expires_ms": NOW_MS}, NOW_MS, False),
        ({"expires_ms": NOW_MS + 1, "revoked_ms": 1}, NOW_MS, False),
        ({}, NOW_MS, False),
    ],
)
def test_a_key_is_told_while_it_is_used_and_ends_within_the_hour(
    about: dict[str, Any], used_ms: int, is_told: bool
) -> None:
    one = key("a", **about)
    found = expiring([one], {one.id: used_ms}.__getitem__, NOW_MS)
    assert found == ({f"lk_sv_{one.id}": about["expires_ms"]} if is_told else {})


@pytest.mark.parametrize(("joined", "is_told"), [(0, True), (1, True), (2, False)])
def test_an_enrolment_key_that_is_used_up_locks_no_one_out(joined: int, is_told: bool) -> None:
    one = key("a", kind=KeyKind.ENROLMENT, max_nodes=2, expires_ms=NOW_MS + 1)
    nodes = [key(f"node-{number}", kind=KeyKind.NODE, enrolled_with=one.id) for number in range(joined)]
    assert bool(expiring(iter([one, *nodes]), lambda _: NOW_MS, NOW_MS)) == is_told
