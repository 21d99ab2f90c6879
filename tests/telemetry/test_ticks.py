"""Timers on a grid share their wake-ups, and are cancelled alone."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from lingua_scheduler.telemetry import ticks
from lingua_scheduler.telemetry.ticks import GRAIN_S, SHORTEST_S

# Nobody waits for so long; the middle of a slot, and how far from it is safely in the same one.
LONG_S, NEAR_S = 200 * GRAIN_S, GRAIN_S / 4


class Sleepers:
    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[None]] = []

    async def add(self, *seconds: float) -> list[asyncio.Task[None]]:
        added = [asyncio.create_task(ticks.grid().sleep(each)) for each in seconds]
        self.tasks += added
        await asyncio.sleep(0)
        return added

    @property
    def timers(self) -> int:
        """Of those who have not woken up, long ones only."""
        return len(self._grid._slots)

    def ring_all(self) -> None:
        for moment in list(self._grid._slots):
            self._grid._ring(moment)

    @property
    def _grid(self) -> ticks.Grid:
        return ticks.grid()


@pytest.fixture
async def sleepers() -> AsyncIterator[Sleepers]:
    # What other tests have left on this loop is not ours.
    ticks._GRIDS.pop(asyncio.get_running_loop(), None)
    found = Sleepers()
    yield found
    for task in found.tasks:
        task.cancel()
    await asyncio.gather(*found.tasks, return_exceptions=True)
    assert found.timers == 0


async def test_those_who_wake_up_at_about_the_same_time_share_a_timer(sleepers: Sleepers) -> None:
    waiting = await sleepers.add(LONG_S)
    assert sleepers.timers == 1
    moment = next(iter(sleepers._grid._slots))
    left_s = sleepers._grid._begins_s + moment * GRAIN_S - asyncio.get_running_loop().time()
    waiting += await sleepers.add(left_s, left_s + NEAR_S)
    assert sleepers.timers == 1
    await sleepers.add(left_s + 2 * GRAIN_S)
    assert sleepers.timers == 2
    sleepers.ring_all()
    await asyncio.gather(*waiting)


async def test_who_is_cancelled_wakes_nobody_else_and_leaves_no_timer(sleepers: Sleepers) -> None:
    one, other = await sleepers.add(LONG_S, LONG_S)
    one.cancel()
    await asyncio.wait((one,))
    assert sleepers.timers > 0
    assert not other.done()
    other.cancel()
    await asyncio.wait((other,))
    assert sleepers.timers == 0


async def test_nobody_wakes_up_early_by_more_than_half_a_slot(sleepers: Sleepers) -> None:
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    wanted = SHORTEST_S, GRAIN_S, 1.5 * GRAIN_S, 2 * GRAIN_S
    await sleepers.add(*wanted)
    for task, wanted_s in zip(sleepers.tasks, wanted, strict=True):
        await task
        # The clock of the loop has steps of a millisecond.
        assert loop.time() - began_s >= wanted_s - GRAIN_S / 2 - 0.002


async def test_a_short_time_is_waited_for_as_ever(sleepers: Sleepers) -> None:
    await sleepers.add(LONG_S)
    before = sleepers.timers
    (short,) = await sleepers.add(SHORTEST_S / 4)
    assert sleepers.timers == before
    await short
