"""What the dashboard says in small places: ages, counts, drained nodes, a phone's narrow tables."""

import msgspec
import pytest
from playwright.async_api import Browser, Page, expect

from lingua_scheduler.domain.picture import Level
from tests.support import scenes
from tests.support.browser import PHONE, page_of
from tests.support.dashboards import Watched, watched

pytestmark = pytest.mark.asyncio(loop_scope="session")

WITHIN_MS = 15_000


async def open_at(page: Page, shown: Watched, route: str) -> None:
    await page.goto(f"{shown.url}#/{route}")
    await expect(page.locator("h1")).to_be_visible(timeout=WITHIN_MS)


# When Redis is away


async def test_how_old_it_is_does_not_depend_on_when_the_page_was_opened(opened: Browser) -> None:
    """Nor on the clock of whoever looks."""
    made_at_ms = scenes.picture([]).at_ms - 300_000
    alarms = [scenes.alarm("redis.away", Level.CRITICAL)]
    shown = scenes.picture(scenes.many_nodes(3), at_ms=made_at_ms, is_stale=True, alarms=alarms)
    async with watched(shown) as made, page_of(opened) as page:
        await page.add_init_script("Date.now = () => 0")
        await open_at(page, made, "overview")
        for serial in (1, 2):
            made.show(msgspec.structs.replace(shown, serial=serial))
            await expect(page.locator("body")).to_have_attribute("data-serial", str(serial))
            await expect(page.locator(".verdict")).to_contain_text("What you see is from 5 min ago")
            await expect(page.locator(".alarm-since")).to_have_text("for 1 min")


async def test_a_picture_that_became_old_does_not_turn_the_clock_back(opened: Browser) -> None:
    async with watched(scenes.picture(scenes.many_nodes(3))) as made, page_of(opened) as page:
        await open_at(page, made, "overview")
        await expect(page.locator(".connection")).to_have_text("live")
        made.change(is_stale=True, at_ms=made.picture.at_ms - 300_000)
        await expect(page.locator(".verdict")).to_contain_text("What you see is from 5 min ago")
