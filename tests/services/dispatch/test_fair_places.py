"""Who waits for a place: callers get one in turn, however many of one caller wait."""

import asyncio
from collections.abc import Callable

from lingua_scheduler.services.dispatch.fair_places import FairPlaces


class Scene:
    """Callers that stay in their place until they are sent away."""

    def __init__(self, places: int) -> None:
        self.places = FairPlaces(places)
        self.served: list[str] = []
        self.inside: list[tuple[str, asyncio.Event]] = []

    async def come(self, name: str) -> None:
        async with self.places.place(name.rstrip("0123456789")):
            leave = asyncio.Event()
            self.served.append(name)
            self.inside.append((name, leave))
            await leave.wait()

    async def send_away(self, count: int = 1) -> None:
        for _ in range(count):
            self.inside.pop(0)[1].set()
            await settle()


async def settle(when: Callable[[], bool] = lambda: True) -> None:
    for _ in range(10):
        await asyncio.sleep(0)
    assert when()


async def test_a_caller_waits_for_one_place_and_not_for_the_queue_of_another() -> None:
    scene = Scene(2)
    async with asyncio.TaskGroup() as group:
        for name in ("a1", "a2", "a3", "a4", "a5", "b1", "c1", "b2"):
            group.create_task(scene.come(name))
        await settle(lambda: scene.served == ["a1", "a2"])
        await scene.send_away(8)
    assert scene.served == ["a1", "a2", "a3", "b1", "c1", "a4", "b2", "a5"]


async def test_who_gives_up_leaves_no_trace_and_keeps_no_place() -> None:
    scene = Scene(1)
    first, second, third, fourth = (asyncio.create_task(scene.come(name)) for name in ("a1", "b1", "b2", "c1"))
    await settle()
    second.cancel()
    await settle()
    # Its place is free in the same moment in which it gives up.
    scene.inside.pop(0)[1].set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    third.cancel()
    await settle(lambda: "c1" in scene.served)
    scene.inside[-1][1].set()
    await asyncio.gather(first, second, third, fourth, return_exceptions=True)
    again = asyncio.create_task(scene.come("d1"))
    await settle(lambda: scene.served[-1] == "d1")
    await scene.send_away(len(scene.inside))
    await again
    assert not scene.places._waiting
    assert scene.places._free == 1


async def test_a_place_that_is_given_to_one_that_gives_up_in_that_moment_is_free_again() -> None:
    places, served = FairPlaces(1), list[str]()

    async def come(name: str) -> None:
        async with places.place(name):
            served.append(name)

    async with places.place("a"):
        leaving, staying = asyncio.create_task(come("b")), asyncio.create_task(come("c"))
        await settle()
    # The place is its own now, and it does not know yet.
    leaving.cancel()
    await settle()
    assert served == ["c"]
    assert staying.done()
    assert (places._free, len(places._waiting)) == (1, 0)


async def test_a_caller_of_which_none_waits_any_more_is_not_in_the_line() -> None:
    scene = Scene(1)
    first, second, third = (asyncio.create_task(scene.come(name)) for name in ("a1", "b1", "b2"))
    await settle()
    third.cancel()
    await settle()
    assert len(scene.places._waiting["b"]) == 1
    second.cancel()
    await settle()
    assert len(scene.places._waiting) == 0
    await scene.send_away()
    await first
    assert scene.places._free == 1
