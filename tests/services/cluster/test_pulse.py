"""A process that stood still knows it for a while."""

import asyncio

import pytest

from lingua_scheduler.services.cluster import pulse as module
from lingua_scheduler.services.cluster.pulse import Pulse

# As plain values: a limit that changes is noticed.
BEAT_S = 0.25
CATCHING_UP_S = 2.0
STOOD_STILL_S = 1.0


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_while_it_beats_nothing_is_late() -> None:
    clock = Clock()
    pulse = Pulse(clock)
    for _ in range(20):
        clock.now_s += BEAT_S
        assert not pulse.is_behind
        pulse.beat()


def test_after_it_stood_still_it_is_behind_before_and_after_the_next_beat() -> None:
    clock = Clock()
    pulse = Pulse(clock)
    clock.now_s += STOOD_STILL_S + 0.1
    assert pulse.is_behind
    pulse.beat()
    assert pulse.is_behind
    for _ in range(int(CATCHING_UP_S / BEAT_S) + 1):
        clock.now_s += BEAT_S
        pulse.beat()
    assert not pulse.is_behind


async def test_it_keeps_beating(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BEAT_S", 0.0)
    clock = Clock()
    pulse = Pulse(clock)
    beating = asyncio.create_task(pulse.keep_beating())
    for _ in range(2):
        clock.now_s += STOOD_STILL_S
        await asyncio.sleep(0.01)
        assert not pulse.is_behind
    beating.cancel()
    clock.now_s += STOOD_STILL_S + 0.1
    assert pulse.is_behind
