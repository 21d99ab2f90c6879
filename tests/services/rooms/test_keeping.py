"""Members that are gone: of a dead instance, and of a live one that has them no more."""

from collections.abc import AsyncIterator

import aiohttp
import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.rooms.rooms import AboutMember, Participant, RoomName
from lingua_scheduler.store.rooms.rooms import RoomLimits
from tests.support.field_room import RoomPage
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

LIMITS = RoomLimits(10, 1_800_000)


@pytest.fixture
async def scheduler(server: RedisProcess) -> AsyncIterator[Scheduler]:
    async with scheduler_on(server.url, sessions__grace_ms=500) as (found, _):
        yield found


@pytest.fixture
async def page(scheduler: Scheduler) -> AsyncIterator[RoomPage]:
    async with aiohttp.ClientSession() as http:
        page = await RoomPage(http, scheduler.port).ready()
        yield page
        await page.close()


async def test_a_member_of_a_dead_instance_is_removed_after_the_grace_period(
    scheduler: Scheduler, page: RoomPage
) -> None:
    name = RoomName("default", await page.create())
    store = scheduler._store.rooms
    await store.join(name, Participant("s-GONE", "i-dead 1-1", AboutMember(name="Ghost"), 0), LIMITS)
    await scheduler._rooms.keeper.look()
    await until(lambda: len(page.members) == 2, what="it is still listed")

    async def is_alone() -> bool:
        await scheduler._rooms.keeper.look()
        return page.sees(page)

    await until(is_alone)


async def test_a_member_that_this_instance_has_no_more_is_removed(scheduler: Scheduler, page: RoomPage) -> None:
    name = RoomName("default", await page.create())
    owner = f"{scheduler.instance} {scheduler.presence.me.incarnation}-99"
    await scheduler._store.rooms.join(name, Participant("s-LOST", owner, AboutMember(), 0), LIMITS)

    async def is_alone() -> bool:
        await scheduler._rooms.keeper.look()
        return page.sees(page) and len(page.of("room_members")) > 1

    await until(is_alone)
