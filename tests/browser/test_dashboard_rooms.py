"""Rooms on the dashboard of a real scheduler: listed, looked into, closed; and on a phone, in Chinese."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from playwright.async_api import Browser, expect

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.access.scopes import Role
from tests.support.browser import PHONE, page_of
from tests.support.field_room import RoomPage
from tests.support.principals import let_in, operator
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

QUICK = {"watch__interval_ms": 200, "watch__watched_interval_ms": 100}


@asynccontextmanager
async def a_room(server: RedisProcess) -> AsyncIterator[tuple[Scheduler, list[RoomPage]]]:
    async with scheduler_on(server.url, **QUICK) as (scheduler, _), aiohttp.ClientSession() as http:
        pages = [await RoomPage(http, scheduler.port).ready(src_lang="zh") for _ in range(2)]
        await pages[1].enter(await pages[0].create(display_name="Ann", preferred_lang="en"), preferred_lang="ja")
        scheduler._rooms.overseer._here.lag.note_lag("ja", 1.5)
        await scheduler._rooms.overseer.note()
        yield scheduler, pages
        for page in pages:
            await page.close()


async def test_a_room_is_listed_looked_into_and_closed(opened: Browser, server: RedisProcess) -> None:
    async with a_room(server) as (scheduler, pages), page_of(opened) as page:
        await page.goto(f"http://127.0.0.1:{scheduler.port}/dashboard#/rooms")
        await expect(page.get_by_text("1 room · 2 members")).to_be_visible()
        await expect(page.get_by_role("row", name="Japanese 1 1.5 s")).to_be_visible()
        row = page.locator("tr[data-room]")
        await expect(row).to_contain_text(pages[0].code)
        await row.get_by_role("link").click()
        await expect(page.get_by_role("row", name=pages[0].session_id[:10])).to_contain_text("host")
        await expect(page.locator("main")).not_to_contain_text("Ann")
        await page.get_by_role("button", name="Close room").click()
        await page.get_by_role("dialog").get_by_role("button", name="Close room").click()
        await until(lambda: all(one.of("room_expired") for one in pages))
        await expect(page.get_by_text("No room is open")).to_be_visible()
        assert page.url.endswith("#/rooms")


async def test_those_who_may_not_operate_have_no_button_and_see_no_code(opened: Browser, server: RedisProcess) -> None:
    async with a_room(server) as (scheduler, pages), page_of(opened) as page:
        code, room_id = pages[0].code, pages[0].of("room_create_ack")[0]["room_id"]
        let_in(scheduler, viewer=operator(Role.VIEWER))
        await page.set_extra_http_headers({"Authorization": "Bearer viewer"})
        await page.goto(f"http://127.0.0.1:{scheduler.port}/dashboard#/rooms/{room_id}")
        await expect(page.get_by_role("row", name=pages[0].session_id[:10])).to_be_visible()
        await expect(page.get_by_role("button", name="Close room")).to_be_hidden()
        await expect(page.locator("main")).not_to_contain_text(code)


async def test_a_room_that_is_gone_is_said_so(opened: Browser, server: RedisProcess) -> None:
    async with scheduler_on(server.url, **QUICK) as (scheduler, _), page_of(opened) as page:
        await page.goto(f"http://127.0.0.1:{scheduler.port}/dashboard#/rooms/no-such-room")
        await expect(page.locator("main").get_by_role("alert")).to_contain_text("there is no room no-such-room")


async def test_on_a_phone_nothing_is_wider_than_the_screen(opened: Browser, server: RedisProcess) -> None:
    async with a_room(server) as (scheduler, _), page_of(opened, PHONE, language="zh-CN") as page:
        await page.goto(f"http://127.0.0.1:{scheduler.port}/dashboard#/rooms")
        await expect(page.locator("tr[data-room]")).to_be_visible()
        await expect(page.get_by_text("1 个房间 · 2 名成员")).to_be_visible()
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
