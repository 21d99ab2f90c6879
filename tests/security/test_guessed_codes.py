"""Attack D63: room codes tried from 50 addresses, at one instance and at three."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import aiohttp
import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.telemetry import metrics
from tests.support.field_room import RoomPage
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

ATTACKERS, EACH, LIMIT = 50, 5, 60
WAYS = {"auth__mode": "off", "server__unmetered_addresses": [], "rooms__all_misses_per_min": LIMIT}


@asynccontextmanager
async def page_from(address: str, scheduler: Scheduler) -> AsyncIterator[RoomPage]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(local_addr=(address, 0))) as http:
        page = await RoomPage(http, scheduler.port).ready()
        try:
            yield page
        finally:
            await page.close()


async def tried(page: RoomPage, *codes: str) -> list[str]:
    """The answers to these codes."""
    before = len(page.of("room_error"))
    for code in codes:
        await page.join(code)
    await until(lambda: len(page.of("room_error")) == before + len(codes))
    return [error["code"] for error in page.of("room_error")[before:]]


async def alarms_of(scheduler: Scheduler) -> list[tuple[str, str]]:
    async with aiohttp.ClientSession() as http:
        answer = await http.get(f"http://127.0.0.1:{scheduler.port}/v1/alarms")
        return [(alarm["code"], alarm["subject"]) for alarm in (await answer.json())["alarms"]]


async def raises_the_alarm(scheduler: Scheduler) -> bool:
    return ("rooms.guessing", "default") in await alarms_of(scheduler)


@pytest.mark.parametrize("count", [1, 3])
async def test_63_codes_tried_from_50_addresses_are_limited_and_an_alarm_is_raised(
    server: RedisProcess, count: int
) -> None:
    refused = metrics.ROOM_GUESSES_REFUSED._value.get()
    async with AsyncExitStack() as stack:
        started = [
            await stack.enter_async_context(scheduler_on(server.url, server__instance_id=f"i{number}", **WAYS))
            for number in range(count)
        ]
        schedulers = [scheduler for scheduler, _ in started]
        host = await stack.enter_async_context(page_from("127.0.0.200", schedulers[0]))
        code = await host.create()
        wrong = [f"{number:06}" for number in range(100_000, 100_500) if f"{number:06}" != code]
        pages = [
            await stack.enter_async_context(page_from(f"127.0.0.{10 + number}", schedulers[number % count]))
            for number in range(ATTACKERS)
        ]
        # Each address is well below its own limit.
        first = await asyncio.gather(*(tried(page, wrong.pop()) for page in pages))
        later = await asyncio.gather(*(tried(page, *(wrong.pop() for _ in range(EACH - 2))) for page in pages))
        answers = Counter(answer for some in (*first, *later) for answer in some)
        assert answers == {"ROOM_NOT_FOUND": LIMIT, "QUOTA_EXCEEDED": ATTACKERS * (EACH - 1) - LIMIT}
        assert metrics.ROOM_GUESSES_REFUSED._value.get() - refused == answers["QUOTA_EXCEEDED"]
        # Nor is one of them told that it has found the code.
        assert await tried(pages[0], code) == ["QUOTA_EXCEEDED"]
        # Those who know the code get in, wherever they come in, and several behind one address.
        for number in range(6):
            guest = await stack.enter_async_context(page_from("127.0.0.201", schedulers[-1 - number % count]))
            await guest.enter(code)
        for scheduler in schedulers:
            await until(partial(raises_the_alarm, scheduler))


async def test_people_behind_one_address_may_all_join_at_once(server: RedisProcess) -> None:
    async with scheduler_on(server.url, **WAYS) as (scheduler, _), AsyncExitStack() as stack:
        host = await stack.enter_async_context(page_from("127.0.0.200", scheduler))
        code = await host.create()
        guests = [await stack.enter_async_context(page_from("127.0.0.201", scheduler)) for _ in range(20)]
        await asyncio.gather(*(guest.enter(code) for guest in guests))
