"""The viewer of the HTTP operations, /docs/browse, in a browser that can reach nothing but the scheduler."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Request, expect

from tests.support.browser import PHONE, browser, page_of

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def cut_off() -> AsyncIterator[Browser]:
    """Every name and address but loopback leads nowhere."""
    async with browser("--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1") as found:
        yield found


async def open_viewer(page: Page, port: int) -> list[str]:
    """Opens it, and returns where its requests go, also those to come."""
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    page.on("request", note)
    await page.goto(f"http://127.0.0.1:{port}/docs/browse")
    await expect(page.locator(".opblock").first).to_be_visible()
    return asked


def at_home(asked: list[str], port: int) -> bool:
    return all(url.startswith((f"http://127.0.0.1:{port}/", "data:")) for url in asked)


async def test_an_operation_is_found_and_tried(cut_off: Browser, port: int) -> None:
    async with page_of(cut_off) as page:
        asked = await open_viewer(page, port)
        everything = await page.locator(".opblock").count()
        await page.locator(".operation-filter-input").fill("/v1/pools")
        await expect(page.locator(".opblock")).to_have_count(2)
        assert everything > 2
        await page.get_by_role("button", name="GET /v1/pools", exact=False).first.click()
        await page.get_by_role("button", name="Execute").click()
        answer = page.locator(".live-responses-table .response-col_status")
        await expect(answer.last).to_contain_text("200")
        assert f"http://127.0.0.1:{port}/v1/pools" in asked
        assert at_home(asked, port), asked


async def test_a_key_is_sent_to_the_scheduler_and_kept_nowhere(cut_off: Browser, port: int) -> None:
    async with page_of(cut_off) as page:
        asked = await open_viewer(page, port)
        await page.locator(".auth-wrapper .authorize").click()
        await page.locator(".auth-container input").fill("lk_op_000000000000_nothing")
        await page.locator(".auth-btn-wrapper .authorize").click()
        await page.locator(".btn-done").click()
        async with page.expect_request("**/v1/status") as sent:
            await page.locator("#operations-fleet-get_v1_status .opblock-summary-control").click()
            await page.get_by_role("button", name="Execute").click()
        assert (await sent.value).headers["authorization"] == "Bearer lk_op_000000000000_nothing"
        assert await page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie])") == '[{},{},""]'
        assert at_home(asked, port), asked


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_it_fits_a_phone_and_a_dark_room(cut_off: Browser, port: int, theme: str) -> None:
    async with page_of(cut_off, PHONE, theme=theme) as page:
        await open_viewer(page, port)
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        shade = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert shade == {"light": "rgb(255, 255, 255)", "dark": "rgb(28, 32, 34)"}[theme]


async def test_an_address_opens_its_operation(cut_off: Browser, port: int) -> None:
    async with page_of(cut_off) as page:
        await page.goto(f"http://127.0.0.1:{port}/docs/browse#/fleet/get_v1_status")
        await expect(page.locator("#operations-fleet-get_v1_status.is-open")).to_be_visible()
