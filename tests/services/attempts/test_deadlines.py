"""Deadlines share timers: none rings early, one that was cleared does not ring at all."""

from collections.abc import Callable
from typing import Any

import pytest

from lingua_scheduler.services.attempts.deadlines import Deadlines

# As plain values: a limit that changes is noticed.
GRAIN_S = 0.02


class Loop:
    """Time passes when it is told to."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.timers: list[tuple[float, Callable[..., None], Any]] = []

    def time(self) -> float:
        return self.now_s

    def call_later(self, delay_s: float, ring: Callable[..., None], moment: int) -> None:
        self.timers.append((self.now_s + delay_s, ring, moment))

    def pass_s(self, seconds: float) -> None:
        self.now_s += seconds
        due = [timer for timer in self.timers if timer[0] <= self.now_s]
        self.timers = [timer for timer in self.timers if timer[0] > self.now_s]
        for _, ring, moment in due:
            ring(moment)


class Bell:
    def __init__(self) -> None:
        self.rang = 0

    def ring(self) -> None:
        self.rang += 1


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def deadlines(loop: Loop) -> Deadlines:
    deadlines = Deadlines(loop.time)
    vars(deadlines)["loop"] = loop
    return deadlines


@pytest.mark.parametrize("timeout_s", [0.0, 0.001, 0.5 * GRAIN_S, GRAIN_S, 0.5, 3.14])
def test_a_deadline_rings_once_never_early_and_hardly_late(deadlines: Deadlines, loop: Loop, timeout_s: float) -> None:
    bell = Bell()
    deadlines.set(timeout_s, bell)
    ((when_s, _, _),) = loop.timers
    assert loop.now_s + timeout_s < when_s <= loop.now_s + timeout_s + 1.001 * GRAIN_S
    loop.pass_s(timeout_s + 2 * GRAIN_S)
    loop.pass_s(60)
    assert bell.rang == 1


def test_one_that_was_cleared_does_not_ring_and_its_neighbour_does(deadlines: Deadlines, loop: Loop) -> None:
    cleared, other = Bell(), Bell()
    moment = deadlines.set(0.5, cleared)
    deadlines.set(0.5, other)
    deadlines.clear(moment, cleared)
    loop.pass_s(1)
    assert (cleared.rang, other.rang) == (0, 1)


def test_one_that_has_rung_may_still_be_cleared(deadlines: Deadlines, loop: Loop) -> None:
    bell = Bell()
    moment = deadlines.set(0.5, bell)
    loop.pass_s(1)
    deadlines.clear(moment, bell)
    assert bell.rang == 1


def test_deadlines_of_the_same_moment_share_a_timer(deadlines: Deadlines, loop: Loop) -> None:
    bells = [Bell() for _ in range(3)]
    assert len({deadlines.set(0.5, bell) for bell in bells}) == 1
    assert len(loop.timers) == 1
    deadlines.set(0.5 + 2 * GRAIN_S, Bell())
    assert len(loop.timers) == 2
    loop.pass_s(1)
    assert [bell.rang for bell in bells] == [1, 1, 1]
