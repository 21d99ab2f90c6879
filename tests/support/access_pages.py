"""The dashboard of a scheduler where everybody needs a key: addresses, logins, pictures to look at."""

import os

from playwright.async_api import Page, expect

from lingua_scheduler.app import Scheduler
from tests.support.access import MadeKey

# A folder to look at the pages in.
SHOTS = os.environ.get("SHOTS", "")


def dashboard(scheduler: Scheduler, fragment: str = "") -> str:
    return f"http://127.0.0.1:{scheduler.port}/dashboard{fragment}"


async def shoot(page: Page, name: str) -> None:
    if SHOTS:
        width = (page.viewport_size or {"width": 0})["width"]
        await page.screenshot(path=f"{SHOTS}/{name}-{width}.png")


async def log_in(page: Page, scheduler: Scheduler, key: MadeKey, fragment: str = "") -> None:
    """Whatever language the page speaks."""
    await page.goto(dashboard(scheduler, fragment))
    await page.locator("#login-key").fill(key.text)
    await page.locator(".login button[type=submit]").click()
    await expect(page.locator(".verdict")).to_be_visible()
