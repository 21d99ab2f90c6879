"""Free slots told to other instances: only while they wait, and not too often."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lingua_scheduler.protocol.signals import JobsWait, SlotFreed
from lingua_scheduler.services.dispatch import nudging
from lingua_scheduler.services.dispatch.nudging import Nudger
from lingua_scheduler.services.dispatch.waiting import WaitingRoom
from lingua_scheduler.store.cluster.signals import Signals
from lingua_scheduler.store.connection import RedisAway
from tests.support.waiting import until

# As plain values: a limit that changes is noticed.
ANNOUNCED_POOLS_MAX = 32
WANTED_POOLS_MAX = 256


class Air:
    """What was said to everybody."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.is_away = False

    def publish(self, signal: Any) -> "asyncio.Future[None]":
        if self.is_away:
            raise RedisAway("gone")
        self.said.append(signal)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done


class Room:
    def __init__(self, *pools: str) -> None:
        self._pools = pools
        self.poked: list[str] = []

    def pools(self, most: int) -> list[str]:
        return list(self._pools[:most])

    def poke_pool(self, pool: str) -> None:
        self.poked.append(pool)


def nudger(air: Air, room: Room) -> Nudger:
    return Nudger("me", cast("Signals", cast("Any", air)), cast("WaitingRoom", cast("Any", room)))


async def test_what_jobs_wait_for_here_is_announced_and_nothing_is_when_none_wait() -> None:
    air = Air()
    await nudger(air, Room()).announce()
    assert air.said == []
    await nudger(air, Room("a", "b")).announce()
    assert air.said == [JobsWait("me", ["a", "b"])]


async def test_a_slot_is_told_to_others_that_wait_for_it_and_to_nobody_else() -> None:
    air = Air()
    here = nudger(air, Room())
    here.unclaimed(["a"])
    here.others_wait(JobsWait("me", ["a"]))  # our own word comes back to us
    here.unclaimed(["a"])
    assert air.said == []
    here.others_wait(JobsWait("other", ["a", "b"]))
    here.unclaimed(["a", "c"])
    assert air.said == [SlotFreed("me", "a")]


async def test_slots_that_follow_at_once_are_told_once_a_while_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nudging, "FRESH_S", 60.0)
    air = Air()
    here = nudger(air, Room())
    here.others_wait(JobsWait("other", ["a"]))
    for _ in range(5):
        here.unclaimed(["a"])
    assert air.said == [SlotFreed("me", "a")]
    await until(lambda: len(air.said) == 2)
    assert here._timers == {}
    here.unclaimed(["a"])
    assert len(here._timers) + len(air.said) == 3


async def test_who_waited_long_ago_waits_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nudging, "FRESH_S", -1.0)
    air = Air()
    here = nudger(air, Room())
    here.others_wait(JobsWait("other", ["a"]))
    here.unclaimed(["a"])
    assert (air.said, here._wanted) == ([], {})


async def test_without_redis_nobody_is_told_and_nothing_fails() -> None:
    air = Air()
    here = nudger(air, Room())
    here.others_wait(JobsWait("other", ["a"]))
    air.is_away = True
    here.unclaimed(["a"])
    assert air.said == []


async def test_a_slot_that_became_free_elsewhere_wakes_who_waits_here() -> None:
    room = Room()
    here = nudger(Air(), room)
    here.slot_freed(SlotFreed("me", "a"))
    here.slot_freed(SlotFreed("other", "b"))
    assert room.poked == ["b"]


async def test_what_others_say_is_remembered_within_bounds() -> None:
    here = nudger(Air(), Room())
    for number in range(20):
        here.others_wait(JobsWait("other", [f"{number}-{pool}" for pool in range(100)]))
    assert len(here._wanted) == WANTED_POOLS_MAX
    assert "0-31" in here._wanted
    assert f"0-{ANNOUNCED_POOLS_MAX}" not in here._wanted


async def test_the_word_of_others_holds_for_six_tenths_of_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    air, now_s, waits = Air(), 100.0, list[float]()
    here = Nudger("me", cast("Signals", cast("Any", air)), cast("WaitingRoom", cast("Any", Room())), lambda: now_s)
    here.others_wait(JobsWait("other", ["a"]))
    now_s = 100.59
    here.unclaimed(["a"])
    assert air.said == [SlotFreed("me", "a")]

    def call_later(wait_s: float, *_: object) -> object:
        waits.append(wait_s)
        return object()

    # Fifty a second for each pool.
    here.others_wait(JobsWait("other", ["a"]))
    now_s = 100.6
    with monkeypatch.context() as patch:
        loop = SimpleNamespace(call_later=call_later)
        patch.setattr(nudging, "asyncio", SimpleNamespace(get_running_loop=lambda: loop))
        here.unclaimed(["a"])
    assert waits == [pytest.approx(0.01)]
    here._timers.clear()
    now_s = 100.62
    here.unclaimed(["a"])
    assert (len(air.said), here._timers) == (2, {})
    now_s = here._wanted["a"]
    here.unclaimed(["a"])
    assert len(air.said) == 3
    now_s += 0.001
    here.unclaimed(["a"])
    assert (len(air.said), here._wanted, here._nudged) == (3, {}, {})
