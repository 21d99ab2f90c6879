"""An instance that started again where another died replaces it; one instance replaces one."""

from typing import Any

import pytest

from lingua_scheduler.domain.watching.picture import InstanceLook
from lingua_scheduler.domain.watching.succession import SKEW_MS, missed
from tests.support.pictures import AT_MS, instance

DIED_MS = 60_000


def dead(name: str = "dead", silent_ms: int = DIED_MS, **more: Any) -> InstanceLook:
    return instance(name, **({"is_alive": False, "silent_ms": silent_ms, "started_at_ms": AT_MS - 90_000} | more))


def started(ago_ms: int, name: str = "next", **more: Any) -> InstanceLook:
    return instance(name, started_at_ms=AT_MS - ago_ms, **more)


@pytest.mark.parametrize(
    ("others", "is_missed"),
    [
        ([], True),
        ([started(50_000)], False),
        # A sibling that was there before, and the least that clocks may be apart.
        ([started(DIED_MS + SKEW_MS + 1)], True),
        ([started(DIED_MS + SKEW_MS)], False),
        ([started(50_000, host="there")], True),
        ([started(50_000, address="here:2")], True),
        ([started(50_000, address="0.0.0.0:1")], False),
        # It was replaced, and its successor was stopped in order.
        ([started(50_000, is_alive=False, has_left=True)], False),
    ],
)
def test_who_is_missed(others: list[InstanceLook], is_missed: bool) -> None:
    assert [one.instance_id for one in missed([dead(), *others], AT_MS)] == (["dead"] if is_missed else [])


def test_one_worker_does_not_replace_two() -> None:
    both = [dead("first", 60_000), dead("second", 59_000)]
    assert [one.instance_id for one in missed([*both, started(50_000)], AT_MS)] == ["second"]
    assert missed([*both, started(50_000), started(49_000, "other")], AT_MS) == []


def test_of_an_instance_that_dies_again_and_again_only_the_last_is_missed() -> None:
    course = [
        dead("a", 90_000, started_at_ms=AT_MS - 120_000),
        dead("b", 60_000, started_at_ms=AT_MS - 80_000),
        dead("c", 30_000, started_at_ms=AT_MS - 50_000),
    ]
    assert [one.instance_id for one in missed(course, AT_MS)] == ["c"]
    assert missed([*course, started(20_000)], AT_MS) == []
